"""Absolute priority of online pods: levels of CPU and memory, and the class of network traffic, of offline ones.

An offline pod and its containers get level -1. Online ones stay at 0; the kernel takes no level back, so one found
below is reported and not written. Kernels without levels have substitutes: an idle pod with the lowest shares, the
highest OOM score, and memory of online pods that is reclaimed last. Next: `nri.agent.rubik.decisions.dyn_cache`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from nri.agent.rubik.blocks import Net
from nri.agent.rubik.pods import Pod, offline
from nri.policies.writes import CPU_IDLE, NET_CLASS, OOM_SCORE, SHARES

__all__ = ["Network", "bandwidth", "decide", "protection", "values"]


class _Mechanism(NamedTuple):
    """A way to hold a resource back: the knob that it needs, and the values of an offline pod and of its containers."""

    needs: str
    pod: Mapping[str, int]
    container: Mapping[str, int]


def _level(knob: str, value: int = -1) -> _Mechanism:
    return _Mechanism(knob, {knob: value}, {knob: value})


_LEAST: Final = {SHARES: 2}
#: The ways by resource: the first one that the kernel has counts. An idle cgroup takes no shares, so that a runtime
#: could not update it: that is why containers of an idle pod have few shares instead.
_WAYS: Final[Mapping[str, tuple[_Mechanism, ...]]] = {
    "cpu": (_level("cpu.qos_level"), _Mechanism(CPU_IDLE, {CPU_IDLE: 1}, _LEAST), _Mechanism("", _LEAST, _LEAST)),
    "memory": (_level("memory.qos_level"), _Mechanism("", {}, {OOM_SCORE: 1000})),
    "net": (_level(NET_CLASS, 0xFFFF_FFFF),),
}


class Network(NamedTuple):
    """The process whose network is put under control (0 for none), and what cannot be done for its pod."""

    enable: int
    problems: list[str]


def decide(
    before: Pod | None, pod: Pod, resources: Collection[str], pid: int, read: Callable[[str, str], str | None]
) -> Network:
    """Decide for a pod; its levels are what `values` returns.

    Args:
        before: the pod as it was before, None for a new one.
        pod: the pod.
        resources: those that the configuration names.
        pid: a process of the pod, 0 if it has none: without one there is no network to control.
        read: the text of a knob in a folder, None if there is no such file.
    """
    if before is not None and (not offline(pod) or offline(before)):
        became_online = offline(before) and not offline(pod)
        return Network(0, ["it became online, and its levels cannot be put back"] if became_online else [])
    problems = []
    chosen = [name for name in _WAYS if name in resources]
    if "net" in chosen and not pid:
        problems.append("it has no process whose network could be controlled")
        chosen.remove("net")
    enable = pid if "net" in chosen and not pod.host_network else 0
    for name in () if offline(pod) else chosen:
        for folder in pod.folders():
            knob = _WAYS[name][0].needs
            text = read(folder, knob)
            if text is None or text.strip() != "0":
                problems.append(f"{knob} of {folder} is {text and text.strip()}, and cannot be put back")
    return Network(enable, problems)


def values(resources: Collection[str], has: Callable[[str], bool], *, pod: bool) -> dict[str, int]:
    """Return the values of an offline pod, or of a container of it, by knob.

    Args:
        resources: those that the configuration names.
        has: whether the kernel has a knob.
        pod: whether it is for the pod itself.
    """
    found: dict[str, int] = {}
    for name, ways in _WAYS.items():
        way = next((way for way in ways if not way.needs or has(way.needs)), None) if name in resources else None
        if way is not None:
            found |= way.pod if pod else way.container
    return found


def protection(pods: Iterable[tuple[str, int, Mapping[str, int]]]) -> dict[str, int]:
    """Return the bytes of memory that are reclaimed last, by folder; a folder has at least what those below it have.

    Args:
        pods: of each online pod its folder, the bytes that it requests in all, and those of its containers by folder.
    """
    found: dict[str, int] = {}
    for folder, request, containers in pods:
        found |= containers
        above, size = folder.strip("/"), max(request, sum(containers.values()))
        while size and above:
            found[above] = found.get(above, 0) + size
            above = above.rpartition("/")[0]
    return found


def bandwidth(net: Net) -> dict[str, str]:
    """Return the texts for the network of the whole node, by the file's name."""
    return {
        "net_qos_waterline": f"{net.waterline}mb",
        "net_qos_bandwidth": f"{net.bandwidthLow}mb,{net.bandwidthHigh}mb",
    }
