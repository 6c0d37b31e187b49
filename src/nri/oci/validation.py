"""Validate a spec before a runtime rejects it: types of values, and rules between values.

Known fields are checked against `oci.fields`; unknown fields are ignored, as the spec requires. OCI runtimes reject a
container that violates these rules on any machine. The time is linear in the size of the spec.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import NamedTuple

from nri.api import cpuset
from nri.api import messages as m
from nri.oci.fields import OBJECTS, Field, fields_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MAX_PROBLEMS = 100  # nobody reads more

_INTEGERS = {
    "int32": range(-(1 << 31), 1 << 31), "int64": range(-(1 << 63), 1 << 63), "uint16": range(1 << 16),
    "uint32": range(1 << 32), "uint64": range(1 << 64),
}  # fmt: skip


class Problem(NamedTuple):
    """A problem of a spec: its path, and the reason with the value and the allowed values."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


def validate(spec: Any) -> list[Problem]:
    """All problems of a spec for a Linux container, at most `MAX_PROBLEMS`. Returns an empty list if it is valid."""
    return list(itertools.islice(_problems(spec), MAX_PROBLEMS))


def _problems(spec: Any) -> Iterator[Problem]:
    kinds = list(itertools.islice(_object("", "Spec", spec), MAX_PROBLEMS))
    yield from kinds
    if not kinds:  # the rules expect values of the right type
        for path, rule in _RULES:
            yield from rule(path, spec)


# --- kinds


def _object(path: str, kind: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, f"expected an object, not {_short_text(value)}")
        return
    for key, field in fields_of(kind).items():
        if value.get(key) is not None:
            yield from _field(f"{path}.{key}" if path else key, field, value[key])


def _field(path: str, field: Field, value: Any) -> Iterator[Problem]:
    if field.container == "[" and not isinstance(value, list):
        yield Problem(path, f"expected a list, not {_short_text(value)}")
    elif field.container == "{" and not isinstance(value, dict):
        yield Problem(path, f"expected an object, not {_short_text(value)}")
    elif field.container:
        for place, entry in enumerate(value) if field.container == "[" else value.items():
            yield from _single_problems(
                f"{path}[{place}]" if field.container == "[" else f'{path}["{place}"]', field.kind, entry
            )
    else:
        yield from _single_problems(path, field.kind, value)


def _single_problems(path: str, kind: str, value: Any) -> Iterator[Problem]:
    if kind in OBJECTS:
        yield from _object(path, kind, value)
    elif kind == "text":
        if not isinstance(value, str):
            yield Problem(path, f"expected a string, not {_short_text(value)}")
        elif "\0" in value:
            yield Problem(path, "contains a zero byte")
    elif kind == "bool":
        if not isinstance(value, bool):
            yield Problem(path, f"expected true or false, not {_short_text(value)}")
    elif not isinstance(value, int) or isinstance(value, bool):
        yield Problem(path, f"expected a whole number, not {_short_text(value)}")
    elif value not in _INTEGERS[kind]:
        yield Problem(path, f"{value} is out of range ({_INTEGERS[kind][0]} to {_INTEGERS[kind].stop - 1})")


