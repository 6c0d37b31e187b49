"""The strategies that NodeSLO asks for, and a pod's annotations otherwise; all of them off unless switched on.

Rules: pure. A part that cannot be read is an error of that part, told, and its last good form stays in force. Numbers
out of range are refused as a whole. Next: :mod:`nri.agent.loops.samples`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from nri.policies.koordinator.loops import block_io, memory_qos
from nri.policies.koordinator.loops.block_io import DiskLimits
from nri.policies.koordinator.loops.cpu_burst import BurstConfig
from nri.policies.koordinator.loops.cpu_suppress import DEFAULT_PERCENT
from nri.policies.koordinator.loops.memory_qos import MemoryQos
from nri.policies.koordinator.names import BE, LS, LSE, LSR, SYSTEM
from nri.policies.koordinator.rules.kept import Kept
from nri.policies.koordinator.shapes import Record, decode, fit

__all__ = [
    "ANNOTATION_BLOCK_IO",
    "ANNOTATION_BURST",
    "ANNOTATION_MEMORY",
    "READERS",
    "Strategies",
    "Threshold",
    "of_pod",
]

ANNOTATION_BURST: Final = "koordinator.sh/cpuBurst"
ANNOTATION_MEMORY: Final = "koordinator.sh/memoryQOS"
ANNOTATION_BLOCK_IO: Final = "koordinator.sh/blkioQOS"
#: Which strategy reads an annotation.
READERS: Final = {
    ANNOTATION_BURST: "CPUBurst",
    ANNOTATION_MEMORY: "CgroupReconcile",
    ANNOTATION_BLOCK_IO: "BlkIOReconcile",
}

_NUMBERS = (
    "cpuSuppressThresholdPercent", "cpuSuppressMinPercent", "memoryEvictThresholdPercent", "memoryEvictLowerPercent",
    "cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent", "cpuEvictBEUsageThresholdPercent",
    "cpuEvictTimeWindowSeconds",
)  # fmt: skip
_THRESHOLD = Record({"enable": bool, "cpuSuppressPolicy": str, **dict.fromkeys(_NUMBERS, int)})
_BURST_FIELDS: Final = {
    "policy": "policy",
    "cpuBurstPercent": "burst_percent",
    "cfsQuotaBurstPercent": "quota_percent",
    "cfsQuotaBurstPeriodSeconds": "quota_seconds",
    "sharePoolThresholdPercent": "pool_percent",
}
_BURST = Record({name: str if name == "policy" else int for name in _BURST_FIELDS})
_POLICIES = ("none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto")
_CLASSES: Final = {LSE: "lsrClass", LSR: "lsrClass", LS: "lsClass", BE: "beClass", SYSTEM: "systemClass"}
#: Koordinator's own memory QoS, for pods whose annotation says `auto`.
_AUTO: Final = {
    name: MemoryQos(True, 0, 0, 0, 95, 20, 50 if name == BE else -25 if name in (LSE, LSR, LS) else 0)
    for name in _CLASSES
}

#: Disks that a pod may name.
_MOST_DISKS: Final = 64

_Value = TypeVar("_Value")


class Threshold(NamedTuple):
    """NodeSLO's `resourceUsedThresholdWithBE`. Percentages; None is not set."""

    enabled: bool = False
    suppress_percent: int = DEFAULT_PERCENT
    suppress_least: int | None = None
    by_quota: bool = False
    memory_percent: int | None = None
    memory_lower: int | None = None
    satisfied_upper: int | None = None
    satisfied_lower: int | None = None
    usage_percent: int = 90
    window_s: int = 60


