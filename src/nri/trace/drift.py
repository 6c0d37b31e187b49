"""Compare the values of the cgroups with the values that the runtime, plugins and the agent have applied.

    drift = Drift(detect(MACHINE))
    for change in drift.check(desired_values(pod, container, "runtime")):
        print(change)

Values are equal if the file's unit cannot distinguish them (a weight for shares, a limit in whole pages). The time of a
change is an interval: after the last check that found the desired value, and before the first check that did not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from time import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.adaptation.merge import ROWS
from nri.api.cpuset import to_text
from nri.errors import ConfigError
from nri.host import Unsupported
from nri.host.cgroups import expand, knob
from nri.host.cgroups.fields import FIELDS
from nri.host.cgroups.support import locate
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nri.api import messages as m
    from nri.host.cgroups import Hierarchies, Value

#: At most this many values are compared.
MAX_VALUES: Final = 100_000
#: At most this many changes are stored.
MAX_CHANGES: Final = 1000
_PAGE: Final = 4096
_UNLIMITED: Final = -1
#: The kernel shows "no limit" as the greatest number of whole pages. This value and greater values mean "no limit".
_HUGE: Final = 1 << 62


class DesiredValue(NamedTuple):
    """A value that was applied to a cgroup.

    Attributes:
        subject: NAMESPACE/POD/CONTAINER, or another name for the owner of the cgroup.
        cgroup: the path of the cgroup.
        name: the name of the setting in `nri.host.cgroups`.
        value: the value in the unit of the setting.
        source: the program that applied the value, for example "runtime" or "agent".
    """

    subject: str
    cgroup: str
    name: str
    value: Value
    source: str


class Change(NamedTuple):
    """A value that now differs from the desired value, or that is restored.

    Attributes:
        desired: the desired value.
        found: the current value; None if it equals the desired value again.
        before: the value at the last check; None at the first check.
        after_s, until_s: the times between which the value changed, in seconds since 1970; `after_s` is 0 at the first
            check.
        by: the source whose desired value is the current value, or "".
    """

    desired: DesiredValue
    found: Value | None
    before: Value | None
    after_s: float
    until_s: float
    by: str

    def to_json(self) -> dict[str, Any]:
        """The change as a JSON object."""
        return {
            "subject": self.desired.subject,
            "cgroup": self.desired.cgroup,
            "knob": self.desired.name,
            "wanted": shown(self.desired.value),
            "wanted_by": self.desired.source,
            "found": shown(self.found),
            "before": shown(self.before),
            "after_s": self.after_s,
            "until_s": self.until_s,
            "by": self.by,
        }


def shown(value: Value | None) -> Any:
    """A value for output. A set becomes a list of numbers and ranges."""
    if isinstance(value, frozenset):
        return to_text(sorted(value))
    return dict(value) if isinstance(value, Mapping) else value


_LABELS: Final = {row.path: row.label for row in ROWS}


def field_of(name: str) -> str:
    """The label of a setting's NRI field in histories of containers, or "" if it has no field."""
    path = f"linux.resources.{FIELDS.get(name, '')}"
    return _LABELS.get(path) or _LABELS.get(path.rpartition(".")[0], "")


def desired_values(pod: m.PodSandbox | None, container: m.Container, source: str) -> Iterator[DesiredValue]:
    """Yield the values that were applied to a container, according to its message.

    Yields nothing without a cgroup path.
    """
    try:
        cgroup = expand(container.linux.cgroups_path)
    except ValueError:
        return
    if not cgroup or not container.linux.HasField("resources"):
        return
    names = ([pod.namespace, pod.name] if pod is not None else []) + [container.name or container.id[:13]]
    subject = plain("/".join(name for name in names if name), 300)
    for name, path in FIELDS.items():
        value = _value(container.linux.resources, path)
        if value is None:
            continue
        try:
            row = knob(name)
            desired = row.parse(value) if isinstance(value, str) else value
        except (KeyError, ValueError, ConfigError):
            continue  # an RDT or block I/O class, a value without a file, or an invalid value: not in a cgroup file
        if name in ("cpu.cfs_quota", "memory.limit", "memory.and_swap_limit", "pids.limit") and desired in (0, -1):
            desired = _UNLIMITED
            if name != "cpu.cfs_quota":
                continue  # runtimes send 0 for unset values
        elif desired in (0, frozenset()):
            continue
        yield DesiredValue(subject, cgroup, name, desired, source)


def _value(resources: Any, path: str) -> Any:
    """The value of a field of the message. Returns None if the field is not set."""
    for part in path.split("."):
        field = resources.DESCRIPTOR.fields_by_name[part]
        if field.message_type is not None and not resources.HasField(part):
            return None
        resources = getattr(resources, part)
    return getattr(resources, "value", resources) if hasattr(resources, "DESCRIPTOR") else resources or None


