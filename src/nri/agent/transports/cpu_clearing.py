"""Clear the CPUs of a container, which NRI cannot express, by a write once the cgroup exists.

The kernel refuses an empty set while the cgroup has processes, so the CPUs of the parent cgroup are written. On cgroup
v2 the parent's own set may be empty; then its effective CPUs are written.
"""

from __future__ import annotations

from nri.agent.executor import Executor
from nri.agent.model import CPUS, Changes, Write
from nri.api import cpuset
from nri.host import Outcome, Result
from nri.host.cgroups import knob_file


def clears_cpus(changes: Changes | None) -> bool:
    """Return whether changes clear a container's CPUs."""
    return changes is not None and changes.knobs.get(CPUS) == ""


def clear_cpus(executor: Executor, folder: str) -> list[Result]:
    """Clear the CPUs of a container's cgroup, even if they are believed to be cleared."""
    path = folder.strip("/")
    if not path or executor.hierarchies.of("cpuset") is None:
        return executor.write([Write(path, CPUS, "", "an explicit clear")], force=True, keep=False)
    above = path.rpartition("/")[0]
    try:
        cpus = knob_file.read(executor.hierarchies, above, CPUS)
        if not cpus:
            cpus = knob_file.in_force(executor.hierarchies, above, CPUS) or cpus
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return [Result(path, CPUS, "", Outcome.GONE, f"cannot read the parent cgroup: {reason}")]
    if not isinstance(cpus, frozenset):
        return [Result(path, CPUS, "", Outcome.UNSUPPORTED, "the CPUs of the parent cgroup cannot be read")]
    write = Write(path, CPUS, cpuset.to_text(cpus), "an explicit clear: all CPUs of the parent cgroup")
    return executor.write([write], force=True, keep=False)
