"""NodeSLO's rules for strategies, and a pod's annotations instead; all of them are off unless switched on.

Rules: pure. A part that cannot be read is an error of that part, told, and its last good form stays in force. Numbers
out of range are refused as a whole. Next: `nri.agent.koordinator.cpu_suppress`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from nri.agent.koordinator import defaults, pod_class
from nri.agent.koordinator.decisions import block_io, memory_qos, system_config
from nri.agent.koordinator.decisions.block_io import ANNOTATION_BLOCK_IO, DiskLimits, RootDisk
from nri.agent.koordinator.decisions.class_resctrl import CACHE, GROUPS
from nri.agent.koordinator.decisions.cpu_burst import (
    ANNOTATION_BURST,
    BURST_FIELDS,
    BURST_RANGES,
    BurstConfig,
    burst_from,
    burst_of,
)
from nri.agent.koordinator.decisions.cpu_suppress import DEFAULT_PERCENT
from nri.agent.koordinator.decisions.evict import NUMBERS, THRESHOLDS
from nri.agent.koordinator.decisions.memory_qos import ANNOTATION_MEMORY, CLASS_KEYS, Config
from nri.agent.loops.round import Round, StrategyPod
from nri.config.syntax import parse_json
from nri.policies.last_good import LastGood
from nri.policies.shapes import fit

__all__ = [
    "ANNOTATION_BLOCK_IO",
    "ANNOTATION_BURST",
    "ANNOTATION_MEMORY",
    "READERS",
    "NodeSlo",
    "Threshold",
    "pod_rules",
    "rules_of",
]

#: Which strategy reads an annotation.
READERS: Final = {
    ANNOTATION_BURST: "CPUBurst",
    ANNOTATION_MEMORY: "CgroupReconcile",
    ANNOTATION_BLOCK_IO: "BlkIOReconcile",
}

_POLICIES = ("none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto")
#: Disks that a pod may name.
_MOST_DISKS: Final = 64

_Value = TypeVar("_Value")


class Threshold(NamedTuple):
    """NodeSLO's `resourceUsedThresholdWithBE`: percentages, None is not set; `keys` has all of it."""

    enabled: bool = False
    suppress_percent: int = DEFAULT_PERCENT
    suppress_least: int | None = None
    by_quota: bool = False
    keys: Mapping[str, Any] = {}