class _Reading(NamedTuple):
    """The outcome of the last check at a value."""

    is_as_desired: bool
    value: Value
    at_s: float


class Drift:
    """Finds values that were changed.

    Args:
        hierarchies: the machine's cgroups.
        clock: returns the time in seconds since 1970.

    Attributes:
        changes: the newest changes, the newest last.
        count: the number of all changes so far.
        left_out: the number of values that the last check did not compare, because of `MAX_VALUES`.
        unread: the number of values whose file was missing or unreadable at the last check.
    """

    def __init__(self, hierarchies: Hierarchies, *, clock: Callable[[], float] = time) -> None:
        self._hierarchies, self._clock = hierarchies, clock
        self._readings: dict[tuple[str, str, str, str], _Reading] = {}
        self._current_changes: OrderedDict[tuple[str, str, str, str], Change] = OrderedDict()
        self.changes: list[Change] = []
        self.count = self.left_out = self.unread = 0

    def check(self, values: Iterable[DesiredValue]) -> list[Change]:
        """Compare these values. Returns the changes since the last check."""
        at_s = self._clock()
        # The agent also reports values that the runtime has applied for it: the first source stands for both.
        by_value: dict[tuple[str, str, str], DesiredValue] = {}
        for value in values:
            by_value.setdefault((value.cgroup, value.name, str(shown(value.value))), value)
        unique = list(by_value.values())
        rows = unique[:MAX_VALUES]
        self.left_out, self.unread = len(unique) - len(rows), 0
        rivals: dict[tuple[str, str], list[DesiredValue]] = {}
        for desired in rows:
            rivals.setdefault((desired.cgroup, desired.name), []).append(desired)
        before, self._readings = self._readings, {}
        changes = [
            change
            for desired in rows
            if (change := self._change(desired, rivals[desired.cgroup, desired.name], before, at_s)) is not None
        ]
        for key in [key for key in self._current_changes if key not in self._readings]:
            del self._current_changes[key]
        self.count += len(changes)
        self.changes = [*self.changes, *changes][-MAX_CHANGES:]
        return changes

    def _change(
        self,
        desired: DesiredValue,
        rivals: list[DesiredValue],
        before: dict[tuple[str, str, str, str], _Reading],
        at_s: float,
    ) -> Change | None:
        reading = self._read(desired)
        if reading is None:
            self.unread += 1
            return None
        text, value, is_as_desired = reading
        key = (desired.cgroup, desired.name, desired.source, str(shown(desired.value)))
        last = before.get(key)
        self._readings[key] = _Reading(is_as_desired, value, at_s)
        if is_as_desired:
            if self._current_changes.pop(key, None) is None or last is None:
                return None
            return Change(desired, None, last.value, last.at_s, at_s, "")
        if last is not None and not last.is_as_desired and last.value == value:
            return None
        by = next(
            (one.source for one in rivals if one.source != desired.source and _is_as_desired(one, text, value)), ""
        )
        change = Change(desired, value, last and last.value, last.at_s if last else 0.0, at_s, by)
        self._current_changes[key] = change
        return change

    def _read(self, desired: DesiredValue) -> tuple[str, Value, bool] | None:
        """The text of a value's file, its value, and whether it is the desired value.

        Returns None without such a file.
        """
        try:
            located = locate(self._hierarchies, knob(desired.name), desired.cgroup)
            if isinstance(located, Unsupported):
                return None
            text = self._hierarchies.files.read(located.path)
            value = located.place.codec.decode(text)
        except (OSError, ValueError, KeyError):
            return None
        return text, value, located.place.codec.holds(text, desired.value) or _are_equal(desired.value, value)

    @property
    def compared_count(self) -> int:
        """The number of values that could be compared at the last check."""
        return len(self._readings)

    def now(self) -> list[Change]:
        """The values that differ now."""
        return list(self._current_changes.values())


def _is_as_desired(desired: DesiredValue, text: str, value: Value) -> bool:
    places = knob(desired.name).v1 + knob(desired.name).v2
    return any(place.codec.holds(text, desired.value) for place in places) or _are_equal(desired.value, value)


def _are_equal(desired: Value, value: Value) -> bool:
    """Whether values are equal, are numbers in the same page, or both mean "no limit"."""
    if not (isinstance(desired, int) and isinstance(value, int)):
        return desired == value
    if min(desired, value) == _UNLIMITED or max(desired, value) >= _HUGE:
        return desired == value or ((desired in (0, _UNLIMITED) or desired >= _HUGE) and value in (0, _UNLIMITED))
    return desired == value or (desired >= 1 << 20 and desired // _PAGE == value // _PAGE)
