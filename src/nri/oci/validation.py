"""Problems of a spec, found before a runtime refuses it in other words: kinds of values, and rules between them.

Every known field is checked against the table; what is not known is none of our business, as the spec asks. Rules are
those for which OCI runtimes refuse a container on any machine. The work is linear in the spec's size, and it ends after
a hundred problems, because no person reads on. Next: `nri.oci.fields`, the table.
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

__all__ = ["MAX_PROBLEMS", "Problem", "validate"]

MAX_PROBLEMS = 100

_WHOLE = {
    "int32": range(-(1 << 31), 1 << 31), "int64": range(-(1 << 63), 1 << 63), "uint16": range(1 << 16),
    "uint32": range(1 << 32), "uint64": range(1 << 64),
}  # fmt: skip


class Problem(NamedTuple):
    """Something wrong: where, with its value, and what would be right."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


def validate(spec: Any) -> list[Problem]:
    """Everything that is wrong with a spec for a Linux container; an empty list if nothing is."""
    return list(itertools.islice(_problems(spec), MAX_PROBLEMS))


def _problems(spec: Any) -> Iterator[Problem]:
    kinds = list(itertools.islice(_object("", "Spec", spec), MAX_PROBLEMS))
    yield from kinds
    if not kinds:  # rules are asked of values of the right kind only
        for path, rule in _RULES:
            yield from rule(path, spec)


# --- kinds


def _object(path: str, kind: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, f"expected an object, not {_shown(value)}")
        return
    for key, field in fields_of(kind).items():
        if value.get(key) is not None:
            yield from _field(f"{path}.{key}" if path else key, field, value[key])


def _field(path: str, field: Field, value: Any) -> Iterator[Problem]:
    if field.many == "[" and not isinstance(value, list):
        yield Problem(path, f"expected a list, not {_shown(value)}")
    elif field.many == "{" and not isinstance(value, dict):
        yield Problem(path, f"expected an object, not {_shown(value)}")
    elif field.many:
        for place, each in enumerate(value) if field.many == "[" else value.items():
            yield from _single(f"{path}[{place}]" if field.many == "[" else f'{path}["{place}"]', field.kind, each)
    else:
        yield from _single(path, field.kind, value)