class NodeSlo:
    """All that NodeSLO asks for, each part with its last good form.

    Attributes:
        threshold: when best-effort pods are held back or evicted.
        burst: how far containers run ahead of their quota.
        memory: memory QoS by NodeSLO's key of the class.
        disks: block I/O of the folder of best-effort pods.
    """

    kind = "NodeSLO"

    def __init__(self) -> None:
        self._threshold = LastGood(Threshold())
        self._burst = LastGood(BurstConfig())
        self._memory: LastGood[Mapping[str, Config]] = LastGood({})
        self._caches: LastGood[Mapping[str, Mapping[str, Any]]] = LastGood({})
        self._disks: LastGood[tuple[DiskLimits, ...]] = LastGood(())
        self._root_disks: LastGood[tuple[RootDisk, ...]] = LastGood(())
        self._system = LastGood(system_config.System())
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
    def memory(self) -> Mapping[str, Config]:
        """The rules in force, by NodeSLO's key of the class."""
        return self._memory.rule

    @property
    def caches(self) -> Mapping[str, Mapping[str, Any]]:
        """The parts of caches and bandwidth in force, by NodeSLO's key of the class."""
        return self._caches.rule

    @property
    def disks(self) -> tuple[DiskLimits, ...]:
        """The limits in force."""
        return self._disks.rule

    @property
    def root_disks(self) -> tuple[RootDisk, ...]:
        """The latencies in force, of disks for the whole machine."""
        return self._root_disks.rule

    @property
    def system(self) -> system_config.System:
        """The sysctls in force."""
        return self._system.rule

    @property
    def errors(self) -> list[str]:
        """The errors of the parts that cannot be read, and are not used."""
        parts = (self._threshold, self._burst, self._memory, self._caches, self._disks, self._root_disks, self._system)
        return [each.error for each in parts if each.error]

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read a NodeSLO; None is none, which switches everything off."""
        spec = (document or {}).get("spec")
        self.known = self.known or document is not None
        self.read(defaults.merged(spec if isinstance(spec, dict) else {}))

    def read(self, spec: Mapping[str, Any]) -> None:
        """Read the spec of a NodeSLO into which defaults were merged; a part that is absent is off."""
        strategy = spec.get("resourceQOSStrategy")
        classes = strategy if isinstance(strategy, dict) else {}
        self._threshold.take(lambda: _threshold(spec.get("resourceUsedThresholdWithBE")))
        self._burst.take(lambda: _burst(spec.get("cpuBurstStrategy"), BurstConfig(), "cpuBurstStrategy"))
        self._memory.take(lambda: {key: _memory(classes, key) for key in CLASS_KEYS.values()})
        self._caches.take(lambda: {key: _cache(classes, key) for key in GROUPS.values()})
        self._disks.take(lambda: tuple(block_io.parse(*_of(classes, "beClass", "blkioQOS"))))
        self._root_disks.take(lambda: tuple(block_io.parse_root(*_of(classes, "cgroupRoot", "blkioQOS"))))
        self._system.take(lambda: system_config.parse(spec.get("systemStrategy")))


class PodRules(NamedTuple):
    """The rules that hold for one pod."""

    burst: BurstConfig
    memory: Config
    disks: tuple[DiskLimits, ...]


def pod_rules(rules: NodeSlo, qos: str, annotations: Mapping[str, str], failed: Callable[[str, str], None]) -> PodRules:
    """Return what holds for a pod; an annotation that cannot be read is reported, and the node's word stays.

    Args:
        rules: what NodeSLO asks for.
        qos: the pod's class, or that which goes with its Kubernetes class.
        annotations: the pod's.
        failed: called with the strategy whose annotation it is, and what is wrong with it.
    """
    key = CLASS_KEYS.get(qos, "")
    node = rules.memory.get(key, {})
    burst = rules.burst
    return PodRules(
        burst=_annotated(annotations, ANNOTATION_BURST, lambda text: _pod_burst(text, burst), burst, failed),
        memory=_annotated(annotations, ANNOTATION_MEMORY, lambda text: _pod_memory(text, node, key), node, failed),
        disks=_annotated(annotations, ANNOTATION_BLOCK_IO, _pod_disks, (), failed),
    )


def rules_of(made: Round[NodeSlo], pod: StrategyPod, strategy: str) -> PodRules:
    """Return the rules that hold for a pod in a round.

    An annotation that `strategy` cannot read is an error, and the last good one counts, or else the node's word.
    """
    wrong: dict[str, str] = {}
    qos = pod_class.default_qos(pod.manifest)
    found = pod_rules(made.rules, qos, pod.annotations, wrong.__setitem__)
    key = next(key for key, reader in READERS.items() if reader == strategy)
    made.unreadable[pod.subject(), strategy] = wrong.get(strategy, "")
    if strategy not in wrong:
        made.good.keep(pod.uid, key, pod.annotations)
        return found
    made.errors.append(f"{pod.key}: {wrong[strategy]}")
    instead = made.good.instead(pod.uid, key, pod.annotations)
    return found if instead is None else pod_rules(made.rules, qos, instead, wrong.__setitem__)


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
    return _checked_burst(burst_of(text, node))


def _pod_memory(text: str, node: Config, class_key: str) -> Config:
    policy = _object(text).get("policy", "")
    if policy not in ("", "default", "auto", "none"):
        raise ValueError(f"policy: there is no policy {str(policy)[:40]!r}; there are default, auto, none")
    return memory_qos.of_pod(text, node, class_key)


def _pod_disks(text: str) -> tuple[DiskLimits, ...]:
    disks = tuple(block_io.parse({**_object(text), "enable": True}))
    if len(disks) > _MOST_DISKS:
        raise ValueError(f"it names {len(disks)} disks, and no machine has more than {_MOST_DISKS}")
    return disks


def _object(text: str) -> dict[str, Any]:
    """The object that a JSON text is. Raises ValueError."""
    given = parse_json(text)
    if not isinstance(given, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  (a bad annotation, not a bad call)
    return given


def _threshold(given: Any) -> Threshold:
    found = fit({} if given is None else given, THRESHOLDS, "resourceUsedThresholdWithBE")
    for name in NUMBERS:
        least, most = (1, 86_400) if name.endswith("Seconds") else (0, 100)
        if name in found and not least <= found[name] <= most:
            raise ValueError(f"resourceUsedThresholdWithBE.{name}: {found[name]} is not from {least} to {most}")
    return Threshold(
        enabled=found.get("enable", False),
        suppress_percent=found.get("cpuSuppressThresholdPercent", DEFAULT_PERCENT),
        suppress_least=found.get("cpuSuppressMinPercent"),
        by_quota=found.get("cpuSuppressPolicy", "") == "cfsQuota",
        keys=found,
    )


def _burst(given: Any, base: BurstConfig, where: str) -> BurstConfig:
    return _checked_burst(burst_from({} if given is None else given, base, where), where)


def _checked_burst(config: BurstConfig, where: str = "") -> BurstConfig:
    place = f"{where}." if where else ""
    if config.policy not in _POLICIES:
        raise ValueError(f"{place}policy: there is no policy {config.policy[:40]!r}; there are {', '.join(_POLICIES)}")
    for key, (least, most) in BURST_RANGES.items():
        if not least <= (value := getattr(config, BURST_FIELDS[key])) <= most:
            raise ValueError(f"{place}{key}: {value} is not from {least} to {most}")
    return config


def _memory(classes: Mapping[str, Any], name: str) -> Config:
    return memory_qos.parse(*_of(classes, name, "memoryQOS"))


def _cache(classes: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given, where = _of(classes, name, "resctrlQOS")
    found: Mapping[str, Any] = fit({} if given is None else given, CACHE, where)
    return found


def _of(classes: Mapping[str, Any], name: str, part: str) -> tuple[Any, str]:
    """A class's part, and its place for errors."""
    found = classes.get(name)
    return found.get(part) if isinstance(found, dict) else None, f"resourceQOSStrategy.{name}.{part}"
