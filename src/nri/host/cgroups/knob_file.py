"""Find, read, write and verify the file of a cgroup's knob."""

from __future__ import annotations

import errno
from dataclasses import replace

from nri.host.cgroups.batch import Write
from nri.host.cgroups.hierarchies import Hierarchies
from nri.host.cgroups.knobs import Knob, knob, wider
from nri.host.cgroups.support import LocatedFile, locate, missing_file
from nri.host.cgroups.units import Value
from nri.host.outcome import GONE_ERRORS, Outcome, Result, Unsupported, explain

_NOT_ABOVE, _USED_BELOW = "the parent cgroup does not have all members", "a child cgroup uses members to be removed"
#: Why a kernel refuses a value of a knob, by its error.
_REFUSALS: dict[tuple[str, int | None], str] = {
    ("cpuset.cpus", errno.EACCES): _NOT_ABOVE,
    ("cpuset.mems", errno.EACCES): _NOT_ABOVE,
    ("cpuset.cpus", errno.EBUSY): _USED_BELOW,
    ("cpuset.mems", errno.EBUSY): _USED_BELOW,
    ("cpuset.cpus", errno.ENOSPC): "its processes would have no CPU",
    ("cpuset.mems", errno.ENOSPC): "its processes would have no memory",
    ("cpu.cfs_quota", errno.EINVAL): "the parent cgroup has less, a cgroup below has more, or the burst is larger",
    ("cpu.cfs_burst", errno.EINVAL): "the burst exceeds the quota",
    ("cpu.shares", errno.EINVAL): "cpu.idle is 1, so the kernel does not change the weight",
    ("memory.limit", errno.EBUSY): "the cgroup uses more than that, and nothing could be reclaimed",
    ("memory.limit", errno.EINVAL): "the limit exceeds memory.and_swap_limit",
    ("memory.and_swap_limit", errno.EINVAL): "the limit is less than memory.limit",
}
#: Settings that crun's cgroup in a scope does not enforce alone: they count among siblings, or belong to the quota.
_OF_SCOPE_TOO = frozenset({"cpu.shares", "cpu.idle", "cpu.bvt", "cpu.cfs_period", "io.weight", "io.device_weight"})


def read(hierarchies: Hierarchies, cgroup: str, name: str) -> Value | Unsupported:
    """The value of a knob of a cgroup.

    Raises:
        KeyError: the knob is unknown.
        FileNotFoundError: the cgroup does not exist.
        ValueError: the file is invalid, or the path leads out of the hierarchy.
    """
    row = knob(name)
    located = locate(hierarchies, row, cgroup)
    if isinstance(located, Unsupported):
        return located
    try:
        return located.place.codec.decode(hierarchies.files.read(located.path))
    except OSError as error:
        outcome, reason = _failure(hierarchies, row, located, error)
    if outcome is Outcome.GONE:
        raise FileNotFoundError(errno.ENOENT, reason, cgroup)
    return Unsupported(reason)


def in_force(hierarchies: Hierarchies, cgroup: str, name: str) -> frozenset[int] | None:
    """The effective members of a set. Returns None if the kernel does not report them or the cgroup does not exist.

    On cgroup v2 an empty set means the parent's set. Raises KeyError and ValueError in the same cases as :func:`read`.
    """
    located = locate(hierarchies, knob(name), cgroup)
    return None if isinstance(located, Unsupported) else _effective(hierarchies, located)


def find(hierarchies: Hierarchies, write: Write, row: Knob) -> LocatedFile | Result:
    """The file of a write, or the write's result if it cannot be written."""
    try:
        located = locate(hierarchies, row, write.cgroup)
    except ValueError as error:
        return _result(write, Outcome.REFUSED, str(error))
    if isinstance(located, Unsupported):
        return _result(write, Outcome.UNSUPPORTED, located.reason)
    if complaint := row.complaint(write.value):
        return _result(write, Outcome.REFUSED, complaint)
    return located


def present(hierarchies: Hierarchies, located: LocatedFile) -> Value | None:
    """The value in a file. Returns None if the file does not exist or is invalid."""
    text = _text(hierarchies, located)
    return None if isinstance(text, OSError) else _decoded_value(located, text)


def unit_value(hierarchies: Hierarchies, row: Knob, located: LocatedFile, value: Value) -> Value | None:
    """The value that the unit's cgroup needs; None if it does not need another one.

    The unit's cgroup is that of the file, or the scope around crun's cgroup. Such a scope must not be narrower than
    what is in it. A wider one stays, because some versions of crun change its limits with those of the container and
    others do not.
    """
    before = present(hierarchies, located.in_unit())
    if located.scope and row.nested:
        if before is None or before == frozenset():  # the empty set is that of the parent
            return None
        value = wider(before, value)
    elif located.scope and row.name not in _OF_SCOPE_TOO:
        return None
    return None if before in (None, value) else value


