"""The hook Resctrl and the strategy RdtResctrl: cache and memory bandwidth of single pods and of QoS classes.

The hook: the annotation of a pod requests a group. The pod's stage creates the group with its schemata, the container's
stage sets the group as RDT class, and the pod's removal removes the group.

The strategy: one group for each of LSR, LS and BE from NodeSLO's `resctrlQOS`, with the threads of their containers,
except pods with a group by annotation. When no class requests a group any more, the groups get the whole cache once,
also at the start if an earlier agent left groups.

A range of the cache is in percent of its ways; both ends are rounded up. A bandwidth is in percent: Intel rounds up to
tens; AMD counts eighths of a gigabit, up to 160, and 2048 means no limit. Values that cannot be computed are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nri.agent.hooks import CREATE, REMOVE_POD, RUN_POD, Hook
from nri.agent.koordinator import pod_class
from nri.agent.koordinator.documents import SLO, NodeSlo, Part, class_part
from nri.agent.koordinator.names import BE, LS, LSE, LSR
from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.pod_annotations import read
from nri.agent.koordinator.quirks import Quirks
from nri.agent.loops.round import Round
from nri.agent.loops.strategy import Strategy
from nri.agent.model import Changes, Container, Decision, HookError, Pod, Resctrl
from nri.agent.ownership import Level, OwnedKnob
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.host import resctrl as host
from nri.kube.shapes import Items, Record, fit

NAME: Final = "Resctrl"
INTEL, AMD = "GenuineIntel", "AuthenticAMD"
#: The prefix of the names of this agent's groups, which end with the uid of the pod.
PREFIX: Final = "koordlet-"
#: The bandwidth of an AMD die in gigabits per second, minus a fifth that is hard to reach.
_AMD_MOST: Final = 160
#: The value for no limit on AMD.
_AMD_UNLIMITED: Final = 2048
ANNOTATION_RESCTRL: Final = "node.koordinator.sh/resctrl"
_SCHEMATA = {"percent": int, "range": Items(int)}
_PART = Record({"schemata": Record(_SCHEMATA), "schemataPerCache": Items(Record({"cacheID": int, **_SCHEMATA}))})
SHAPE = Record({"llc": _PART, "mb": _PART})
#: The group of each class, and NodeSLO's key of the class.
GROUPS: Final = {"LSR": "lsrClass", "LS": "lsClass", "BE": "beClass"}
#: The shape of `resctrlQOS` of a class.
CACHE: Final = Record(
    {"enable": bool, **dict.fromkeys(("catRangeStartPercent", "catRangeEndPercent", "mbaPercent"), int)}
)
_OF_CLASS: Final = {LSE: "LSR", LSR: "LSR", LS: "LS", BE: "BE"}
CLASS_NAME: Final = "RdtResctrl"


class Schemata:
    """Masks and shares by domain; 0 means not set. A line is written only if all its domains are set.

    Attributes:
        l3: masks of the cache's ways.
        mb: shares of the memory bandwidth, in the CPU's unit.
        domains: the number of domains of the machine.
    """

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self.l3 = dict.fromkeys(ids, 0)
        self.mb = dict(self.l3)
        self.domains = len(self.l3)

    def l3_valid(self) -> bool:
        """Return whether exactly the domains of the machine have masks."""
        return 0 < self.domains == len(self.l3) and all(mask > 0 for mask in self.l3.values())

    def mb_valid(self) -> bool:
        """Return whether every domain in `mb` has a share."""
        return self.domains > 0 and bool(self.mb) and all(share > 0 for share in self.mb.values())

    def l3_line(self) -> str:
        """Return the line for the cache. The kernel ignores the last semicolon."""
        return self._line("L3", {domain: f"{mask:x}" for domain, mask in self.l3.items()})

    def mb_line(self) -> str:
        """Return the line for the memory bandwidth of the cache's domains."""
        return self._line("MB", {domain: str(self.mb.get(domain, 0)) for domain in (self.l3 if self.mb else ())})

    @staticmethod
    def _line(name: str, values: dict[int, str]) -> str:
        return f"{name}:{''.join(f'{domain}={values[domain]};' for domain in sorted(values))}\n" if values else ""


