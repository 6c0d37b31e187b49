"""The result of an update, field by field: applied, clamped, unsupported, refused or stale, with a reason.

The wire knows only which updates failed. A runtime that knows more says more: its update callback returns one
`UpdateResult` per update (or simply the updates that failed), and `commit` of a reply takes them for the updates of an
event. A field that is not named counts as applied, so a runtime only names those that were not:

    result = UpdateResult(update)
    result.mark_clamped("cpu.shares", 262144, "the kernel's maximum")
    result.mark_unsupported("rdt_class", "no resctrl on this node")
    result.mark_refused("runc: memory.max: Device or resource busy", "memory.limit")

Fields are named below `resources`: `memory.limit`, `unified[memory.high]`, `hugepage_limits[2MB]`. Next:
`nri.adaptation.containers.answer_order`: which of two updates counts.
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

__all__ = [
    "APPLIED",
    "CLAMPED",
    "REFUSED",
    "STALE",
    "UNSUPPORTED",
    "FieldOutcome",
    "UpdateResult",
    "field_names",
    "results_of",
]

#: The field has the value that was asked for.
APPLIED = "applied"
#: It has another value, as near as the machine allows.
CLAMPED = "clamped"
#: This runtime or this machine cannot do it.
UNSUPPORTED = "unsupported"
#: It was tried: the OCI runtime, or the container runtime below, refused it.
REFUSED = "refused"
#: The container is gone or in a state in which it cannot be updated, or a later answer has set the field.
STALE = "stale"

_PREFIX = "linux.resources."
_UNEXPLAINED = "the runtime reports that the update failed"


@dataclass(frozen=True, slots=True)
class FieldOutcome:
    """One field of one update.

    Attributes:
        field: its name, such as `cpu.shares` or `unified[memory.high]`.
        outcome: APPLIED, CLAMPED, UNSUPPORTED, REFUSED or STALE.
        reason: why, unless it was applied.
        value: what it is now, if it was clamped.
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
    """The result of one update, a message or an `nri.Update`: a row for every field that it asks for.

    Attributes:
        update: the update, as a message.
    """

    __slots__ = ("_rows", "update")

    def __init__(self, update: m.ContainerUpdate | Update) -> None:
        message: Any = update if isinstance(update, m.ContainerUpdate) else getattr(update, "message", None)
        if not isinstance(message, m.ContainerUpdate):
            raise TypeError(f"UpdateResult() takes a ContainerUpdate or nri.Update, not {type(update).__name__}")
        self.update = message
        self._rows = {name: FieldOutcome(name) for name in field_names(message.linux.resources)}

    @classmethod
    def all_stale(cls, update: m.ContainerUpdate | Update, reason: str) -> Self:
        """The result for a container that is not there: nothing of the update was done."""
        result = cls(update)
        result.mark_stale(reason)
        return result

    def mark_clamped(self, field: str, value: object, reason: str) -> Self:
        """Note that a field got `value` instead of what was asked for."""
        return self._set(FieldOutcome(field, CLAMPED, reason, value))

    def mark_unsupported(self, field: str, reason: str) -> Self:
        """Note that a field was left alone: this runtime or this machine cannot do it."""
        return self._set(FieldOutcome(field, UNSUPPORTED, reason))

    def mark_refused(self, reason: str, *fields: str) -> Self:
        """Note that the OCI runtime refused the update, or these fields; without names, all that have not failed."""
        for name in fields or [row.field for row in self.fields if row.outcome in (APPLIED, CLAMPED)]:
            self._set(FieldOutcome(name, REFUSED, reason))
        return self

    def mark_stale(self, reason: str, *fields: str) -> Self:
        """Note that nothing of the update, or of these fields, was done: its time is over."""
        for name in fields or tuple(self._rows):
            self._set(FieldOutcome(name, STALE, reason))
        return self

    def _set(self, row: FieldOutcome) -> Self:
        if row.field not in self._rows:
            asked = ", ".join(self._rows) or "nothing"
            raise ValueError(f"the update of {self.update.container_id} does not ask for {row.field}, but for {asked}")
        self._rows[row.field] = row
        return self

    @property
    def fields(self) -> Sequence[FieldOutcome]:
        """All rows, in the order of the API's fields."""
        return tuple(self._rows.values())

    @property
    def failed(self) -> bool:
        """Whether some field is neither as asked for nor near it."""
        return any(row.outcome in (UNSUPPORTED, REFUSED, STALE) for row in self._rows.values())

    def to_json(self) -> dict[str, Any]:
        """The result as a table of JSON: container and rows; rows that were applied have neither reason nor value."""
        rows = [
            {key: value for key in FieldOutcome.__slots__ if (value := getattr(row, key)) not in ("", None)}
            for row in self.fields
        ]
        return {"container": self.update.container_id, "fields": rows}

    def __repr__(self) -> str:
        return f"<UpdateResult {self.update.container_id}: {'; '.join(map(str, self.fields)) or 'nothing asked for'}>"


def field_names(resources: m.LinuxResources) -> list[str]:
    """The names of the resources that are set; a keyed field once per key."""
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
    """Read what a runtime's callback returned, as the failed updates of the wire and one result per update.

    An update that may fail (`ignore_failure`) is not among the failed ones, whatever became of it.
    """
    told: dict[str, UpdateResult] = {}
    failed = []
    if returned is not None and not isinstance(returned, Iterable):
        raise _wrong(returned, "{}")
    for each in returned or ():
        if not isinstance(each, (UpdateResult, m.ContainerUpdate)):
            raise _wrong(each, "{} among others")
        if isinstance(each, UpdateResult):
            told[each.update.container_id] = each
            if each.failed and not each.update.ignore_failure:
                failed.append(each.update)
        else:
            told[each.container_id] = UpdateResult(each).mark_refused(_UNEXPLAINED)
            failed.append(each)
    return failed, [told.get(update.container_id) or UpdateResult(update) for update in updates]


def _wrong(given: object, what: str) -> TypeError:
    returned = what.format(type(given).__name__)
    wanted = "None for all applied, or a list of the ContainerUpdate messages or UpdateResults that failed is expected"
    return TypeError(f"the runtime's update callback returned {returned}: {wanted}")
