"""quotaBurst: containers of pods that ask for it may save up CPU time, and use it above their quota.

Rules: an annotation that cannot be read costs that pod the service, is reported once, and the last good one counts;
what is no longer asked for is taken back. Next: `nri.agent.rubik.services.io_limit`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.rubik.decisions import quota_turbo
from nri.agent.rubik.decisions.quota_burst import ANNOTATION, Quota, burst_of, refusal, writes
from nri.agent.rubik.pods import limit_of, pod_of
from nri.agent.rubik.service import Service, Services, readable
from nri.agent.settings.values import AgentSettings
from nri.policies.formulas import UNLIMITED

__all__ = ["NAME", "QuotaBurst"]

NAME: Final = "quotaBurst"
_BURST: Final = "cpu.cfs_burst"


class QuotaBurst(Service):
    """Sets bursts."""

    name = NAME
    prompt = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        #: The pods that have a burst of ours.
        self._set: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """The number of pods that have a burst."""
        return len(self._set)

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on, or bursts are to go."""
        return super().wants(rules) or self.was_on

    def round(self, made: Round[Services]) -> None:
        """Look at the pods that ask for it, and at those that did."""
        kept, leftovers = set[str](), self.leftovers(made, ANNOTATION)
        for pod in made.pods:
            quotas = {folder: _quota(made, pod, folder) for folder in pod_of(pod).folders()}
            annotations = readable(made, pod, NAME, ANNOTATION, burst_of) if self.on else {}
            burst = burst_of(annotations)
            names = {each.cgroup_parent: each.name for each in pod.containers}
            ours = frozenset(names)
            if burst is None and pod.uid not in self._set:
                ours = _with_burst(made, pod, leftovers & ours)
                if not ours:
                    continue
            if burst is not None:
                kept.add(pod.uid)
            for folder, name in names.items():
                if burst is not None and (why := refusal(burst, quotas[folder], made.sample.cpus)):
                    made.errors.append(f"{NAME}: {pod.key}/{name}: no burst: {why}")
            reason = f"annotation {ANNOTATION}" if burst is not None else "it is no longer asked for"
            for write in writes(pod_of(pod), burst or 0, quotas.__getitem__, made.sample.cpus):
                if write.folder in names and write.folder not in ours:
                    continue
                subject = pod.subject(names.get(write.folder, ""))
                made.set(subject, write.folder, write.knob, write.value, NAME, reason)
        self._set = frozenset(kept)


def _quota(made: Round[Services], pod: StrategyPod, folder: str) -> Quota:
    """The quota, period and burst of a pod or container; what quotaTurbo adds to a quota for a while is left out.

    The kernel refuses a quota below the burst, so that a burst above the limit would keep the quota from going back.
    """
    values = [made.read(folder, knob) for knob in ("cpu.cfs_quota", "cpu.cfs_period", _BURST)]
    quota, period, burst = (value if isinstance(value, int) else None for value in values)
    if quota is not None and period and pod.annotations.get(quota_turbo.ANNOTATION) == "true":
        limits = {container.folder: container.cpu_limit for container in pod_of(pod).containers}
        limit = limits.get(folder, limit_of(pod))
        quota = min(quota, quota_turbo.quota_of_limit(limit, period)) if limit and quota != UNLIMITED else quota
    return Quota(quota, period, burst)


def _with_burst(made: Round[Services], pod: StrategyPod, folders: Collection[str]) -> frozenset[str]:
    """Those of a pod's containers that have the burst that its annotation asks for; another one is somebody else's."""
    try:
        burst = burst_of(pod.annotations)
    except ValueError:
        return frozenset()
    return frozenset(folder for folder in folders if burst and made.read(folder, _BURST) == burst)
