"""The result of an update, field by field: applied, clamped, unsupported, refused or stale, with a reason.

The protocol reports only which updates failed. A runtime can report more: its update callback returns an
`UpdateResult` for each update (or only for the failed updates), and `commit` of a reply takes them for the updates of
an event. Fields count as applied unless they are marked otherwise:

    result = UpdateResult(update)
    result.mark_clamped("cpu.shares", 262144, "the kernel's maximum")
    result.mark_unsupported("rdt_class", "no resctrl on this node")
    result.mark_refused("runc: memory.max: Device or resource busy", "memory.limit")

Field names are relative to `resources`: `memory.limit`, `unified[memory.high]`, `hugepage_limits[2MB]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nri.adaptation.merge.entries import Entry, read
from nri.api import messages as m
from nri.api.fields import RESOURCES_TREE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from nri.api.builders.update import Update

#: The field has the requested value.
APPLIED = "applied"
#: The field has another value: the nearest that the machine allows.
CLAMPED = "clamped"
#: This runtime or this machine does not support the field.
UNSUPPORTED = "unsupported"
#: The OCI runtime, or the container runtime below, refused the field.
REFUSED = "refused"
#: The container is gone or cannot be updated in its state, or a later answer has set the field.
STALE = "stale"

_PREFIX = "linux.resources."
_NO_REASON = "the runtime reports that the update failed"


@dataclass(frozen=True, slots=True)
class FieldOutcome:
    """The outcome of one field of an update.

    Attributes:
        field: the field's name, for example `cpu.shares` or `unified[memory.high]`.
        outcome: APPLIED, CLAMPED, UNSUPPORTED, REFUSED or STALE.
        reason: the reason if the field was not applied.
        value: the field's current value, if it was clamped.
    """

    field: str
    outcome: str = APPLIED
    reason: str = ""
    value: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", str(self.reason))  # an exception is a reason, too

    def __str__(self) -> str:
        now = f" to {self.value}" if self.outcome == CLAMPED else ""
        return f"{self.field} {self.outcome}{now}{': ' + self.reason if self.reason else ''}"


class UpdateResult:
    """The result of an update (a message or an `nri.Update`): a row for every field of the update.

    Attributes:
        update: the update, as a message.
    """

    __slots__ = ("_rows", "update")

    def __init__(self, update: m.ContainerUpdate | Update) -> None:
        message: Any = update if isinstance(update, m.ContainerUpdate) else getattr(update, "message", None)
        if not isinstance(message, m.ContainerUpdate):
            raise TypeError(f"UpdateResult() requires a ContainerUpdate or nri.Update, not {type(update).__name__}")
        self.update = message
        self._rows = {name: FieldOutcome(name) for name in field_names(message.linux.resources)}

    @classmethod
    def all_stale(cls, update: m.ContainerUpdate | Update, reason: str) -> Self:
        """The result for an unknown container: no field of the update was applied."""
        result = cls(update)
        result.mark_stale(reason)
        return result

    def mark_clamped(self, field: str, value: object, reason: str) -> Self:
        """Record that a field got `value` instead of the requested value."""
        return self._set(FieldOutcome(field, CLAMPED, reason, value))

    def mark_unsupported(self, field: str, reason: str) -> Self:
        """Record that this runtime or this machine does not support a field."""
        return self._set(FieldOutcome(field, UNSUPPORTED, reason))

    def mark_refused(self, reason: str, *fields: str) -> Self:
        """Record that the OCI runtime refused these fields; without names, all fields that have not failed."""
        for name in fields or [row.field for row in self.fields if row.outcome in (APPLIED, CLAMPED)]:
            self._set(FieldOutcome(name, REFUSED, reason))
        return self

    def mark_stale(self, reason: str, *fields: str) -> Self:
        """Record that these fields are outdated and were not applied; without names, all fields."""
        for name in fields or tuple(self._rows):
            self._set(FieldOutcome(name, STALE, reason))
        return self

    def _set(self, row: FieldOutcome) -> Self:
        if row.field not in self._rows:
            requested = ", ".join(self._rows) or "nothing"
            raise ValueError(
                f"field {row.field} is not in the update of {self.update.container_id}, which sets {requested}"
            )
        self._rows[row.field] = row
        return self

    @property
    def fields(self) -> Sequence[FieldOutcome]:
        """The rows of all fields, in the order of the API's fields."""
        return tuple(self._rows.values())

    @property
    def failed(self) -> bool:
        """Whether some field was neither applied nor clamped."""
        return any(row.outcome in (UNSUPPORTED, REFUSED, STALE) for row in self._rows.values())

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object: container and rows. Rows that were applied have neither reason nor value."""
        rows = [
            {key: value for key in FieldOutcome.__slots__ if (value := getattr(row, key)) not in ("", None)}
            for row in self.fields
        ]
        return {"container": self.update.container_id, "fields": rows}

    def __repr__(self) -> str:
        return f"<UpdateResult {self.update.container_id}: {'; '.join(map(str, self.fields)) or 'nothing asked for'}>"


def field_names(resources: m.LinuxResources) -> list[str]:
    """The names of the resources that are set. A keyed field occurs once per key."""
    names = []
    for entry in read(resources, RESOURCES_TREE):
        name = entry.row.path.removeprefix(_PREFIX)
        keys = _keys(entry)
        names += [f"{name}[{key}]" for key in keys] if keys else [name]
    return names


def _keys(entry: Entry) -> Sequence[str]:
    return getattr(entry, "keys", ())


def results_of(
    updates: Sequence[m.ContainerUpdate], returned: Iterable[m.ContainerUpdate | UpdateResult] | None
) -> tuple[list[m.ContainerUpdate], list[UpdateResult]]:
    """Convert the return value of a runtime's callback to the failed updates and a result for each update.

    An update with `ignore_failure` never counts as failed.
    """
    result_by_id: dict[str, UpdateResult] = {}
    failed = []
    if returned is not None and not isinstance(returned, Iterable):
        raise _wrong_return(returned, "{}")
    for entry in returned or ():
        if not isinstance(entry, (UpdateResult, m.ContainerUpdate)):
            raise _wrong_return(entry, "{} in a list")
        if isinstance(entry, UpdateResult):
            result_by_id[entry.update.container_id] = entry
            if entry.failed and not entry.update.ignore_failure:
                failed.append(entry.update)
        else:
            result_by_id[entry.container_id] = UpdateResult(entry).mark_refused(_NO_REASON)
            failed.append(entry)
    return failed, [result_by_id.get(update.container_id) or UpdateResult(update) for update in updates]


def _wrong_return(value: object, what: str) -> TypeError:
    returned = what.format(type(value).__name__)
    expected = "it must return None for all applied, or the ContainerUpdates or UpdateResults that failed"
    return TypeError(f"the runtime's update callback returned {returned}: {expected}")