def put(hierarchies: Hierarchies, write: Write, row: Knob, located: LocatedFile, value: Value) -> Result:
    """Write the final or an intermediate value of a write, and the file of the scope if there is one. Never raises."""
    if not located.scope or (outer := unit_value(hierarchies, row, located, value)) is None:
        return _write_value(hierarchies, write, row, located, value)
    scope = _write_value(hierarchies, write, row, located.in_unit(), outer)
    if scope.outcome not in (Outcome.APPLIED, Outcome.UNCHANGED, Outcome.CLAMPED):
        return scope
    result = _write_value(hierarchies, write, row, located, value)
    return replace(result, outcome=scope.outcome) if result.outcome is Outcome.UNCHANGED else result


def _write_value(hierarchies: Hierarchies, write: Write, row: Knob, located: LocatedFile, value: Value) -> Result:
    codec = located.place.codec
    text = _text(hierarchies, located)
    if isinstance(text, OSError):
        return _result(write, *_failure(hierarchies, row, located, text))
    before = _decoded_value(located, text)
    outcome, reason = Outcome.UNCHANGED, ""
    if not codec.holds(text, value):
        try:
            for line in codec.encode(value, text):
                hierarchies.files.write(located.path, line)
        except (OSError, ValueError) as error:
            failure = _failure(hierarchies, row, located, error)
            return replace(_result(write, *failure), before=before, after=present(hierarchies, located))
        text = _text(hierarchies, located)
        if isinstance(text, OSError):
            return replace(_result(write, *_failure(hierarchies, row, located, text)), before=before)
        outcome = Outcome.APPLIED
        if not codec.holds(text, value):
            outcome, reason = Outcome.CLAMPED, f"the value reads back as {_short_text(text)}"
    after = _decoded_value(located, text)
    if outcome is not Outcome.CLAMPED and (less := _smaller_set(hierarchies, located, value)) is not None:
        outcome, after = Outcome.CLAMPED, less
        members = _short_text(codec.encode(less, "")[0])
        reason = f"{members} is in force: the parent cgroup has no more, or the rest is offline"
    return Result(write.cgroup, write.name, write.value, outcome, reason, before, after)


def _smaller_set(hierarchies: Hierarchies, located: LocatedFile, value: Value) -> frozenset[int] | None:
    """The effective members of a set. Returns None if they are equal to `value`."""
    effective = _effective(hierarchies, located) if value else None
    return effective if effective != value else None


def _effective(hierarchies: Hierarchies, located: LocatedFile) -> frozenset[int] | None:
    """The effective members of a set. Returns None if the kernel does not report them."""
    if not located.place.effective:
        return None
    try:
        members = located.place.codec.decode(hierarchies.files.read(f"{located.folder}/{located.place.effective}"))
    except (OSError, ValueError):
        return None
    return members if isinstance(members, frozenset) else None


def _failure(
    hierarchies: Hierarchies, row: Knob, located: LocatedFile, error: OSError | ValueError
) -> tuple[Outcome, str]:
    """The outcome of an error: GONE if the cgroup does not exist, UNSUPPORTED if only the file does not exist."""
    if not isinstance(error, OSError):
        return Outcome.REFUSED, str(error)
    outcome, words = explain(error)
    if error.errno not in GONE_ERRORS:
        refusal = _REFUSALS.get((row.name, error.errno))
        return outcome, f"{refusal} ({words})" if refusal else words
    if not hierarchies.files.exists(located.folder):
        return Outcome.GONE, "the cgroup does not exist"
    if not hierarchies.files.exists(located.path):
        return Outcome.UNSUPPORTED, missing_file(hierarchies, row, "it")
    return Outcome.REFUSED, words


def _text(hierarchies: Hierarchies, located: LocatedFile) -> str | OSError:
    try:
        return hierarchies.files.read(located.path)
    except OSError as error:
        return error


def _decoded_value(located: LocatedFile, text: str) -> Value | None:
    try:
        return located.place.codec.decode(text)
    except ValueError:
        return None


def _result(write: Write, outcome: Outcome, reason: str) -> Result:
    return Result(write.cgroup, write.name, write.value, outcome, reason)


def _short_text(text: str) -> str:
    words = " ".join(text.split())
    return repr(words if len(words) <= 60 else f"{words[:57]}...")
