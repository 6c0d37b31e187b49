"""Messages of several arguments, and checks of these arguments together.

The messages are made without the checks, for plugins that pass on all values that have the right type and range.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.builders.checks import U64, enum_number, enum_numbers, integer, number_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def io_priority_message(io_class: int | str, priority: int) -> m.LinuxIOPriority:
    """The message of an I/O priority. Raises TypeError or ValueError for a wrong type or range."""
    message = m.LinuxIOPriority(priority=integer("priority", priority, (0, 7)))
    setattr(message, "class", enum_number("io_class", m.IOPrioClass, io_class, "IOPRIO_CLASS_"))
    return message


def scheduler_message(
    policy: int | str, nice: int, priority: int, flags: Iterable[int | str], runtime_ns: int, deadline_ns: int,
    period_ns: int,
) -> m.LinuxScheduler:  # fmt: skip
    """The message of a CPU scheduling policy. Raises TypeError or ValueError for a wrong type or range."""
    return m.LinuxScheduler(
        policy=enum_number("policy", m.LinuxSchedulerPolicy, policy, "SCHED_"),
        nice=integer("nice", nice, (-20, 19)),
        priority=integer("priority", priority, (0, 99)),
        flags=enum_numbers("flags", m.LinuxSchedulerFlag, flags, "SCHED_FLAG_"),
        runtime=integer("runtime_ns", runtime_ns, U64),
        deadline=integer("deadline_ns", deadline_ns, U64),
        period=integer("period_ns", period_ns, U64),
    )


def memory_policy_message(mode: int | str, nodes: str, flags: Iterable[int | str]) -> m.LinuxMemoryPolicy:
    """The message of a NUMA memory policy. Raises TypeError or ValueError for a wrong type or range."""
    return m.LinuxMemoryPolicy(
        mode=enum_number("mode", m.MpolMode, mode, "MPOL_"),
        nodes=number_list("nodes", nodes, allow_empty=True),
        flags=enum_numbers("flags", m.MpolFlag, flags, "MPOL_F_"),
    )


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
