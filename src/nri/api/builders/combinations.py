"""Checks of several arguments together: mounts, CPU schedulers, NUMA memory policies."""

from __future__ import annotations

from nri.api import messages as m

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_memory_policy", "check_mount", "check_scheduler"]

_BIND = ("bind", "rbind")
#: Options of other programs -> the option of the OCI spec. Runtimes ignore the former for a bind mount.
_OPTION_BY_SYNONYM = {
    "readonly": "ro",
    "read-only": "ro",
    "read_only": "ro",
    "RO": "ro",
    "readwrite": "rw",
    "read-write": "rw",
    "writable": "rw",
    "RW": "rw",
    "recursive": "rbind",
}
#: Options that runtimes know only as an element of the list; elsewhere they would be data of the file system.
_FLAGS = frozenset((
    "bind", "dev", "exec", "noatime", "nodev", "noexec", "nosuid", "private", "rbind", "relatime", "ro", "rprivate",
    "rshared", "rslave", "rw", "shared", "slave", "suid",
))  # fmt: skip


def check_mount(source: str, kind: str, options: Sequence[str]) -> None:
    """Check the arguments of a mount together.

    Raises:
        ValueError: no runtime could make the mount, or it would ignore an option.
    """
    for option in options:
        if option in _OPTION_BY_SYNONYM:
            raise ValueError(f"options must be those of mount(8): write {_OPTION_BY_SYNONYM[option]!r}, not {option!r}")
        parts = option.split(",")
        if len(parts) > 1 and not _FLAGS.isdisjoint(parts):
            raise ValueError(f"options must be separate texts: write {parts}, not {option!r}")
    is_bind = any(option in _BIND for option in options)
    if not is_bind and kind in {"", "none", *_BIND}:
        if kind in _BIND:
            raise ValueError("options must contain bind or rbind for a bind mount, for example ['rbind', 'ro']")
        raise ValueError("type must be given, for example tmpfs, or options must contain bind or rbind")
    if is_bind and not source.startswith("/"):
        raise ValueError(f"source must be an absolute path on the host for a bind mount, not {source!r}")


_REALTIME = ("SCHED_FIFO", "SCHED_RR")


def check_scheduler(policy: m.LinuxScheduler) -> None:
    """Check the values of a CPU scheduling policy together, as the kernel does.

    Raises:
        ValueError: the kernel refuses the combination.
    """
    name = m.LinuxSchedulerPolicy.Name(policy.policy)
    word = name.removeprefix("SCHED_")
    if name in _REALTIME and not policy.priority:
        raise ValueError(f"priority must be between 1 and 99 for {word}, not 0")
    if policy.priority and name not in _REALTIME:
        raise ValueError(f"priority must be 0 for {word}, not {policy.priority}: it applies to FIFO and RR")
    if name == "SCHED_DEADLINE" and not 0 < policy.runtime <= policy.deadline <= (policy.period or policy.deadline):
        raise ValueError(
            "runtime_ns must be above 0, at most deadline_ns, and that at most period_ns for DEADLINE, not "
            f"{policy.runtime}, {policy.deadline}, {policy.period}"
        )


_WITH_NODES = ("MPOL_BIND", "MPOL_INTERLEAVE", "MPOL_PREFERRED_MANY", "MPOL_WEIGHTED_INTERLEAVE")
_WITHOUT_NODES = ("MPOL_DEFAULT", "MPOL_LOCAL")


def check_memory_policy(policy: m.LinuxMemoryPolicy) -> None:
    """Check a NUMA memory policy and its nodes together, as the kernel does.

    Raises:
        ValueError: the mode requires nodes, or does not allow them.
    """
    name = m.MpolMode.Name(policy.mode)
    word = name.removeprefix("MPOL_")
    if name in _WITH_NODES and not policy.nodes:
        raise ValueError(f"nodes must not be empty for {word}: write for example 0-1")
    if name in _WITHOUT_NODES and policy.nodes:
        raise ValueError(f"nodes must be empty for {word}, not {policy.nodes!r}")
