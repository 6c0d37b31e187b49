"""What CRI-O supports of NRI: the column beside those of `support_matrix`, for docs/reference/runtimes.md.

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

- **A creation that fails ends without a word.** When a plugin, an update or the OCI runtime refuses it, plugins get
  neither StopContainer nor RemoveContainer, not even when the pod goes. A plugin that keeps books frees what it gave
  to a container that never started when its pod is removed, or compares with what `synchronize` tells.
- **A container that dies while CRI-O is down** gets neither event either, and is missing from Synchronize.
- **An error fails** RunPodSandbox, CreateContainer, UpdateContainer, UpdatePodSandbox and StopPodSandbox; not
  StartContainer, StopContainer, RemoveContainer, RemovePodSandbox, nor what begins with Post. There it is only
  logged.
- **The failure policy is ignored** (NRI below 0.12.4); the plugin says so in its log. A plugin that is late in
  `create_container` and has `validate_container_adjustment` too has the container refused.
- **Evictions** are ignored.
- **Swap equals the memory limit.** On cgroup v1 raising the limit alone fails: give `set_memory_swap` with it.
- **An update of another container that fails**, returned by `create_container`, refuses the creation unless the
  update says `set_ignore_failure()`.
- **A memory limit below 12 MiB** in an adjustment is refused.
- **A PATH that a plugin adds is lost** when the image sets one: the variable is there twice, and the second wins.
- **Annotations of a container** include the pod's and those that begin with `io.kubernetes.cri-o.`. To override
  `io.kubernetes.cri-o.ContainerID` changes the id in all later events.
- **Values**: PostStartContainer still says that the container is created, with `started_at` 0; shares, quota and
  period are present, as 0, where no value was set; the `pid` of a pod is 0.
- **StopPodSandbox waits out a grace period** for the containers that still run.

In its configuration, files of `crio.conf.d` count whatever their name is, in folders below it, too; durations may be
whole nanoseconds, keys may have any case, and an empty `nri_listen` means the default. `nri doctor` reads them
so.
"""
