"""Absolute priority of online pods: levels of CPU and memory, and the class of network traffic, of offline ones.

An offline pod and its containers get level -1. Online ones stay at 0; the kernel takes no level back, so one found
below is told and not written. Next: `nri.policies.rubik.dyn_cache`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from nri.policies.rubik.pods import Pod, offline
from nri.policies.rubik.settings import Net
from nri.policies.writes import Write

__all__ = ["Levels", "bandwidth", "decide", "update"]

#: The knob of each resource, and the value of offline pods; online ones have 0.
_KNOBS: Final = {
    "cpu": ("cpu.qos_level", "-1"),
    "memory": ("memory.qos_level", "-1"),
    "net": ("net_cls.classid", str(0xFFFF_FFFF)),
}
_REASON: Final = "preemption"


class Levels(NamedTuple):
    """The writes for a pod, the process whose network is put under control (0 for none), and what is wrong."""

    writes: list[Write]
    enable: int
    problems: list[str]


def decide(pod: Pod, resources: Collection[str], pid: int, read: Callable[[str, str], str | None]) -> Levels:
    """Decide for a pod.

    Args:
        pod: the pod.
        resources: those that the configuration names.
        pid: a process of the pod, 0 if it has none: without one there is no network to control.
        read: the text of a knob in a folder, None if there is no such file.
    """
    problems = []
    chosen = [name for name in _KNOBS if name in resources]
    if "net" in chosen and not pid:
        problems.append("it has no process whose network could be controlled")
        chosen.remove("net")
    enable = pid if "net" in chosen and not pod.host_network else 0
    if offline(pod):
        writes = [Write(folder, *_KNOBS[name], _REASON) for name in chosen for folder in pod.folders()]
        return Levels(writes, enable, problems)
    for name in chosen:
        for folder in pod.folders():
            text = read(folder, _KNOBS[name][0])
            if text is None or text.strip() != "0":
                problems.append(f"{_KNOBS[name][0]} of {folder} is {text and text.strip()}, and cannot be put back")
    return Levels([], enable, problems)


def update(
    before: Pod, pod: Pod, resources: Collection[str], pid: int, read: Callable[[str, str], str | None]
) -> Levels:
    """Decide for a pod that has changed: one that becomes offline, and containers that an offline one has got.

    One that becomes online is told: the kernel takes no level back.
    """
    if not offline(pod):
        return Levels([], 0, ["it became online, and its levels cannot be put back"] if offline(before) else [])
    found = decide(pod, resources, pid, read)
    if not offline(before):
        return found
    known = set(before.folders())
    return Levels([write for write in found.writes if write.folder not in known], 0, [])


def bandwidth(net: Net) -> dict[str, str]:
    """Return the texts for the network of the whole node, by the file's name."""
    found = {}
    if net.waterline is not None:
        found["net_qos_waterline"] = f"{net.waterline}mb"
    if net.bandwidthLow is not None:
        found["net_qos_bandwidth"] = f"{net.bandwidthLow}mb,{net.bandwidthHigh}mb"
    return found
