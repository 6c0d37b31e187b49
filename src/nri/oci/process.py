"""Steps of the generator for a spec's process, hooks and annotations.

Each public function applies some fields of the adjustment to a draft.
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


def adjust_map(entries: Mapping[str, Any], target: Callable[[], dict[str, Any]], remove: Callable[[str], None]) -> None:
    """Apply a map with keys that may have the removal mark. Removals come first, so a key in both forms is set."""
    for key in entries:
        name, is_removal = split(key)
        if is_removal:
            remove(name)
    for key, value in entries.items():
        if not split(key)[1]:
            target()[key] = value


def annotation_map(draft: Draft, entries: Mapping[str, str]) -> None:
    """Set and remove annotations."""
    adjust_map(entries, lambda: draft.table("annotations"), lambda key: draft.drop("annotations", key))


def env(draft: Draft, adjusted: Iterable[Any], rules: Rules) -> None:
    """Set and remove environment variables. Existing variables are replaced in place, others are appended.

    In the Go library an entry without ``=`` is lost when any variable is adjusted. The second of two entries of the
    spec with one name overrides the adjustment. A variable that is set and then removed is set if the spec does not
    have it.
    """
    new_values: dict[str, str | None] = {}
    for entry in adjusted:
        name, is_removal = split(entry.key)
        new_values[name] = None if is_removal else entry.value
    if not new_values:
        return
    old = draft.texts("process", "env")
    new = _env_of_spec(old, new_values, rules)
    spec_names = {entry.partition("=")[0] for entry in old if "=" in entry}
    for entry in adjusted:
        name, is_removal = split(entry.key)
        value = new_values[name] if rules.env_adjustment_wins else entry.value
        if not is_removal and name not in spec_names and value is not None:
            new.put(name, value)
    if new.entries != old:
        draft.rows("process", "env")[:] = new.entries


class _Env:
    """An environment under construction: a repeated name replaces its entry, an empty name is ignored."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self._place_by_name: dict[str, int] = {}

    def put(self, name: str, value: str) -> None:
        if name in self._place_by_name:
            self.entries[self._place_by_name[name]] = f"{name}={value}"
        elif name:
            self._place_by_name[name] = len(self.entries)
            self.entries.append(f"{name}={value}")


def _env_of_spec(old: list[str], new_values: dict[str, str | None], rules: Rules) -> _Env:
    """The spec's variables, with adjusted variables replaced or removed."""
    new = _Env()
    replaced = set()
    for entry in old:
        name, sign, value = entry.partition("=")
        if not sign:
            if rules.bare_env_kept:
                new.entries.append(entry)
        elif name in new_values:
            adjusted = new_values[name]
            if name not in replaced and adjusted is not None:
                new.put(name, adjusted)
            elif name in replaced and not rules.env_adjustment_wins:
                new.put(name, value)
            replaced.add(name)
        elif rules.env_adjustment_wins:
            new.entries.append(entry)
        else:
            new.put(name, value)
    return new


def args(draft: Draft, adjusted: Iterable[str]) -> None:
    """Replace the arguments, unless the adjustment has none."""
    arguments = list(adjusted)
    if arguments:
        draft.table("process")["args"] = arguments


def hooks(draft: Draft, adjusted: Any) -> None:
    """Append hooks to the existing hooks."""
    for field, name in HOOKS:
        for hook in getattr(adjusted, field):
            draft.rows("hooks", name).append(_hook(hook))


def _hook(hook: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"path": hook.path}
    if hook.args:
        row["args"] = list(hook.args)
    if hook.env:
        row["env"] = list(hook.env)
    if hook.HasField("timeout"):
        row["timeout"] = hook.timeout.value
    return row


def rlimits(draft: Draft, adjusted: Iterable[Any], rules: Rules) -> None:
    """Set resource limits. A limit replaces the limit of its type. In the Go library it is appended."""
    for limit in adjusted:
        rows = draft.rows("process", "rlimits")
        new_row = {"type": limit.type, "hard": limit.hard, "soft": limit.soft}
        if rules.rlimits_replace:
            places = [
                place for place, row in enumerate(rows) if isinstance(row, dict) and row.get("type") == limit.type
            ]
            for place in reversed(places[1:]):
                del rows[place]
            if places:
                rows[places[0]] = {**rows[places[0]], **new_row}
                continue
        rows.append(new_row)


def io_priority(draft: Draft, adjusted: Any, rules: Rules) -> None:
    """Set the I/O priority. The class NONE removes it."""
    name = enum_name(m.IOPrioClass, adjusted.__class__.__name__, getattr(adjusted, "class"), rules)
    if name in ("", "IOPRIO_CLASS_NONE"):
        draft.table("process")
        draft.drop("process", "ioPriority")
    else:
        draft.table("process")["ioPriority"] = {"class": name, "priority": adjusted.priority}


def scheduler(draft: Draft, adjusted: Any, rules: Rules) -> None:
    """Set the scheduling policy. SCHED_NONE removes it."""
    name = enum_name(m.LinuxSchedulerPolicy, "LinuxScheduler", adjusted.policy, rules)
    process = draft.table("process")
    if name == "SCHED_NONE":
        process.pop("scheduler", None)
        return
    row: dict[str, Any] = {"policy": name}
    for field in ("nice", "priority"):
        if value := getattr(adjusted, field):
            row[field] = value
    if adjusted.flags:
        row["flags"] = [enum_name(m.LinuxSchedulerFlag, "LinuxScheduler", flag, rules) for flag in adjusted.flags]
    for field in ("runtime", "deadline", "period"):
        if value := getattr(adjusted, field):
            row[field] = value
    process["scheduler"] = row


def enum_name(enum: Any, owner: str, number: int, rules: Rules) -> str:
    """The name of an enum's value, which is the same in the API and in the spec.

    Raises SpecError if the value is unknown. In the Go library it becomes an empty name.
    """
    try:
        name: str = enum.Name(number)
    except ValueError:
        if rules.unknown_values_refused:
            raise SpecError("", f"{owner}: {number} is not a value of {enum.DESCRIPTOR.name}") from None
        return ""
    return name
