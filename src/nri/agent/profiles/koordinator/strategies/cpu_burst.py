"""CPUBurst: containers that are throttled may borrow CPU, by `cpu.cfs_burst_us` and by a quota that grows in steps.

Rules: for pods that share CPUs: all but LSE, LSR and BE. Mainline kernels refuse a burst above the quota, so there it
is cut to that. A quota that CPUNormalization repairs is not scaled, because each would undo the other. Scaled values
are put back when it is switched off. Next: :mod:`nri.agent.profiles.koordinator.strategies.evict`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.loops.strategy import Sampled, Strategy
from nri.agent.profiles.koordinator.strategies.rules import NodeSlo, rules_of
from nri.agent.settings.values import AgentSettings
from nri.host import Unsupported, probe
from nri.kube.pod_resources import container_amounts
from nri.policies import formulas
from nri.policies.koordinator import pod_class
from nri.policies.koordinator.hooks import cpu_normalization
from nri.policies.koordinator.loops.cpu_burst import (
    ANNOTATION_BURST,
    BurstConfig,
    Bursts,
    Container,
    Pod,
    Pool,
    pool_state,
)
from nri.policies.koordinator.names import BE, LSE, LSR, qos_class
from nri.policies.koordinator.rules.node import NO_RATIO
from nri.policies.writes import BVT, QUOTA

__all__ = ["NAME", "CpuBurst"]

NAME: Final = "CPUBurst"
_BURST: Final = "cpu.cfs_burst"


class CpuBurst(Strategy):
    """Lets containers run ahead of their quota."""

    name = NAME
    samples = Sampled.PODS | Sampled.CONTAINERS
    key = ANNOTATION_BURST

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self._bursts = Bursts()
        self._looked_once = False
        #: Containers that are to be put back when it is switched off.
        self._touched: set[str] = set()

    def __len__(self) -> int:
        """The number of containers that are remembered."""
        return len(self._bursts.buckets) + len(self._touched)

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: bursts that are asked for, or quotas that were scaled."""
        return rules.burst.policy != "none" or bool(self._touched)

    def round(self, made: Round[NodeSlo]) -> None:
        """Decide for the pods that share CPUs."""
        hierarchies = made.parts.executor.hierarchies
        self._bursts.above_quota = not isinstance(probe(hierarchies, BVT), Unsupported)
        looked: dict[str, StrategyPod] = {}
        decided: list[Pod] = []
        for pod in made.pods:
            if not pod_class.cpu_burstable(pod.manifest):
                continue
            config = rules_of(made, pod, NAME).burst
            ids = {each.id for each in pod.containers}
            if config.policy == "none" and self._looked_once and not self._touched & ids:
                continue
            self._touched = self._touched | ids if config.scales else self._touched - ids
            if config.scales:
                made.cannot(NAME, "no quota grows", made.sample.no_cpu)
            looked[pod.folder] = pod
            looked.update((each.cgroup_parent, pod) for each in pod.containers)
            decided.append(self._pod(made, pod, config))
        self._looked_once = True
        self._touched &= {each.name for pod in decided for each in pod.containers}
        scale = not _normalized(made)
        for write in self._bursts.decide(decided, _pool(made), made.sample.at, scale=scale):
            one = looked[write.folder]
            name = next((each.name for each in one.containers if write.name and each.id == write.name), "")
            made.set(one.subject(name), write.folder, write.knob, write.value, NAME, write.reason)

    def _pod(self, made: Round[NodeSlo], pod: StrategyPod, config: BurstConfig) -> Pod:
        running, specs = _running(pod), {each.get("name", ""): each for each in pod.specs}
        containers = []
        for each in pod.containers:
            used = made.sample.of(each.cgroup_parent)
            limit, quota, burst = _limit_milli(specs.get(each.name, {})), *_knobs(made, each.cgroup_parent)
            one = Container(each.id, each.cgroup_parent, limit, quota, burst, used.milli, used.throttled)
            containers.append(one._replace(running=each.name in running))
        return Pod(pod.folder, config, containers, *_knobs(made, pod.folder))


def _knobs(made: Round[NodeSlo], folder: str) -> tuple[int | None, int | None]:
    """Quota and burst of a folder, as far as they can be known."""
    quota, burst = made.read(folder, QUOTA), made.read(folder, _BURST)
    return (quota if isinstance(quota, int) else None), (burst if isinstance(burst, int) else None)


def _running(pod: StrategyPod) -> frozenset[str]:
    """The containers that are not known to wait."""
    statuses = (pod.manifest.get("status") or {}).get("containerStatuses") or ()
    return frozenset(each.get("name", "") for each in statuses if "waiting" not in (each.get("state") or {}))


def _normalized(made: Round[NodeSlo]) -> bool:
    node = made.parts.decisions.node
    on = node.gates is not None and cpu_normalization.NAME in node.gates
    return on and node.ratio != NO_RATIO


def _pool(made: Round[NodeSlo]) -> Pool:
    """The load of the CPUs that pods share: without those of LSE and LSR pods, and without what BE pods use."""
    if made.sample.milli is None:
        return Pool.UNKNOWN
    total, used = made.sample.cpus * 1000, made.sample.milli
    for pod in made.pods:
        qos = qos_class(pod.labels)
        if qos in (LSE, LSR):
            total -= pod_class.request(pod.manifest, "cpu")
        if qos in (LSE, LSR, BE):
            used -= made.sample.of(pod.folder).milli or 0
    return pool_state(max(used, 0), total, made.rules.burst.pool_percent)


def _limit_milli(container: Mapping[str, Any]) -> int:
    """The CPU limit of a container in thousandths of a CPU; 0 for none."""
    return max(formulas.milli(container_amounts(container, "limits"), "cpu"), 0)