class Strategies:
    """All that NodeSLO asks for, each part with its last good form.

    Attributes:
        threshold: when best-effort pods are held back or evicted.
        burst: how far containers run ahead of their quota.
        memory: memory QoS by QoS class.
        disks: block I/O of the folder of best-effort pods.
    """

    def __init__(self) -> None:
        self._threshold = Kept(Threshold())
        self._burst = Kept(BurstConfig())
        self._memory: Kept[Mapping[str, MemoryQos]] = Kept({})
        self._disks: Kept[tuple[DiskLimits, ...]] = Kept(())
        self.known = False

    @property
    def threshold(self) -> Threshold:
        """The rule in force."""
        return self._threshold.rule

    @property
    def burst(self) -> BurstConfig:
        """The rule in force."""
        return self._burst.rule

    @property
    def memory(self) -> Mapping[str, MemoryQos]:
        """The rules in force, by class."""
        return self._memory.rule

    @property
    def disks(self) -> tuple[DiskLimits, ...]:
        """The limits in force."""
        return self._disks.rule

    @property
    def errors(self) -> list[str]:
        """The errors of the parts that cannot be read, and are not used."""
        return [each.error for each in (self._threshold, self._burst, self._memory, self._disks) if each.error]

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read a NodeSLO; None is none, which switches everything off."""
        spec = (document or {}).get("spec")
        found = spec if isinstance(spec, dict) else {}
        self.known = self.known or document is not None
        strategy = found.get("resourceQOSStrategy")
        classes = strategy if isinstance(strategy, dict) else {}
        self._threshold.take(lambda: _threshold(found.get("resourceUsedThresholdWithBE")))
        self._burst.take(lambda: _burst(found.get("cpuBurstStrategy"), BurstConfig(), "cpuBurstStrategy"))
        self._memory.take(lambda: {name: _memory(classes, key) for name, key in _CLASSES.items()})
        self._disks.take(lambda: tuple(block_io.parse(_of(classes, "beClass", "blkioQOS"))))


class OfPod(NamedTuple):
    """The rules that hold for one pod."""

    burst: BurstConfig
    memory: MemoryQos
    disks: tuple[DiskLimits, ...]


def of_pod(
    strategies: Strategies, qos: str, annotations: Mapping[str, str], failed: Callable[[str, str], None]
) -> OfPod:
    """Return what holds for a pod; an annotation that cannot be read is told, and the node's word stays.

    Args:
        strategies: what NodeSLO asks for.
        qos: the pod's class.
        annotations: the pod's.
        failed: called with the strategy whose annotation it is, and what is wrong with it.
    """
    node = strategies.memory.get(qos, MemoryQos())
    burst = strategies.burst
    return OfPod(
        burst=_annotated(annotations, ANNOTATION_BURST, lambda text: _pod_burst(text, burst), burst, failed),
        memory=_annotated(annotations, ANNOTATION_MEMORY, lambda text: _pod_memory(text, node, qos), node, failed),
        disks=_annotated(annotations, ANNOTATION_BLOCK_IO, _pod_disks, (), failed),
    )


def _annotated(
    annotations: Mapping[str, str],
    key: str,
    parse: Callable[[str], _Value],
    otherwise: _Value,
    failed: Callable[[str, str], None],
) -> _Value:
    text = annotations.get(key)
    if not text:
        return otherwise
    try:
        return parse(text)
    except ValueError as error:
        failed(READERS[key], f"annotation {key}: {error}")
        return otherwise


def _pod_burst(text: str, node: BurstConfig) -> BurstConfig:
    return _burst(decode(text, _BURST), node, "the annotation")


def _pod_memory(text: str, node: MemoryQos, qos: str) -> MemoryQos:
    given = _object(text)
    policy = given.pop("policy", "") or "default"
    if policy == "none":
        return MemoryQos()
    if policy not in ("default", "auto"):
        raise ValueError(f"there is no policy {str(policy)[:40]!r}")
    base = _AUTO.get(qos, MemoryQos(True, 0, 0, 0)) if policy == "auto" else node
    own = memory_qos.parse(given)
    values = {name: value for name, value in own._asdict().items() if value is not None and name != "enabled"}
    return base._replace(**values)


def _pod_disks(text: str) -> tuple[DiskLimits, ...]:
    disks = tuple(block_io.parse({**_object(text), "enable": True}))
    if len(disks) > _MOST_DISKS:
        raise ValueError(f"it names {len(disks)} disks, and no machine has more than {_MOST_DISKS}")
    return disks


def _object(text: str) -> dict[str, Any]:
    """The object that a JSON text is. Raises ValueError, also for one that is nested too deep."""
    try:
        given = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(given, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  (a bad annotation, not a bad call)
    return given


def _threshold(given: Any) -> Threshold:
    found = fit({} if given is None else given, _THRESHOLD, "resourceUsedThresholdWithBE")
    for name in _NUMBERS:
        least, most = (1, 86_400) if name.endswith("Seconds") else (0, 100)
        if name in found and not least <= found[name] <= most:
            raise ValueError(f"resourceUsedThresholdWithBE.{name}: {found[name]} is not from {least} to {most}")
    return Threshold(
        enabled=found.get("enable", False),
        suppress_percent=found.get("cpuSuppressThresholdPercent", DEFAULT_PERCENT),
        suppress_least=found.get("cpuSuppressMinPercent"),
        by_quota=found.get("cpuSuppressPolicy", "") == "cfsQuota",
        memory_percent=found.get("memoryEvictThresholdPercent"),
        memory_lower=found.get("memoryEvictLowerPercent"),
        satisfied_upper=found.get("cpuEvictBESatisfactionUpperPercent"),
        satisfied_lower=found.get("cpuEvictBESatisfactionLowerPercent"),
        usage_percent=found.get("cpuEvictBEUsageThresholdPercent", 90),
        window_s=found.get("cpuEvictTimeWindowSeconds", 60),
    )


def _burst(given: Any, base: BurstConfig, where: str) -> BurstConfig:
    found = fit({} if given is None else given, _BURST, where)
    config = base._replace(**{_BURST_FIELDS[name]: value for name, value in found.items()})
    if config.policy not in _POLICIES:
        raise ValueError(f"{where}.policy: there is no policy {config.policy[:40]!r}")
    if not (1 <= config.burst_percent <= 10_000 and 100 <= config.quota_percent <= 10_000):
        raise ValueError(f"{where}: a burst is from 1 to 10000 percent, a quota from 100")
    if not (-1 <= config.quota_seconds <= 86_400 and 0 <= config.pool_percent <= 100):
        raise ValueError(f"{where}: cfsQuotaBurstPeriodSeconds or sharePoolThresholdPercent is out of range")
    return config


def _memory(classes: Mapping[str, Any], name: str) -> MemoryQos:
    return memory_qos.parse(_of(classes, name, "memoryQOS"))


def _of(classes: Mapping[str, Any], name: str, part: str) -> Any:
    found = classes.get(name)
    return found.get(part) if isinstance(found, dict) else None
