"""CPUBurst: containers that are throttled may borrow CPU, by `cpu.cfs_burst_us` and by a quota that grows in steps.

Rules: for pods that share CPUs: all but LSE, LSR and BE. Mainline kernels refuse a burst above the quota, so there it
is cut to that. A quota that CPUNormalization repairs is not scaled, because each would undo the other. Scaled values
are put back when it is switched off. Next: :mod:`nri.agent.koordinator.evict`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nri.agent.koordinator import cpu_normalization, pod_class
from nri.agent.koordinator.decisions.cpu_burst import (
    ANNOTATION_BURST,
    BurstConfig,
    Bursts,
    Container,
    Pod,
    Pool,
    pool_state,
)
from nri.agent.koordinator.names import BE, LSE, LSR, qos_class
from nri.agent.koordinator.node import NO_RATIO
from nri.agent.koordinator.slo import NodeSlo, rules_of
from nri.agent.loops.round import Round, StrategyPod
from nri.agent.loops.samples import Sample
from nri.agent.loops.strategy import Sampled, Strategy
from nri.agent.settings.values import AgentSettings
from nri.host import Unsupported, probe
from nri.kube.pod_resources import container_amounts
from nri.policies import formulas
from nri.policies.writes import BVT, QUOTA

__all__ = ["NAME", "CpuBurst"]

NAME: Final = "CPUBurst"
_BURST: Final = "cpu.cfs_burst"
#: The seconds over which the use of the shared CPUs is averaged, and the number of samples in them at most.
_POOL_WINDOW_S: Final = 5.0
_MAX_SAMPLES: Final = 64


class CpuBurst(Strategy):
    """Lets containers run ahead of their quota."""

    name = NAME
    samples = Sampled.PODS | Sampled.CONTAINERS
    key = ANNOTATION_BURST

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self.bursts = Bursts()
        self._looked_once = False
        #: Why values stayed as they were in the last round, by the pod's uid and the container's name.
        self._unchanged: dict[str, dict[str, str]] = {}
        self._pool = Pool.UNKNOWN
        #: The samples of the last seconds.
        self.recent: deque[Sample] = deque(maxlen=_MAX_SAMPLES)
        #: Containers that are to be put back when it is switched off.
        self._touched: set[str] = set()

    def __len__(self) -> int:
        """The number of containers that are remembered."""
        return len(self.bursts.buckets) + len(self._touched)

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: bursts that are asked for, or quotas that were scaled."""
        return rules.burst.policy != "none" or bool(self._touched)

    def state(self, now: float) -> str:  # noqa: ARG002  no time in it
        """Say how loaded the CPUs are that pods share."""
        return f"the use of the shared CPUs is {'not known' if self._pool is Pool.UNKNOWN else self._pool.value}"

    def unchanged(self, uid: str) -> Mapping[str, str]:
        """Return why quotas of a pod's containers stayed as they were, by container; "" is the pod itself."""
        return self._unchanged.get(uid, {})

    def round(self, made: Round[NodeSlo]) -> None:
        """Decide for the pods that share CPUs."""
        hierarchies = made.parts.executor.hierarchies
        self.bursts.above_quota = not isinstance(probe(hierarchies, BVT), Unsupported)
        looked: dict[str, StrategyPod] = {}
        decided: list[Pod] = []
        unchanged: dict[str, dict[str, str]] = {}
        self._pool = self.pool(made)
        for pod in made.pods:
            if not pod_class.cpu_burstable(pod.manifest):
                unchanged[pod.uid] = {"": f"pods of class {qos_class(pod.labels)} share no CPUs, and so have no burst"}
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
        for write in self.bursts.decide(decided, self._pool, made.sample.at, scale=scale):
            one = looked[write.folder]
            name = next((each.name for each in one.containers if write.name and each.id == write.name), "")
            made.set(one.subject(name), write.folder, write.knob, write.value, NAME, write.reason)
        for pod in looked.values():
            reasons = {each.name: self.bursts.unchanged.get(each.id, "") for each in pod.containers}
            unchanged[pod.uid] = {name: reason for name, reason in reasons.items() if reason}
        self._unchanged = unchanged

    def pool(self, made: Round[NodeSlo]) -> Pool:
        """Return the load of the CPUs that pods share, on average over the last seconds.

        The CPUs of LSE and LSR pods are not part of them, and what BE pods use does not count.
        """
        self.recent.append(made.sample)
        while made.sample.at - self.recent[0].at >= _POOL_WINDOW_S:
            self.recent.popleft()
        used = _mean_cores(sample.milli for sample in self.recent)
        if used is None:
            return Pool.UNKNOWN
        total = float(made.sample.cpus)
        for pod in made.pods:
            qos = qos_class(pod.labels)
            if qos in (LSE, LSR):
                total -= pod_class.request(pod.manifest, "cpu") / 1000
            if qos in (LSE, LSR, BE):
                used -= _mean_cores(sample.of(pod.folder).milli for sample in self.recent) or 0
        return pool_state(max(used, 0), total, made.rules.burst.pool_percent)

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


def _mean_cores(milli: Iterable[float | None]) -> float | None:
    """Return the mean of the known values in CPUs, from thousandths of CPUs; None if none is known."""
    cores = [value / 1000 for value in milli if value is not None]
    return sum(cores) / len(cores) if cores else None


def _limit_milli(container: Mapping[str, Any]) -> int:
    """The CPU limit of a container in thousandths of a CPU; 0 for none."""
    return max(formulas.milli(container_amounts(container, "limits"), "cpu"), 0)
