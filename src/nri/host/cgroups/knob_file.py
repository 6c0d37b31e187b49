"""One knob of one cgroup: its file found, read, written and read back, and what came of it.

Rules: a file is read before it is written, and not written if it says the same already; afterwards it is read again,
and where the kernel tells what of a set is in force, that as well. No error leaves :func:`find` and :func:`put`.
Next: :mod:`nri.host.cgroups.writer`, which writes many.
"""

from __future__ import annotations

import errno
from dataclasses import replace

from nri.host.cgroups.batch import Write
from nri.host.cgroups.hierarchies import Hierarchies
from nri.host.cgroups.knobs import Knob, knob
from nri.host.cgroups.support import Located, locate, missing_file
from nri.host.cgroups.units import Value
from nri.host.outcome import GONE_ERRORS, Outcome, Result, Unsupported, explain

__all__ = ["find", "in_force", "present", "put", "read"]

_NOT_ABOVE, _USED_BELOW = "the cgroup above has not all of these", "a cgroup below uses what this takes away"
#: Why a kernel refuses a value, in the words of the knob.
_REFUSALS: dict[tuple[str, int | None], str] = {
    ("cpuset.cpus", errno.EACCES): _NOT_ABOVE,
    ("cpuset.mems", errno.EACCES): _NOT_ABOVE,
    ("cpuset.cpus", errno.EBUSY): _USED_BELOW,
    ("cpuset.mems", errno.EBUSY): _USED_BELOW,
    ("cpuset.cpus", errno.ENOSPC): "it has processes, which would be left without a CPU",
    ("cpuset.mems", errno.ENOSPC): "it has processes, which would be left without memory",
    ("cpu.cfs_quota", errno.EINVAL): "the cgroup above has less, one below more, or its burst is more",
    ("cpu.cfs_burst", errno.EINVAL): "it is more than the quota",
    ("cpu.shares", errno.EINVAL): "cpu.idle is 1 there, and the kernel keeps the weight",
    ("memory.limit", errno.EBUSY): "it uses more than that, and nothing could be reclaimed",
    ("memory.limit", errno.EINVAL): "it is more than memory.and_swap_limit",
    ("memory.and_swap_limit", errno.EINVAL): "it is less than memory.limit",
}


def read(hierarchies: Hierarchies, cgroup: str, name: str) -> Value | Unsupported:
    """The value of a knob of a cgroup.

    Raises:
        KeyError: the name is no knob's.
        FileNotFoundError: there is no such cgroup.
        ValueError: the file's text cannot be understood, or the path leads out of the hierarchy.
    """
    row = knob(name)
    found = locate(hierarchies, row, cgroup)
    if isinstance(found, Unsupported):
        return found
    try:
        return found.place.codec.decode(hierarchies.files.read(found.path))
    except OSError as error:
        outcome, reason = _failure(hierarchies, row, found, error)
    if outcome is Outcome.GONE:
        raise FileNotFoundError(errno.ENOENT, reason, cgroup)
    return Unsupported(reason)


def in_force(hierarchies: Hierarchies, cgroup: str, name: str) -> frozenset[int] | None:
    """The members of a set that are in force; None if the kernel does not tell, or there is no such cgroup.

    On cgroup v2 an empty set is that of the cgroup above. Raises KeyError and ValueError as :func:`read` does.
    """
    found = locate(hierarchies, knob(name), cgroup)
    return None if isinstance(found, Unsupported) else _effective(hierarchies, found)


def find(hierarchies: Hierarchies, write: Write, row: Knob) -> Located | Result:
    """The file of a write, or its result if there is nothing to write."""
    try:
        found = locate(hierarchies, row, write.cgroup)
    except ValueError as error:
        return _result(write, Outcome.REFUSED, str(error))
    if isinstance(found, Unsupported):
        return _result(write, Outcome.UNSUPPORTED, found.reason)
    if complaint := row.complaint(write.value):
        return _result(write, Outcome.REFUSED, complaint)
    return found


def present(hierarchies: Hierarchies, located: Located) -> Value | None:
    """The value that a file has; None if it is not there or cannot be understood."""
    text = _text(hierarchies, located)
    return None if isinstance(text, OSError) else _decoded(located, text)


def put(hierarchies: Hierarchies, write: Write, row: Knob, located: Located, value: Value) -> Result:
    """Make a file have a value, which is the write's own or one on the way to it."""
    codec = located.place.codec
    text = _text(hierarchies, located)
    if isinstance(text, OSError):
        return _result(write, *_failure(hierarchies, row, located, text))
    before = _decoded(located, text)
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
            outcome, reason = Outcome.CLAMPED, f"it reads back as {_short(text)}"
    after = _decoded(located, text)
    if outcome is not Outcome.CLAMPED and (less := _less(hierarchies, located, value)) is not None:
        outcome, after = Outcome.CLAMPED, less
        reason = (
            f"in force is {_short(codec.encode(less, '')[0])}: the cgroup above has no more, or the rest is offline"
        )
    return Result(write.cgroup, write.name, write.value, outcome, reason, before, after)


def _less(hierarchies: Hierarchies, located: Located, value: Value) -> frozenset[int] | None:
    """The members of a set that are in force, if those are not all."""
    found = _effective(hierarchies, located) if value else None
    return found if found != value else None


def _effective(hierarchies: Hierarchies, located: Located) -> frozenset[int] | None:
    """The members of a set that are in force, where the kernel tells."""
    if not located.place.effective:
        return None
    try:
        found = located.place.codec.decode(hierarchies.files.read(f"{located.folder}/{located.place.effective}"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, frozenset) else None


def _failure(hierarchies: Hierarchies, row: Knob, located: Located, error: OSError | ValueError) -> tuple[Outcome, str]:
    """The outcome of an error; what is missing decides between gone and unsupported."""
    if not isinstance(error, OSError):
        return Outcome.REFUSED, str(error)
    outcome, words = explain(error)
    if error.errno not in GONE_ERRORS:
        known = _REFUSALS.get((row.name, error.errno))
        return outcome, f"{known} ({words})" if known else words
    if not hierarchies.files.exists(located.folder):
        return Outcome.GONE, "there is no such cgroup"
    if not hierarchies.files.exists(located.path):
        return Outcome.UNSUPPORTED, missing_file(hierarchies, row, "it")
    return Outcome.REFUSED, words


def _text(hierarchies: Hierarchies, located: Located) -> str | OSError:
    try:
        return hierarchies.files.read(located.path)
    except OSError as error:
        return error


def _decoded(located: Located, text: str) -> Value | None:
    try:
        return located.place.codec.decode(text)
    except ValueError:
        return None


def _result(write: Write, outcome: Outcome, reason: str) -> Result:
    return Result(write.cgroup, write.name, write.value, outcome, reason)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return repr(words if len(words) <= 60 else f"{words[:57]}...")
