"""Values that were applied and are there no more: what the runtime, plugins and the agent gave, and what a cgroup has.

    drift = Drift(detect(MACHINE))
    for change in drift.look(desired_values(pod, container, "runtime")):
        print(change)

Rules: reads only. A value counts as there if the file's unit cannot tell it from what was wanted (a weight for shares,
a limit in whole pages). Where two want different values of one file, the one whose value is there has overwritten the
other; a value that none of them wanted was written past them all. When is known as well as it is looked: between the
last look that found it well and the first that did not. Next: `nri.host.cgroups`, which knows the files.
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

__all__ = ["MOST_VALUES", "Change", "DesiredValue", "Drift", "desired_values", "field_of"]

#: Values that are looked after, and changes that are remembered.
MOST_VALUES: Final = 100_000
MAX_CHANGES: Final = 1000
_PAGE: Final = 4096
_UNLIMITED: Final = -1
#: The content of a file that was never limited: the greatest number of whole pages.
_HUGE: Final = 1 << 62


class DesiredValue(NamedTuple):
    """A value that a cgroup was given.

    Attributes:
        subject: NAMESPACE/POD/CONTAINER, or what else it is of.
        cgroup: its path.
        name: of the knob.
        value: in the knob's unit.
        source: who has given it, such as "runtime" or "agent".
    """

    subject: str
    cgroup: str
    name: str
    value: Value
    source: str


class Change(NamedTuple):
    """A value that is another one now, or is back.

    Attributes:
        desired: the value that was given.
        found: what is there; None if it is as wanted again.
        before: what was there at the last look; None if nothing had been looked at.
        after_s, until_s: seconds since 1970 between which it changed; `after_s` is 0 if it was so at the first look.
        by: the source that wants what is there now; "" if none does.
    """

    desired: DesiredValue
    found: Value | None
    before: Value | None
    after_s: float
    until_s: float
    by: str

    def to_json(self) -> dict[str, Any]:
        """The change as a table of JSON."""
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
    """A value for a person: a set as a list of numbers and ranges."""
    if isinstance(value, frozenset):
        return to_text(sorted(value))
    return dict(value) if isinstance(value, Mapping) else value


_LABELS: Final = {row.path: row.label for row in ROWS}


def field_of(name: str) -> str:
    """The field of NRI for a knob, as histories of containers name it; "" if it has none."""
    path = f"linux.resources.{FIELDS.get(name, '')}"
    return _LABELS.get(path) or _LABELS.get(path.rpartition(".")[0], "")


def desired_values(pod: m.PodSandbox | None, container: m.Container, source: str) -> Iterator[DesiredValue]:
    """The values that a container was given, by its message. Nothing for one without a cgroup's path in it."""
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
            given = row.parse(value) if isinstance(value, str) else value
        except (KeyError, ValueError, ConfigError):
            continue  # a class, or what no file has; what cannot be read no kernel has taken
        if name in ("cpu.cfs_quota", "memory.limit", "memory.and_swap_limit", "pids.limit") and given in (0, -1):
            given = _UNLIMITED
            if name != "cpu.cfs_quota":
                continue  # runtimes say 0 for what was never set
        elif given in (0, frozenset()):
            continue
        yield DesiredValue(subject, cgroup, name, given, source)


def _value(resources: Any, path: str) -> Any:
    """A field of the message, out of its wrapper; None if it is not set."""
    for part in path.split("."):
        field = resources.DESCRIPTOR.fields_by_name[part]
        if field.message_type is not None and not resources.HasField(part):
            return None
        resources = getattr(resources, part)
    return getattr(resources, "value", resources) if hasattr(resources, "DESCRIPTOR") else resources or None


class _Known(NamedTuple):
    """The last look at one value."""

    well: bool
    found: Value
    at_s: float


