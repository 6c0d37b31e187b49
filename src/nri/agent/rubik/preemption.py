"""The service preemption: online pods have priority over offline pods for CPU, memory and the network.

An offline pod and its containers get level -1 and a class of network traffic. Online pods stay at level 0. The kernel
does not allow a level to rise again, so a level below 0 of an online pod is only reported. Kernels without levels have
substitutes: an idle pod with the lowest shares, the highest OOM score, and `memory.low` of online pods.

The hook sets levels or their substitutes when a pod or container is created. The rounds protect the memory that online
pods request, if the kernel has `memory.low` but no memory level. They also enable network control of a pod by
openEuler's module, once, when the pod has its first process. A node without the module is reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NamedTuple

from nri.agent.hooks import CREATE, RUN_POD, UPDATE, Hook
from nri.agent.loops.round import Round, folder_subject
from nri.agent.model import CPU_IDLE, NET_CLASS, OOM_SCORE, SHARES, Changes, Container, Decision, Pod
from nri.agent.rubik.pods import OFFLINE, PREEMPTIBLE, class_of, offline, request_of
from nri.agent.rubik.service import Node, Service, Services
from nri.agent.settings.values import AgentSettings
from nri.config import Between
from nri.config.complaint import WrongValue

NAME: Final = "preemption"
_LOW: Final = "memory.low"
_NET: Final = "/proc/qos"
_ENABLE, _DISABLE = f"{_NET}/net_qos_enable", f"{_NET}/net_qos_disable"
_MAX_MB: Final = 9999 * 1024
_Megabytes = Annotated[int, Between(-(2**63), 2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Net:
    """Network bandwidth of offline pods in MB per second: from `bandwidthLow` to `bandwidthHigh`, by `waterline`."""

    waterline: _Megabytes = 0
    bandwidthLow: _Megabytes = 0
    bandwidthHigh: _Megabytes = 0

    def problem(self) -> str:
        """Return the mistake that prevents control of the network, or ""."""
        for key, least in (("waterline", 20), ("bandwidthLow", 1), ("bandwidthHigh", 1)):
            value = getattr(self, key)
            if not least <= value <= _MAX_MB:
                reason = f"{key} {value} is not" if value else f"{key} is missing; it must be"
                return f"{reason} between {least} and {_MAX_MB}"
        low, high = self.bandwidthLow, self.bandwidthHigh
        return "" if low < high else f"bandwidthLow {low} is not less than bandwidthHigh {high}"


@dataclass(frozen=True, slots=True)
class Block:
    """The settings of preemption: the resources, and the network bandwidth of offline pods."""

    resource: list[Literal["cpu", "memory", "net"]]
    net: Net = field(default_factory=Net)

    def __post_init__(self) -> None:
        if not self.resource:
            raise WrongValue("resource", "is empty", "list at least one of cpu, memory, net")
        if "net" in self.resource and (problem := self.net.problem()):
            raise WrongValue("net", problem, "the resource net requires waterline, bandwidthLow and bandwidthHigh")


class _Mechanism(NamedTuple):
    """A mechanism for one resource: the required cgroup file, and the values of a pod and of its containers."""

    needs: str
    pod: Mapping[str, int]
    container: Mapping[str, int]


def _level(knob: str, value: int = -1) -> _Mechanism:
    return _Mechanism(knob, {knob: value}, {knob: value})


_MIN_SHARES: Final = {SHARES: 2}
#: The mechanisms of each resource; the first supported mechanism is used. An idle cgroup does not accept shares, so a
#: runtime could not update an idle container: containers of an idle pod get few shares instead.
_MECHANISMS: Final[Mapping[str, tuple[_Mechanism, ...]]] = {
    "cpu": (
        _level("cpu.qos_level"),
        _Mechanism(CPU_IDLE, {CPU_IDLE: 1}, _MIN_SHARES),
        _Mechanism("", _MIN_SHARES, _MIN_SHARES),
    ),
    "memory": (_level("memory.qos_level"), _Mechanism("", {}, {OOM_SCORE: 1000})),
    "net": (_level(NET_CLASS, 0xFFFF_FFFF),),
}


class Network(NamedTuple):
    """The decision on a pod's network: a process for which control is enabled (0 means none), and problems."""

    enable: int
    problems: list[str]