def _short_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- rules

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]*)?")
_PAGE_SIZE = re.compile(r"[1-9][0-9]*[KMGTPE]?B")
_RLIMIT = re.compile(r"RLIMIT_[A-Z]+")
_DEVICE_TYPES = ("c", "u", "b", "p")
_NAMESPACES = ("pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time")
_PROPAGATIONS = ("", "private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable", "runbindable")
_ACTIONS = tuple(
    f"SCMP_ACT_{name}"
    for name in ("KILL", "KILL_PROCESS", "KILL_THREAD", "TRAP", "ERRNO", "TRACE", "ALLOW", "LOG", "NOTIFY")
)
_OPERATORS = tuple(f"SCMP_CMP_{name}" for name in ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"))


def _value_at(spec: Any, path: str) -> Any:
    """The value at a path, or None."""
    for key in path.split("."):
        spec = spec.get(key) if spec is not None else None
    return spec


def _one_of(allowed: Any) -> Callable[[str, Any], Iterator[Problem]]:
    """Make the rule that a string must be an allowed name."""
    names = tuple(allowed)

    def rule(path: str, spec: Any) -> Iterator[Problem]:
        for value_path, value in _values_at(path, spec):
            if value is not None and value not in names:
                yield Problem(value_path, f'"{value}" is not one of {", ".join(name for name in names if name)}')

    return rule


def _values_at(path: str, value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values at a path, with their paths. ``[]`` in a path means every entry of a list."""
    first, _, remainder = path.partition(".")
    key = first.removesuffix("[]")
    child = value.get(key)
    child_path = f"{above}.{key}" if above else key
    entries = (
        [(child_path, child)]
        if first == key
        else [(f"{child_path}[{n}]", entry) for n, entry in enumerate(child or ())]
    )
    for name, entry in entries:
        if not remainder:
            yield name, entry
        elif entry is not None:
            yield from _values_at(remainder, entry, name)


def _matches(check: Callable[[str], bool], expected: str) -> Callable[[str, Any], Iterator[Problem]]:
    """Make the rule that a string must pass a check."""

    def rule(path: str, spec: Any) -> Iterator[Problem]:
        for value_path, value in _values_at(path, spec):
            if not check(value or ""):
                yield Problem(value_path, f'"{value or ""}" is not {expected}')

    return rule


def _unique_names(key: str) -> Callable[[str, Any], Iterator[Problem]]:
    """Make the rule that the names of a list's entries are unique."""

    def rule(path: str, spec: Any) -> Iterator[Problem]:
        path_by_name: dict[str, str] = {}
        for entry_path, entry in _values_at(path, spec):
            name = entry.get(key) or ""
            if name in path_by_name:
                yield Problem(f"{entry_path}.{key}", f'"{name}" is already used by {path_by_name[name]}')
            path_by_name.setdefault(name, entry_path)

    return rule


def _process(path: str, spec: Any) -> Iterator[Problem]:
    process = spec.get(path)
    if process is None:
        return
    if not process.get("args"):
        yield Problem(f"{path}.args", "a program to run is required")
    for number, entry in enumerate(process.get("env") or ()):
        if entry.find("=") <= 0:
            yield Problem(f"{path}.env[{number}]", f"{_short_text(entry)} is not of the form NAME=value")


def _limits(path: str, spec: Any) -> Iterator[Problem]:
    for limit_path, limit in _values_at(path, spec):
        soft, hard = limit.get("soft") or 0, limit.get("hard") or 0
        if soft > hard:
            yield Problem(limit_path, f"the soft limit {soft} exceeds the hard limit {hard}")


def _memory(path: str, spec: Any) -> Iterator[Problem]:
    memory = _value_at(spec, path) or {}
    limit, swap = memory.get("limit") or 0, memory.get("swap") or 0
    if 0 < swap < limit:
        yield Problem(f"{path}.swap", f"{swap} is below the memory limit {limit}, which it must include")
    if limit < 0 < swap:
        yield Problem(f"{path}.swap", f"{swap} limits memory plus swap, so memory alone must be limited, too")
    if (memory.get("swappiness") or 0) > 100:
        yield Problem(f"{path}.swappiness", f"{memory['swappiness']} exceeds 100")


def _cpu_list(path: str, spec: Any) -> Iterator[Problem]:
    try:
        cpuset.parse(_value_at(spec, path) or "")
    except ValueError as error:
        yield Problem(path, str(error))


def _mappings(path: str, spec: Any) -> Iterator[Problem]:
    kinds = {row.get("type") for row in _value_at(spec, path) or ()}
    if "user" not in kinds and (_value_at(spec, "linux.uidMappings") or _value_at(spec, "linux.gidMappings")):
        yield Problem("linux.uidMappings", "ID mappings require a user namespace")
    if "time" not in kinds and _value_at(spec, "linux.timeOffsets"):
        yield Problem("linux.timeOffsets", "time offsets require a time namespace")


def _names(enum: Any, *without: str) -> tuple[str, ...]:
    return tuple(name for name in enum.keys() if name not in without)  # noqa: SIM118  (a wrapper, and no dict)


_absolute = _matches(lambda text: text.startswith("/"), "an absolute path")
#: The rules, each with the path of its values.
_RULES: tuple[tuple[str, Callable[[str, Any], Iterator[Problem]]], ...] = (
    ("ociVersion", _matches(lambda text: _VERSION.fullmatch(text) is not None, "a version such as 1.2.0")),
    ("root.path", _matches(bool, "a directory")),
    ("process", _process),
    ("process.cwd", _absolute),
    (
        "process.rlimits[].type",
        _matches(lambda text: bool(_RLIMIT.fullmatch(text)), "a limit such as RLIMIT_NOFILE"),
    ),
    ("process.rlimits[]", _unique_names("type")),
    ("process.rlimits[]", _limits),
    ("process.ioPriority.class", _one_of(_names(m.IOPrioClass, "IOPRIO_CLASS_NONE"))),
    ("process.scheduler.policy", _one_of(_names(m.LinuxSchedulerPolicy, "SCHED_NONE"))),
    ("process.scheduler.flags[]", _one_of(_names(m.LinuxSchedulerFlag))),
    ("mounts[].destination", _absolute),
    *((f"hooks.{name}[].path", _absolute) for name in fields_of("Hooks")),
    ("linux.namespaces[].type", _one_of(_NAMESPACES)),
    ("linux.namespaces[]", _unique_names("type")),
    ("linux.namespaces", _mappings),
    ("linux.devices[].path", _absolute),
    ("linux.devices[].type", _one_of(_DEVICE_TYPES)),
    ("linux.devices[]", _unique_names("path")),
    ("linux.rootfsPropagation", _one_of(_PROPAGATIONS)),
    ("linux.seccomp.defaultAction", _one_of(_ACTIONS)),
    ("linux.seccomp.syscalls[].action", _one_of(_ACTIONS)),
    ("linux.seccomp.syscalls[].args[].op", _one_of(_OPERATORS)),
    ("linux.memoryPolicy.mode", _one_of(_names(m.MpolMode))),
    ("linux.memoryPolicy.flags[]", _one_of(_names(m.MpolFlag))),
    ("linux.resources.memory", _memory),
    ("linux.resources.cpu.cpus", _cpu_list),
    ("linux.resources.cpu.mems", _cpu_list),
    ("linux.resources.devices[].type", _one_of(("", "a", *_DEVICE_TYPES))),
    ("linux.resources.devices[].access", _matches(lambda text: not text.strip("rwm"), "made of r, w and m")),
    (
        "linux.resources.hugepageLimits[].pageSize",
        _matches(lambda text: bool(_PAGE_SIZE.fullmatch(text)), "such as 2MB"),
    ),
    ("linux.resources.hugepageLimits[]", _unique_names("pageSize")),
)