class Drift:
    """Looks after values.

    Args:
        hierarchies: the machine's cgroups.
        clock: seconds since 1970.

    Attributes:
        changes: those that were found, the newest last; bounded.
        count: how many there were.
        left_out: values for which there was no room, at the last look.
        unread: values whose file is not there or cannot be read, at the last look.
    """

    def __init__(self, hierarchies: Hierarchies, *, clock: Callable[[], float] = time) -> None:
        self._hierarchies, self._clock = hierarchies, clock
        self._known: dict[tuple[str, str, str, str], _Known] = {}
        self._now: OrderedDict[tuple[str, str, str, str], Change] = OrderedDict()
        self.changes: list[Change] = []
        self.count = self.left_out = self.unread = 0

    def look(self, values: Iterable[DesiredValue]) -> list[Change]:
        """Look at all these values; returns what has changed since the last look. It forgets gone containers."""
        at_s = self._clock()
        unique = list(dict.fromkeys(values))
        rows = unique[:MOST_VALUES]
        self.left_out, self.unread = len(unique) - len(rows), 0
        rivals: dict[tuple[str, str], list[DesiredValue]] = {}
        for desired in rows:
            rivals.setdefault((desired.cgroup, desired.name), []).append(desired)
        before, self._known = self._known, {}
        found = [
            change
            for desired in rows
            if (change := self._one(desired, rivals[desired.cgroup, desired.name], before, at_s)) is not None
        ]
        for key in [key for key in self._now if key not in self._known]:
            del self._now[key]
        self.count += len(found)
        self.changes = [*self.changes, *found][-MAX_CHANGES:]
        return found

    def _one(
        self,
        desired: DesiredValue,
        rivals: list[DesiredValue],
        before: dict[tuple[str, str, str, str], _Known],
        at_s: float,
    ) -> Change | None:
        there = self._read(desired)
        if there is None:
            self.unread += 1
            return None
        text, found, well = there
        key = (desired.cgroup, desired.name, desired.source, str(shown(desired.value)))
        last = before.get(key)
        self._known[key] = _Known(well, found, at_s)
        if well:
            if self._now.pop(key, None) is None or last is None:
                return None
            return Change(desired, None, last.found, last.at_s, at_s, "")
        if last is not None and not last.well and last.found == found:
            return None
        by = next((one.source for one in rivals if one.source != desired.source and _holds(one, text, found)), "")
        change = Change(desired, found, last and last.found, last.at_s if last else 0.0, at_s, by)
        self._now[key] = change
        return change

    def _read(self, desired: DesiredValue) -> tuple[str, Value, bool] | None:
        """The text of a value's file, the value there, and whether it is as desired; None without such a file."""
        try:
            located = locate(self._hierarchies, knob(desired.name), desired.cgroup)
            if isinstance(located, Unsupported):
                return None
            text = self._hierarchies.files.read(located.path)
            found = located.place.codec.decode(text)
        except (OSError, ValueError, KeyError):
            return None
        return text, found, located.place.codec.holds(text, desired.value) or _same(desired.value, found)

    @property
    def looked_at(self) -> int:
        """Values that could be compared, at the last look."""
        return len(self._known)

    def now(self) -> list[Change]:
        """The values that are another one now."""
        return list(self._now.values())


def _holds(desired: DesiredValue, text: str, found: Value) -> bool:
    places = knob(desired.name).v1 + knob(desired.name).v2
    return any(place.codec.holds(text, desired.value) for place in places) or _same(desired.value, found)


def _same(wanted: Value, found: Value) -> bool:
    """Whether two numbers differ by less than a page, as limits of memory may, or are both no limit."""
    if not (isinstance(wanted, int) and isinstance(found, int)):
        return wanted == found
    if min(wanted, found) == _UNLIMITED or max(wanted, found) >= _HUGE:
        return wanted == found or ((wanted in (0, _UNLIMITED) or wanted >= _HUGE) and found in (0, _UNLIMITED))
    return wanted == found or (wanted >= 1 << 20 and wanted // _PAGE == found // _PAGE)