def _single(path: str, kind: str, value: Any) -> Iterator[Problem]:
    if kind in OBJECTS:
        yield from _object(path, kind, value)
    elif kind == "text":
        if not isinstance(value, str):
            yield Problem(path, f"expected text, not {_shown(value)}")
        elif "\0" in value:
            yield Problem(path, "has a zero byte in it")
    elif kind == "bool":
        if not isinstance(value, bool):
            yield Problem(path, f"expected true or false, not {_shown(value)}")
    elif not isinstance(value, int) or isinstance(value, bool):
        yield Problem(path, f"expected a whole number, not {_shown(value)}")
    elif value not in _WHOLE[kind]:
        yield Problem(path, f"{value} is out of bounds ({_WHOLE[kind][0]} to {_WHOLE[kind].stop - 1})")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- rules

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]*)?")
_PAGE_SIZE = re.compile(r"[1-9][0-9]*[KMGTPE]?B")
_RLIMIT = re.compile(r"RLIMIT_[A-Z]+")
_DEVICE_TYPES = ("c", "u", "b", "p")
_NAMESPACES = ("pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time")
_SPREADS = ("", "private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable", "runbindable")
_ACTIONS = tuple(
    f"SCMP_ACT_{name}"
    for name in ("KILL", "KILL_PROCESS", "KILL_THREAD", "TRAP", "ERRNO", "TRACE", "ALLOW", "LOG", "NOTIFY")
)
_OPERATORS = tuple(f"SCMP_CMP_{name}" for name in ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"))


def _at(spec: Any, path: str) -> Any:
    """The value at a path, or None."""
    for key in path.split("."):
        spec = spec.get(key) if spec is not None else None
    return spec


def _one_of(known: Any) -> Callable[[str, Any], Iterator[Problem]]:
    """Make the rule that a text is one of those that are known."""
    names = tuple(known)

    def rule(path: str, spec: Any) -> Iterator[Problem]:
        for here, value in _all(path, spec):
            if value is not None and value not in names:
                yield Problem(here, f'"{value}" is not one of {", ".join(name for name in names if name)}')

    return rule


def _all(path: str, value: Any, here: str = "") -> Iterator[tuple[str, Any]]:
    """All values at a path, in which ``[]`` means each entry of a list. A list that is absent has none."""
    first, _, rest = path.partition(".")
    key = first.removesuffix("[]")
    found = value.get(key)
    where = f"{here}.{key}" if here else key
    entries = [(where, found)] if first == key else [(f"{where}[{n}]", each) for n, each in enumerate(found or ())]
    for name, each in entries:
        if not rest:
            yield name, each
        elif each is not None:
            yield from _all(rest, each, name)


def _text(check: Callable[[str], bool], wanted: str) -> Callable[[str, Any], Iterator[Problem]]:
    """Make the rule that a text, where it is there, passes a check."""

    def rule(path: str, spec: Any) -> Iterator[Problem]:
        for here, value in _all(path, spec):
            if not check(value or ""):
                yield Problem(here, f'"{value or ""}" is not {wanted}')

    return rule


def _once(key: str) -> Callable[[str, Any], Iterator[Problem]]:
    """Make the rule that no two entries of a list have the same name."""

    def rule(path: str, spec: Any) -> Iterator[Problem]:
        seen: dict[str, str] = {}
        for here, entry in _all(path, spec):
            name = entry.get(key) or ""
            if name in seen:
                yield Problem(f"{here}.{key}", f'"{name}" is there already, as {seen[name]}')
            seen.setdefault(name, here)

    return rule


def _process(path: str, spec: Any) -> Iterator[Problem]:
    process = spec.get(path)
    if process is None:
        return
    if not process.get("args"):
        yield Problem(f"{path}.args", "there is no program to run")
    for number, entry in enumerate(process.get("env") or ()):
        if entry.find("=") <= 0:
            yield Problem(f"{path}.env[{number}]", f"{_shown(entry)} is not NAME=value")


def _limits(path: str, spec: Any) -> Iterator[Problem]:
    for here, limit in _all(path, spec):
        soft, hard = limit.get("soft") or 0, limit.get("hard") or 0
        if soft > hard:
            yield Problem(here, f"the soft limit {soft} is above the hard limit {hard}")


def _memory(path: str, spec: Any) -> Iterator[Problem]:
    memory = _at(spec, path) or {}
    limit, swap = memory.get("limit") or 0, memory.get("swap") or 0
    if 0 < swap < limit:
        yield Problem(f"{path}.swap", f"{swap} is below the limit {limit}, which it includes")
    if limit < 0 < swap:
        yield Problem(f"{path}.swap", f"{swap} limits memory and swap together, and memory alone has no limit")
    if (memory.get("swappiness") or 0) > 100:
        yield Problem(f"{path}.swappiness", f"{memory['swappiness']} is above 100")


def _cpu_list(path: str, spec: Any) -> Iterator[Problem]:
    try:
        cpuset.parse(_at(spec, path) or "")
    except ValueError as error:
        yield Problem(path, str(error))


def _mappings(path: str, spec: Any) -> Iterator[Problem]:
    kinds = {row.get("type") for row in _at(spec, path) or ()}
    if "user" not in kinds and (_at(spec, "linux.uidMappings") or _at(spec, "linux.gidMappings")):
        yield Problem("linux.uidMappings", "ids are mapped, and there is no user namespace")
    if "time" not in kinds and _at(spec, "linux.timeOffsets"):
        yield Problem("linux.timeOffsets", "clocks are shifted, and there is no time namespace")


def _names(enum: Any, *without: str) -> tuple[str, ...]:
    return tuple(name for name in enum.keys() if name not in without)  # noqa: SIM118  (a wrapper, and no dict)


_absolute = _text(lambda text: text.startswith("/"), "an absolute path")
#: Where, and the rule that holds there.
_RULES: tuple[tuple[str, Callable[[str, Any], Iterator[Problem]]], ...] = (
    ("ociVersion", _text(lambda text: _VERSION.fullmatch(text) is not None, "a version such as 1.2.0")),
    ("root.path", _text(bool, "a folder")),
    ("process", _process),
    ("process.cwd", _absolute),
    (
        "process.rlimits[].type",
        _text(lambda text: bool(_RLIMIT.fullmatch(text)), "a limit such as RLIMIT_NOFILE"),
    ),
    ("process.rlimits[]", _once("type")),
    ("process.rlimits[]", _limits),
    ("process.ioPriority.class", _one_of(_names(m.IOPrioClass, "IOPRIO_CLASS_NONE"))),
    ("process.scheduler.policy", _one_of(_names(m.LinuxSchedulerPolicy, "SCHED_NONE"))),
    ("process.scheduler.flags[]", _one_of(_names(m.LinuxSchedulerFlag))),
    ("mounts[].destination", _absolute),
    *((f"hooks.{name}[].path", _absolute) for name in fields_of("Hooks")),
    ("linux.namespaces[].type", _one_of(_NAMESPACES)),
    ("linux.namespaces[]", _once("type")),
    ("linux.namespaces", _mappings),
    ("linux.devices[].path", _absolute),
    ("linux.devices[].type", _one_of(_DEVICE_TYPES)),
    ("linux.devices[]", _once("path")),
    ("linux.rootfsPropagation", _one_of(_SPREADS)),
    ("linux.seccomp.defaultAction", _one_of(_ACTIONS)),
    ("linux.seccomp.syscalls[].action", _one_of(_ACTIONS)),
    ("linux.seccomp.syscalls[].args[].op", _one_of(_OPERATORS)),
    ("linux.memoryPolicy.mode", _one_of(_names(m.MpolMode))),
    ("linux.memoryPolicy.flags[]", _one_of(_names(m.MpolFlag))),
    ("linux.resources.memory", _memory),
    ("linux.resources.cpu.cpus", _cpu_list),
    ("linux.resources.cpu.mems", _cpu_list),
    ("linux.resources.devices[].type", _one_of(("", "a", *_DEVICE_TYPES))),
    ("linux.resources.devices[].access", _text(lambda text: not text.strip("rwm"), "made of r, w and m")),
    ("linux.resources.hugepageLimits[].pageSize", _text(lambda text: bool(_PAGE_SIZE.fullmatch(text)), "such as 2MB")),
    ("linux.resources.hugepageLimits[]", _once("pageSize")),
)