def cache_mask(ways: int, start: int, end: int) -> int:
    """Return the mask of the ways from `start` to `end` percent, both rounded up.

    Raises:
        ValueError: the percentages are not a range, or the machine's mask has a gap.
    """
    if ways < 0 or (ways + 1).bit_count() != 1:
        raise ValueError(f"the cache's mask {ways:x} has a gap")
    if start < 0 or end > 100 or end <= start:
        raise ValueError(f"{start} to {end} percent is not a valid range within 0 to 100 percent")
    count = ways.bit_length()
    return (1 << -(-count * end // 100)) - (1 << -(-count * start // 100))


def pod(context: Pod, cache: Cache) -> Decision:
    """Decide a pod's group. Raises HookError if the annotation is unreadable."""
    try:
        requested = shares(context.annotations)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    if requested is None:
        return Decision()
    schemata = _schemata(requested, cache)
    text = (schemata.l3_line() if schemata.l3_valid() else "") + (schemata.mb_line() if schemata.mb_valid() else "")
    return Decision(Changes(resctrl=Resctrl(PREFIX + context.uid, text)), "the pod's annotation")


def container(context: Container, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide a container's RDT class: the pod's group, which exists only if the annotation is readable."""
    if ANNOTATION_RESCTRL not in context.pod.annotations:
        return Decision()
    if quirks.resctrl_class_needs_group:
        try:
            shares(context.pod.annotations)
        except ValueError as error:
            raise HookError(NAME, str(error)) from None
    return Decision(Changes(resctrl=Resctrl(PREFIX + context.pod.uid)), "the group of the pod")


def removal(context: Pod) -> Decision:
    """Remove the group of a removed pod."""
    if ANNOTATION_RESCTRL not in context.annotations:
        return Decision()
    return Decision(Changes(resctrl=Resctrl(PREFIX + context.uid, remove=True)), "the pod was removed")


def stale(groups: Iterable[str], pods: Iterable[Pod]) -> list[str]:
    """Return the groups of this agent that no pod requests."""
    requested = {PREFIX + pod.uid for pod in pods if ANNOTATION_RESCTRL in pod.annotations}
    return sorted(group for group in groups if group.startswith(PREFIX) and group not in requested)


def bandwidth(percent: int, vendor: str) -> int:
    """Return a percentage of the memory bandwidth in the CPU's unit, or 0 if the vendor is unknown."""
    if vendor == INTEL:
        return percent if percent % 10 == 0 else int(percent / 10) * 10 + 10
    if vendor == AMD:
        return _AMD_UNLIMITED if percent == 100 else int(_AMD_MOST * percent / 100)
    return 0


def _schemata(requested: Mapping[str, Any], cache: Cache) -> Schemata:
    """Compute the schemata of an annotation, up to the first invalid range."""
    schemata = Schemata(cache.ids)
    memory, llc = requested.get("mb", {}), requested.get("llc", {})
    percent = memory.get("schemata", {}).get("percent", 0)
    if percent:
        schemata.mb = dict.fromkeys(schemata.mb, bandwidth(percent, cache.vendor))
    for entry in memory.get("schemataPerCache", []):
        schemata.mb[entry.get("cacheID", 0)] = bandwidth(entry.get("percent", 0), cache.vendor)
    try:
        span = llc.get("schemata", {}).get("range", [])
        if len(span) == 2:
            schemata.l3 = dict.fromkeys(schemata.l3, cache_mask(cache.mask, *span))
        for entry in llc.get("schemataPerCache", []):
            if len(entry.get("range", [])) == 2:
                schemata.l3[entry.get("cacheID", 0)] = cache_mask(cache.mask, *entry["range"])
    except ValueError:
        pass
    return schemata


def shares(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the cache and memory bandwidth of a pod (`llc` and `mb`, each with `schemata` and `schemataPerCache`)."""
    config: dict[str, Any] | None = read(annotations, ANNOTATION_RESCTRL, SHAPE)
    return config


def _decide_pod(context: Pod, node: Node) -> Decision:
    return Decision() if node.cache is None else pod(context, node.cache)


def _decide_container(context: Container, node: Node) -> Decision:
    return Decision() if node.cache is None else container(context, node.quirks)


HOOK: Final = Hook(
    NAME,
    False,
    ("pods",),
    (ANNOTATION_RESCTRL,),
    {
        RUN_POD: _decide_pod,
        CREATE: _decide_container,
        REMOVE_POD: lambda context, node: Decision() if node.cache is None else removal(context),
    },
    (OwnedKnob(Level.POD, "resctrl"),),
)


def group_of(qos: str) -> str:
    """Return the group of a QoS class, or "" if the class has no group."""
    return _OF_CLASS.get(qos, "")


def class_bandwidth(percent: int | None, vendor: str) -> str:
    """Return the share of memory bandwidth in the processor's unit; "" keeps the current share."""
    if percent is None or not 0 < percent <= 100:
        return ""
    if vendor == AMD:
        return str(_AMD_UNLIMITED if percent == 100 else percent * _AMD_MOST // 100)
    return str(-(-percent // 10) * 10)


def class_schemata(config: Mapping[str, Any], ways: int | None, vendor: str, domains: Sequence[int]) -> tuple[str, ...]:
    """Return the lines of a class's group. Invalid and unknown values have no line.

    Args:
        config: `resctrlQOS` of the class.
        ways: the mask of all ways of the cache; None if unknown.
        vendor: the vendor of the processor.
        domains: the numbers of the caches.
    """
    lines = []
    start, end = config.get("catRangeStartPercent"), config.get("catRangeEndPercent")
    if ways is not None and start is not None and end is not None:
        try:
            lines.append(_line("L3", f"{cache_mask(ways, start, end):x}", domains))
        except ValueError:
            pass  # the admission and the kernel refuse such a range
    share = class_bandwidth(config.get("mbaPercent"), vendor)
    return tuple(filter(None, [*lines, _line("MB", share, domains) if share else ""]))


def _line(name: str, value: str, domains: Sequence[int]) -> str:
    return f"{name}:{''.join(f'{domain}={value};' for domain in domains)}\n" if domains else ""


def _of_classes(spec: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return `resctrlQOS` by NodeSLO's key of the class."""
    parts = ((key, *class_part(spec, key, "resctrlQOS")) for key in GROUPS.values())
    return {key: fit({} if section is None else section, CACHE, where) for key, section, where in parts}


class ClassResctrl(Strategy):
    """The strategy that shares caches and bandwidth between QoS classes."""

    name = CLASS_NAME

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        #: Whether groups exist; None before the first round.
        self._active: bool | None = None

    def is_needed(self, rules: NodeSlo) -> bool:
        """Return whether a class requests a group, or groups were created."""
        return bool(self._active) or any(rule.get("enable") for rule in rules[CACHES].values())

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for each class."""
        caches, cache = round_.rules[CACHES], round_.parts.decisions.node.cache
        if self._active is None:
            self._active = not GROUPS.keys().isdisjoint(host.Resctrl(round_.parts.root).groups())
        before, self._active = self._active, any(cache.get("enable") for cache in caches.values())
        if not (before or self._active):
            return
        if cache is None:
            round_.cannot(
                CLASS_NAME, "no class gets its own share of the cache", "the machine cannot partition its caches"
            )
            return
        for group, key in GROUPS.items():
            lines = class_schemata(caches[key], cache.mask, cache.vendor, cache.ids) if cache.mask else ()
            tasks = self._threads(round_, group) if caches[key].get("enable") else ()
            round_.groups.append(Resctrl(group, "".join(lines), tasks))

    def _threads(self, round_: Round[NodeSlo], group: str) -> tuple[int, ...]:
        threads: list[int] = []
        for pod in round_.pods:
            if group_of(pod_class.default_qos(pod.manifest)) == group and ANNOTATION_RESCTRL not in pod.annotations:
                for container in pod.containers:
                    threads += round_.parts.executor.threads(container.folder)
        return tuple(threads)


CACHES: Final[Part[Mapping[str, Mapping[str, Any]]]] = Part(_of_classes, {})
STRATEGY: Final = StrategyRow(
    CLASS_NAME,
    True,
    "cache and memory bandwidth of the QoS classes",
    "nri.agent.koordinator.resctrl:ClassResctrl",
    (OwnedKnob(Level.NODE, "resctrl"),),
    document_keys=((SLO, "resourceQOSStrategy.{}.resctrlQOS"),),
)
