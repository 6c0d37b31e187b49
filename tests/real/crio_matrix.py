"""What CRI-O supports of NRI: a column next to those of `support_matrix`, for docs/reference/runtimes.md.

CRI-O cannot be had on the machines that run these tests, so no test holds these cells. They were measured by hand, with
the cases of `adjustments` and the same plugins, on CRI-O 1.37.0 with NRI 0.12.0, runc 1.1.5 and cgroup v1. Rules: what
was not measured has no cell.
"""

from __future__ import annotations

from tests.real.support_matrix import APPLIED, IGNORED, NO, YES

EVENTS = {"PostUpdatePodSandbox": NO}
"""The events that do not come; all others do."""

FACTS = {
    "timeouts": YES,
    "pod-ips": YES,
    "split-sync": YES,
    "preinstalled-sync": YES,
    "failure-policy": NO,
}

ADJUSTMENTS = {
    "env-remove": IGNORED,
    "memory-reservation": IGNORED,
    "blockio": IGNORED,
    "hugepages": "refused",
    "unified": "refused",
}
"""The adjustments that are not applied; the other 39 of the 44 are."""

UPDATES = dict.fromkeys(
    (
        "set_memory_limit",
        "set_cpu_quota",
        "set_cpu_shares",
        "set_cpuset_cpus",
        "set_pids_limit",
        "set_memory_reservation",
    ),
    APPLIED,
)

DIFFERENCES = """\
## What CRI-O does differently

Measured on CRI-O 1.37.0.

- **After a failed creation** plugins get neither StopContainer nor RemoveContainer. Free reserved resources when the
  pod is removed, or compare with the state of `synchronize`.
- **A container that dies while CRI-O is down** gets neither event, and is missing from Synchronize.
- **An error fails** RunPodSandbox, CreateContainer, UpdateContainer, UpdatePodSandbox and StopPodSandbox. For all other
  events it is only logged.
- **The failure policy and evictions** are ignored (NRI below 0.12.4); the plugin logs this.
- **Swap equals the memory limit.** On cgroup v1 raising the limit alone fails: also call `set_memory_swap`.
- **A failed update of another container** in the answer of `create_container` refuses the creation, unless the update
  has `set_ignore_failure()`.
- **A memory limit below 12 MiB** in an adjustment is refused.
- **A PATH that a plugin adds is lost** if the image sets one.
- **Annotations of a container** include the pod's and those that begin with `io.kubernetes.cri-o.`. Overriding
  `io.kubernetes.cri-o.ContainerID` changes the id in all later events.
- **Values**: PostStartContainer has the state "created" and `started_at` 0; unset shares, quota and period are 0; the
  `pid` of a pod is 0.
- **StopPodSandbox waits for the grace period** of running containers.

CRI-O reads all files in and below `crio.conf.d`. Durations may be whole nanoseconds, keys may have any case, and an
empty `nri_listen` means the default. The keys of the default validator override earlier files one by one. A value of a
wrong type in any table prevents the start; unknown keys have no effect. Of a key in two spellings (`Enable_NRI` and
`enable_nri`), a random one counts. `nri doctor` follows these rules, but prefers lower case.
"""
