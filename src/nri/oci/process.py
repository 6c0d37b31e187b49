"""The process of a spec: environment, arguments, hooks, limits, scheduling, and the spec's annotations.

Each function is one step of `nri.oci.generator`: a draft and a part of the adjustment go in, the draft is changed.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.removal import split
from nri.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from nri.oci.draft import Draft
    from nri.rules import Rules

#: The hooks of the API and of the spec, in the order in which they are added.
HOOKS = (
    ("prestart", "prestart"),
    ("poststart", "poststart"),
    ("poststop", "poststop"),
    ("create_runtime", "createRuntime"),
    ("create_container", "createContainer"),
    ("start_container", "startContainer"),
)


def adjust_map(entries: Mapping[str, Any], place: Callable[[], dict[str, Any]], remove: Callable[[str], None]) -> None:
    """Apply a map whose keys may carry the removal mark: removals first, so that removed and set means set."""
    for key in entries:
        name, marked = split(key)
        if marked:
            remove(name)
    for key, value in entries.items():
        if not split(key)[1]:
            place()[key] = value


def annotation_map(draft: Draft, entries: Mapping[str, str]) -> None:
    """Set and remove annotations."""
    adjust_map(entries, lambda: draft.table("annotations"), lambda key: draft.drop("annotations", key))


def env(draft: Draft, adjusted: Iterable[Any], rules: Rules) -> None:
    """Set and remove variables. One that is there is replaced at its place, others are appended.

    In the reference an entry without ``=`` goes when any variable is adjusted, the second of two entries of the spec
    with one name wins over the adjustment, and a variable that is set and then removed is set if the spec lacks it.
    """
    wanted: dict[str, str | None] = {}
    for entry in adjusted:
        name, marked = split(entry.key)
        wanted[name] = None if marked else entry.value
    if not wanted:
        return
    old = draft.texts("process", "env")
    new = _env_of_spec(old, wanted, rules)
    done = {entry.partition("=")[0] for entry in old if "=" in entry}
    for entry in adjusted:
        name, marked = split(entry.key)
        value = wanted[name] if rules.env_adjustment_wins else entry.value
        if not marked and name not in done and value is not None:
            new.put(name, value)
    if new.entries != old:
        draft.rows("process", "env")[:] = new.entries


class _Env:
    """An environment in the making: a name that comes again replaces itself, the empty name is none."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self._places: dict[str, int] = {}

    def put(self, name: str, value: str) -> None:
        if name in self._places:
            self.entries[self._places[name]] = f"{name}={value}"
        elif name:
            self._places[name] = len(self.entries)
            self.entries.append(f"{name}={value}")


def _env_of_spec(old: list[str], wanted: dict[str, str | None], rules: Rules) -> _Env:
    """The spec's variables, with those that are wanted otherwise replaced or left out."""
    new = _Env()
    seen = set()
    for entry in old:
        name, sign, value = entry.partition("=")
        if not sign:
            if rules.bare_env_kept:
                new.entries.append(entry)
        elif name in wanted:
            adjusted = wanted[name]
            if name not in seen and adjusted is not None:
                new.put(name, adjusted)
            elif name in seen and not rules.env_adjustment_wins:
                new.put(name, value)
            seen.add(name)
        elif rules.env_adjustment_wins:
            new.entries.append(entry)
        else:
            new.put(name, value)
    return new


def args(draft: Draft, adjusted: Iterable[str]) -> None:
    """Replace the arguments, unless there are none."""
    wanted = list(adjusted)
    if wanted:
        draft.table("process")["args"] = wanted


def hooks(draft: Draft, adjusted: Any) -> None:
    """Append hooks to those that are there."""
    for field, name in HOOKS:
        for hook in getattr(adjusted, field):
            draft.rows("hooks", name).append(_hook(hook))


def _hook(hook: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"path": hook.path}
    if hook.args:
        made["args"] = list(hook.args)
    if hook.env:
        made["env"] = list(hook.env)
    if hook.HasField("timeout"):
        made["timeout"] = hook.timeout.value
    return made


def rlimits(draft: Draft, adjusted: Iterable[Any], rules: Rules) -> None:
    """Set resource limits; one of a type that is there replaces it. In the reference it is appended."""
    for limit in adjusted:
        rows = draft.rows("process", "rlimits")
        made = {"type": limit.type, "hard": limit.hard, "soft": limit.soft}
        if rules.rlimits_replace:
            places = [
                place for place, row in enumerate(rows) if isinstance(row, dict) and row.get("type") == limit.type
            ]
            for place in reversed(places[1:]):
                del rows[place]
            if places:
                rows[places[0]] = {**rows[places[0]], **made}
                continue
        rows.append(made)


def io_priority(draft: Draft, adjusted: Any, rules: Rules) -> None:
    """Set the I/O priority; the class NONE takes the spec's away."""
    name = enum_name(m.IOPrioClass, adjusted.__class__.__name__, getattr(adjusted, "class"), rules)
    if name in ("", "IOPRIO_CLASS_NONE"):
        draft.table("process")
        draft.drop("process", "ioPriority")
    else:
        draft.table("process")["ioPriority"] = {"class": name, "priority": adjusted.priority}


def scheduler(draft: Draft, adjusted: Any, rules: Rules) -> None:
    """Set the scheduling policy; SCHED_NONE takes the spec's away."""
    name = enum_name(m.LinuxSchedulerPolicy, "LinuxScheduler", adjusted.policy, rules)
    process = draft.table("process")
    if name == "SCHED_NONE":
        process.pop("scheduler", None)
        return
    made: dict[str, Any] = {"policy": name}
    for field in ("nice", "priority"):
        if value := getattr(adjusted, field):
            made[field] = value
    if adjusted.flags:
        made["flags"] = [enum_name(m.LinuxSchedulerFlag, "LinuxScheduler", flag, rules) for flag in adjusted.flags]
    for field in ("runtime", "deadline", "period"):
        if value := getattr(adjusted, field):
            made[field] = value
    process["scheduler"] = made


def enum_name(enum: Any, owner: str, number: int, rules: Rules) -> str:
    """The spec's name of an enum's value, which is the API's.

    A value that this API does not have yet is a SpecError; in the reference it is an empty name.
    """
    try:
        name: str = enum.Name(number)
    except ValueError:
        if rules.unknown_values_refused:
            raise SpecError("", f"{owner}: {number} is no value of {enum.DESCRIPTOR.name}") from None
        return ""
    return name