def decide(
    before: Pod | None, pod: Pod, resources: Collection[str], pid: int, read: Callable[[str, str], str | None]
) -> Network:
    """Decide on the network of a pod, and find problems of its levels.

    Args:
        before: the earlier state of the pod; None for a new pod.
        pod: the pod.
        resources: the resources in the configuration.
        pid: a process of the pod, or 0: without a process there is no network to control.
        read: returns the content of a cgroup file, or None if the file is missing.
    """
    if before is not None and (not offline(pod) or offline(before)):
        became_online = offline(before) and not offline(pod)
        return Network(0, ["the pod became online, but its levels cannot be reset"] if became_online else [])
    problems = []
    chosen = [name for name in _MECHANISMS if name in resources]
    if "net" in chosen and not pid:
        problems.append("the pod has no process, so its network cannot be controlled")
        chosen.remove("net")
    enable = pid if "net" in chosen and not pod.host_network else 0
    for name in () if offline(pod) else chosen:
        for folder in pod.folders():
            knob = _MECHANISMS[name][0].needs
            text = read(folder, knob)
            if text is None or text.strip() != "0":
                problems.append(f"{knob} of {folder} is {text and text.strip()}, and cannot be reset")
    return Network(enable, problems)


def values(resources: Collection[str], has: Callable[[str], bool], *, pod: bool) -> dict[str, int]:
    """Return the values of an offline pod or of its containers, by cgroup file.

    Args:
        resources: the resources in the configuration.
        has: returns whether the kernel has a cgroup file.
        pod: whether the values are for the pod itself.
    """
    result: dict[str, int] = {}
    for name, mechanisms in _MECHANISMS.items():
        if name not in resources:
            continue
        mechanism = next((m for m in mechanisms if not m.needs or has(m.needs)), None)
        if mechanism is not None:
            result |= mechanism.pod if pod else mechanism.container
    return result


def protection(pods: Iterable[tuple[str, int, Mapping[str, int]]]) -> dict[str, int]:
    """Return the bytes of protected memory by cgroup. A parent has at least the sum of its children.

    Args:
        pods: for each online pod: the cgroup, the requested bytes, and the bytes of each container by cgroup.
    """
    sizes: dict[str, int] = {}
    for folder, request, containers in pods:
        sizes |= containers
        parent, size = folder.strip("/"), max(request, sum(containers.values()))
        while size and parent:
            sizes[parent] = sizes.get(parent, 0) + size
            parent = parent.rpartition("/")[0]
    return sizes


def bandwidth(net: Net) -> dict[str, str]:
    """Return the contents of the files for the node's network, by file name."""
    return {
        "net_qos_waterline": f"{net.waterline}mb",
        "net_qos_bandwidth": f"{net.bandwidthLow}mb,{net.bandwidthHigh}mb",
    }


def at_creation(context: Pod | Container, node: Node) -> Decision:
    """Set the levels of an offline pod or container, or their substitutes."""
    pod = context if isinstance(context, Pod) else context.pod
    if class_of(pod) != OFFLINE or (isinstance(context, Container) and context.sandbox):
        return Decision()
    knobs = values(node.services[NAME].resource, node.has, pod=isinstance(context, Pod))
    return Decision(Changes(knobs), f"{PREEMPTIBLE} is true")


HOOK: Final = Hook(NAME, False, (), (PREEMPTIBLE,), {RUN_POD: at_creation, CREATE: at_creation, UPDATE: at_creation})


