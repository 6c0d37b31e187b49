"""The service quotaBurst: pods with annotation `volcano.sh/quota-burst-time` save CPU time and use it above the quota.

The burst of a container is refused if it exceeds the quota, or if the quota already covers all CPUs of the node. The
pod gets the sum of its containers' bursts. An unreadable annotation is reported once, and the last valid annotation
stays in force. Bursts are reset when the annotation is removed or the service is switched off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from nri.agent.hooks import CREATE, Hook
from nri.agent.loops.round import Round
from nri.agent.model import Changes, Container, Decision, Pod, Resources, Write
from nri.agent.rubik import quota_turbo
from nri.agent.rubik.pods import limit_of
from nri.agent.rubik.service import Node, Service, Services, readable
from nri.agent.settings.values import AgentSettings
from nri.kube.cgroup_limits import UNLIMITED
from nri.kube.quantity import CPU_PERIOD_US

NAME: Final = "quotaBurst"
ANNOTATION: Final = "volcano.sh/quota-burst-time"
_QUOTA, _PERIOD, _BURST = "cpu.cfs_quota", "cpu.cfs_period", "cpu.cfs_burst"
_DIGITS: Final = re.compile(r"[+-]?0{0,32}[0-9]{1,19}")


class Quota(NamedTuple):
    """A cgroup's quota, period and burst in microseconds. A value is None if the file is missing or not a number."""

    quota: int | None
    period: int | None
    burst: int | None


def parse(annotations: Mapping[str, str]) -> int | None:
    """Return the requested burst in microseconds, or None. Raises ValueError if the annotation is malformed."""
    text = annotations.get(ANNOTATION, "")
    if not text:
        return None
    burst_us = int(text) if _DIGITS.fullmatch(text) else -1
    if not 0 <= burst_us < 1 << 63:
        raise ValueError(f"{ANNOTATION} {text!r} is not a number of microseconds, 0 or more")
    return burst_us


def refusal(burst_us: int, current: Quota, cpus: int) -> str:
    """Return why a burst cannot be set, or "" if it can."""
    if current.quota is None or current.period is None or current.burst is None:
        return "the quota, period or burst cannot be read"
    if current.quota == UNLIMITED:
        return ""
    if current.quota >= current.period * cpus:
        return f"the quota {current.quota} already covers all {cpus} CPUs"
    return f"the quota {current.quota} is less than the burst {burst_us}" if current.quota < burst_us else ""


def writes(pod: Pod, burst_us: int, quota_of: Callable[[str], Quota], cpus: int) -> list[Write]:
    """Return the writes for the containers, and their sum for the pod. `quota_of` reads the quota of a cgroup."""
    accepted = [c.folder for c in pod.containers if not refusal(burst_us, quota_of(c.folder), cpus)]
    bursts = dict.fromkeys(accepted, burst_us)
    total_us = burst_us * len(accepted)
    if not refusal(total_us, quota_of(pod.folder), cpus):
        bursts[pod.folder] = total_us
    return [Write(folder, _BURST, str(value), NAME) for folder, value in bursts.items()]


def at_creation(container: Container, node: Node) -> Decision:
    """Give a new container the burst that its pod requests, if the container's quota allows it."""
    resources = container.resources or Resources()
    quota = Quota(resources.cfs_quota or UNLIMITED, resources.cfs_period or CPU_PERIOD_US, 0)
    try:
        burst_us = parse(container.pod.annotations)
    except ValueError:
        return Decision()  # the rounds report it
    if not burst_us or container.sandbox or refusal(burst_us, quota, node.cpus()) or not node.has(_BURST):
        return Decision()
    return Decision(Changes({_BURST: burst_us}), f"annotation {ANNOTATION}")


HOOK: Final = Hook(NAME, False, (), (ANNOTATION,), {CREATE: at_creation})


class QuotaBurst(Service):
    """The service that sets the bursts of running pods from their annotations."""

    name = NAME
    runs_on_pod_changes = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._pods_with_burst: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """The number of pods with a burst."""
        return len(self._pods_with_burst)

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on, or bursts must be reset."""
        return super().is_needed(rules) or self.was_on

    def round(self, round_: Round[Services]) -> None:
        """Set and reset the bursts of all pods."""
        with_burst = set[str]()
        leftovers = self.leftovers(round_, ANNOTATION)
        for pod in round_.pods:
            burst_us = parse(readable(round_, pod, NAME, ANNOTATION, parse)) if self.on else None
            cgroups = frozenset(container.folder for container in pod.containers)
            if burst_us is not None:
                with_burst.add(pod.uid)
            elif pod.uid not in self._pods_with_burst:
                cgroups = _with_requested_burst(round_, pod, leftovers & cgroups)
                if not cgroups:
                    continue
            self._set(round_, pod, burst_us, cgroups)
        self._pods_with_burst = frozenset(with_burst)

    @staticmethod
    def _set(round_: Round[Services], pod: Pod, burst_us: int | None, cgroups: Collection[str]) -> None:
        """Set the burst of these containers, and the sum of all bursts for the pod. None resets the bursts."""
        quotas = {folder: _quota(round_, pod, folder) for folder in pod.folders()}
        names = {container.folder: container.name for container in pod.containers}
        for cgroup, name in names.items() if burst_us is not None else ():
            if reason := refusal(burst_us or 0, quotas[cgroup], round_.sample.cpus):
                round_.errors.append(f"{NAME}: {pod.key}/{name}: no burst: {reason}")
        reason = f"annotation {ANNOTATION}" if burst_us is not None else "the burst is no longer requested"
        for write in writes(pod, burst_us or 0, quotas.__getitem__, round_.sample.cpus):
            if write.folder in cgroups or write.folder not in names:
                subject = pod.subject(names.get(write.folder, ""))
                round_.set(subject, write.folder, write.knob, write.value, NAME, reason)


def _quota(round_: Round[Services], pod: Pod, folder: str) -> Quota:
    """Return quota, period and burst of a pod or container, without quotaTurbo's temporary addition to the quota.

    The kernel refuses a quota below the burst, so a burst above the limit would prevent the quota's return.
    """
    values = [round_.read(folder, knob) for knob in (_QUOTA, _PERIOD, _BURST)]
    quota, period, burst = (value if isinstance(value, int) else None for value in values)
    if quota is not None and period and pod.annotations.get(quota_turbo.ANNOTATION) == "true":
        limits = {container.folder: container.cpu_limit for container in pod.containers}
        limit = limits.get(folder, limit_of(pod))
        quota = min(quota, quota_turbo.quota_of_limit(limit, period)) if limit and quota != UNLIMITED else quota
    return Quota(quota, period, burst)


def _with_requested_burst(round_: Round[Services], pod: Pod, cgroups: Collection[str]) -> frozenset[str]:
    """Return the containers with exactly the annotated burst. Another program has set all other bursts."""
    try:
        burst_us = parse(pod.annotations)
    except ValueError:
        return frozenset()
    return frozenset(cgroup for cgroup in cgroups if burst_us and round_.read(cgroup, _BURST) == burst_us)