class Preemption(Service):
    """The service that controls networks of pods and protects memory of online pods."""

    name = NAME
    runs_on_pod_changes = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._preview = NAME in settings.preview
        #: The cgroups with protected memory.
        self._protected_cgroups: frozenset[str] = frozenset()
        #: The earlier states of pods, by uid.
        self._earlier_pods: dict[str, Pod] = {}
        #: A process of each pod with network control, by the uid of the pod.
        self._process_by_pod: dict[str, int] = {}
        self._node_controlled = False

    def __len__(self) -> int:
        """The number of cgroups with protected memory."""
        return len(self._protected_cgroups)

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on, or protection or control must be reset."""
        return super().is_needed(rules) or bool(
            self._protected_cgroups or self._process_by_pod or self._node_controlled
        )

    def block_changed(self) -> None:
        """Write the network bandwidth again in the next round."""
        self._node_controlled = False

    def round(self, round_: Round[Services]) -> None:
        """Protect memory, control networks, and report problems of pods."""
        resources = self.block.resource if self.on else ()
        self._protect(round_, "memory" in resources)
        net = self._control_node(round_, "net" in resources and not self._preview)
        levels = [name for name in resources if name != "net" and round_.parts.store.node.has(f"{name}.qos_level")]
        before, self._earlier_pods = self._earlier_pods, {}
        for pod in round_.pods if self.on else ():
            self._control_pod(round_, pod, before.get(pod.uid), [*levels, *(["net"] if net else ())])
        for uid in self._process_by_pod.keys() - ({pod.uid for pod in round_.pods} if net and self.on else set()):
            del self._process_by_pod[uid]
            # The earlier process may have ended, and another process may have its id.
            if pid := next((_process(round_, pod) for pod in round_.pods if pod.uid == uid), 0):
                self._write(round_, _DISABLE, pid)

    def _control_pod(self, round_: Round[Services], pod: Pod, before: Pod | None, resources: Sequence[str]) -> None:
        """Enable network control of a pod, and report problems. The hook sets the levels."""
        now = pod
        if now is before and "net" not in resources:  # an unchanged pod is the same object
            self._earlier_pods[pod.uid] = now
            return
        pid = (self._process_by_pod.get(pod.uid) or _process(round_, pod)) if "net" in resources else 0

        def read(folder: str, knob: str) -> str | None:
            value = round_.read(folder, knob)
            return None if value is None else str(value)

        decision = decide(before, now, resources, pid, read)
        round_.errors += [f"{NAME}: {pod.key}: {problem}" for problem in decision.problems]
        if decision.enable and pod.uid not in self._process_by_pod and self._write(round_, _ENABLE, decision.enable):
            self._process_by_pod[pod.uid] = decision.enable
        if not decision.problems:
            self._earlier_pods[pod.uid] = now
        elif before is not None:
            self._earlier_pods[pod.uid] = before

    def _protect(self, round_: Round[Services], on: bool) -> None:
        """Protect memory of online pods, if the kernel has no memory level."""
        node = round_.parts.store.node
        on = on and not node.has("memory.qos_level")
        if on and (reason := node.missing_reason(_LOW)):
            round_.cannot(NAME, "memory of online pods is protected only by OOM scores", reason)
            on = False
        online = [pod for pod in round_.pods if not offline(pod)] if on else []
        sizes = protection(
            (pod.folder, request_of(pod, "memory"), {c.folder: _memory(pod, c.name) for c in pod.containers})
            for pod in online
        )
        subjects = {pod.folder: pod.subject() for pod in round_.pods}
        subjects |= {c.folder: pod.subject(c.name) for pod in round_.pods for c in pod.containers}
        for folder, size in {**dict.fromkeys(self._protected_cgroups, 0), **sizes}.items():
            reason = "requested by online pods" if folder in sizes else "no longer requested by online pods"
            subject = subjects.get(folder) or folder_subject(folder)
            round_.set(subject, folder, _LOW, size, NAME, reason)
        self._protected_cgroups = frozenset(folder for folder, size in sizes.items() if size)

    def _control_node(self, round_: Round[Services], on: bool) -> bool:
        """Set the network bandwidth of the node, and return whether the networks of pods can be controlled."""
        if on and not round_.parts.root.exists(_ENABLE):
            round_.cannot(NAME, "the traffic class of offline pods has no effect", f"{_ENABLE} not found")
            on = False
        if self._node_controlled != on and self._write(round_, _ENABLE if on else _DISABLE, os.getpid()):
            self._node_controlled = on
            for name, text in (bandwidth(self.block.net) if on else {}).items():
                if not self._write(round_, f"{_NET}/{name}", text):
                    self._node_controlled = not self._write(round_, _DISABLE, os.getpid())
        return self._node_controlled

    @staticmethod
    def _write(round_: Round[Services], path: str, value: object) -> bool:
        try:
            round_.parts.root.write(path, str(value))
        except (OSError, ValueError) as error:
            round_.errors.append(f"{NAME}: {path}: {error}")
            return False
        return True


def _memory(pod: Pod, container: str) -> int:
    """Return the memory request of a container in bytes, or else its limit, or else 0."""
    request = pod.amount(container, "requests", "memory")
    return max(request if request >= 0 else pod.amount(container, "limits", "memory"), 0)


def _process(round_: Round[Services], pod: Pod) -> int:
    """Return a process of a pod, or 0 if it has no process."""
    executor = round_.parts.executor
    return next((pid for c in pod.containers for pid in executor.processes(c.folder)), 0)
