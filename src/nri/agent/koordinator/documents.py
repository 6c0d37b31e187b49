"""NodeSLO: keys, defaults, the numbers that Koordinator's admission refuses, and sections for strategies.

The spec is JSON of the API. Sections of a class (CPU, memory, cache) that are switched off have the values of `OFF`, so
that earlier settings are reset; `systemClass` stays as written. An unreadable section is reported, and its last valid
version stays in force.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from nri.agent.koordinator import pod_class
from nri.agent.koordinator.quirks import Quirks
from nri.agent.last_good import LastGood
from nri.agent.loops.round import Round
from nri.agent.model import Pod
from nri.config.syntax import parse_json
from nri.kube.shapes import INT_OR_TEXT, QUANTITY, Record, Word, fit

SLO: Final = "NodeSLO"
TOPOLOGY: Final = "NodeResourceTopology"
NODE: Final = "Node"
NETWORK = Record(
    {
        "enable": bool,
        "ingressRequest": INT_OR_TEXT,
        "ingressLimit": INT_OR_TEXT,
        "egressRequest": INT_OR_TEXT,
        "egressLimit": INT_OR_TEXT,
    }
)
_CPU = Record({"enable": bool, "groupIdentity": int, "schedIdle": int, "coreExpeller": bool})
#: The keys of a class that hooks read.
CLASS: Final = Record({"cpuQOS": _CPU, "networkQOS": NETWORK})
POLICIES: Final = Record(
    {"cpuPolicy": Word(("groupIdentity", "coreSched")), "netQOSPolicy": Word(("tc", "terway-qos"))}
)
_STRATEGY = Record(
    {
        "policies": POLICIES,
        **dict.fromkeys(("lsrClass", "lsClass", "beClass", "systemClass"), CLASS),
    }
)
#: The keys of NodeSLO's spec that rules read.
SPEC = Record(
    {
        "resourceQOSStrategy": _STRATEGY,
        "resourceUsedThresholdWithBE": Record({"enable": bool, "cpuSuppressPolicy": str}),
        "systemStrategy": Record({"totalNetworkBandwidth": QUANTITY}),
    }
)
#: The values of each section of a class that is switched off.
OFF: Final[Mapping[str, Mapping[str, Any]]] = {
    "cpuQOS": {"enable": False, "groupIdentity": 0, "schedIdle": 0, "coreExpeller": False},
    "memoryQOS": {
        "enable": False, "minLimitPercent": 0, "lowLimitPercent": 0, "throttlingPercent": 0, "wmarkRatio": 0,
        "wmarkScalePermill": 50, "wmarkMinAdj": 0, "priorityEnable": 0, "priority": 0, "oomKillGroup": 0,
    },
    "blkioQOS": {"enable": False},
    "resctrlQOS": {"enable": False, "catRangeStartPercent": 0, "catRangeEndPercent": 100, "mbaPercent": 100},
    "networkQOS": {
        "enable": False, "ingressRequest": 0, "ingressLimit": 0, "egressRequest": 0, "egressLimit": 0,
    },
}  # fmt: skip


def read_spec(spec: Any) -> dict[str, Any]:
    """Read NodeSLO's spec. Raises ValueError, which names the key, if a value is malformed."""
    fields: dict[str, Any] = fit({} if spec is None else spec, SPEC, "spec")
    return fields


def cpu_of(strategy: Mapping[str, Any], name: str, quirks: Quirks) -> dict[str, Any]:
    """Return `cpuQOS` of a class, empty if it is absent. Raises ValueError if Koordinator would panic."""
    cpu: dict[str, Any] | None = strategy.get(name, {}).get("cpuQOS")
    if cpu is None and not quirks.absent_classes_are_off:
        raise ValueError(f"spec.resourceQOSStrategy.{name}.cpuQOS is absent")
    return cpu or {}


def _class(identity: int, expeller: bool, watermark_adj: int, cache_end: int) -> dict[str, dict[str, Any]]:
    watermarks = {"wmarkRatio": 95, "wmarkScalePermill": 20, "wmarkMinAdj": watermark_adj}
    return {
        "cpuQOS": {**OFF["cpuQOS"], "groupIdentity": identity, "coreExpeller": expeller},
        "memoryQOS": {**OFF["memoryQOS"], **watermarks},
        "blkioQOS": dict(OFF["blkioQOS"]),
        "resctrlQOS": {**OFF["resctrlQOS"], "catRangeEndPercent": cache_end},
        "networkQOS": dict(OFF["networkQOS"]),
    }


_CLASSES: Final = {
    "lsrClass": _class(2, True, -25, 100),
    "lsClass": _class(2, True, -25, 100),
    "beClass": _class(-1, False, 50, 30),
    "systemClass": {name: dict(part) for name, part in OFF.items()},
}
#: Memory QoS of pods with the annotated policy `auto`, by the key of their class.
AUTO: Final[Mapping[str, Mapping[str, Any]]] = {name: parts["memoryQOS"] for name, parts in _CLASSES.items()}
#: The spec of a NodeSLO without any configured value.
DEFAULTS: Final[Mapping[str, Any]] = {
    "resourceUsedThresholdWithBE": {
        "enable": False, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset",
        "memoryEvictThresholdPercent": 70, "cpuEvictPolicy": "evictByRealLimit",
    },
    "resourceQOSStrategy": {
        "policies": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "tc"},
        **_CLASSES,
        "cgroupRoot": {"blkioQOS": dict(OFF["blkioQOS"])},
    },
    "cpuBurstStrategy": {
        "policy": "none", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300, "cfsQuotaBurstPeriodSeconds": -1,
        "sharePoolThresholdPercent": 50,
    },
    "systemStrategy": {"totalNetworkBandwidth": "0"},
    "extensions": {"Object": None},
}  # fmt: skip
_SWITCHED: Final = ("lsrClass", "lsClass", "beClass")
_GIVEN_BACK: Final = ("cpuQOS", "memoryQOS", "resctrlQOS")


#: Keys whose empty string replaces another value: Koordinator has pointers to their values.
_MAY_BE_EMPTY: Final = {*POLICIES.keys, *NETWORK.keys}


def merged(spec: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a spec with defaults filled in. Empty strings count as absent; malformed sections stay unchanged."""
    merged_spec = over(DEFAULTS, {key: part for key, part in (spec or {}).items() if key != "extensions"})
    strategy = merged_spec["resourceQOSStrategy"]
    for name in _SWITCHED if isinstance(strategy, dict) else ():
        parts = strategy[name]
        for part in _GIVEN_BACK if isinstance(parts, dict) else ():
            if isinstance(parts[part], dict) and parts[part].get("enable") in (None, False):
                parts[part] = dict(OFF[part])
    return merged_spec


def over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge JSON objects key by key. Lists are replaced.

    Null and empty values of `changes` are ignored, but empty strings of policies and of network bandwidths are used.
    """
    result = copy.deepcopy(dict(base))
    for key, value in changes.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            result[key] = over(below, value)
        elif value is not None and (value not in ("", []) or key in _MAY_BE_EMPTY):
            result[key] = copy.deepcopy(value)
    return result


class Violation(NamedTuple):
    """A number that the admission refuses: its key path, and the broken rule (min, max, gt, ltfield or gtfield)."""

    field: str
    rule: str


_PERCENT: Final = (0, 100)
_MEMORY: Final = {
    **dict.fromkeys(
        ("minLimitPercent", "lowLimitPercent", "throttlingPercent", "wmarkRatio", "pageCacheLimitPercent"), _PERCENT
    ),
    "wmarkScalePermill": (1, 1000),
    "wmarkMinAdj": (-25, 50),
    "priorityEnable": (0, 1),
    "priority": (0, 12),
    "oomKillGroup": (0, 1),
}
_RANGES: Final[Mapping[str, Mapping[str, tuple[int | None, int | None]]]] = {
    "cpuQOS": {"groupIdentity": (-1, 2), "schedIdle": (0, 1)},
    "memoryQOS": _MEMORY,
    "resctrlQOS": dict.fromkeys(("catRangeStartPercent", "catRangeEndPercent", "mbaPercent"), _PERCENT),
    "resourceUsedThresholdWithBE": {
        **dict.fromkeys(
            (
                "cpuSuppressThresholdPercent", "cpuSuppressMinPercent", "memoryEvictThresholdPercent",
                "memoryEvictLowerPercent", "cpuEvictBEUsageThresholdPercent", "cpuEvictBESatisfactionUpperPercent",
                "cpuEvictBESatisfactionLowerPercent", "cpuEvictThresholdPercent", "cpuEvictLowerPercent",
            ),
            _PERCENT,
        ),
        **dict.fromkeys(
            (
                "cpuAllocatableEvictThresholdPercent", "cpuAllocatableEvictLowerPercent",
                "memoryAllocatableEvictThresholdPercent", "memoryAllocatableEvictLowerPercent",
            ),
            (0, None),
        ),
        "allocatableEvictPriorityThreshold": (0, 7999),
    },
    "cpuBurstStrategy": {
        "cpuBurstPercent": (1, 10_000), "cfsQuotaBurstPercent": (100, None), "cfsQuotaBurstPeriodSeconds": (-1, None),
        "sharePoolThresholdPercent": _PERCENT,
    },
    "systemStrategy": {
        "watermarkScaleFactor": (None, 400), "memcgReapBackGround": (0, 1), "pageCacheLimitEnabled": (0, 1),
    },
}  # fmt: skip
#: Numbers that must be above 0.
_POSITIVE: Final = frozenset({"cpuEvictTimeWindowSeconds", "watermarkScaleFactor", "minFreeKbytesFactor"})
#: Pairs of keys: the number of the first key must be below the number of the second key.
_PAIRS: Final = {
    "memoryEvictLowerPercent": "memoryEvictThresholdPercent",
    "cpuEvictBESatisfactionLowerPercent": "cpuEvictBESatisfactionUpperPercent",
    "cpuEvictLowerPercent": "cpuEvictThresholdPercent",
    "cpuAllocatableEvictLowerPercent": "cpuAllocatableEvictThresholdPercent",
    "memoryAllocatableEvictLowerPercent": "memoryAllocatableEvictThresholdPercent",
    "catRangeStartPercent": "catRangeEndPercent",
}
#: The sections of a spec that are checked.
PARTS: Final = ("resourceUsedThresholdWithBE", "resourceQOSStrategy", "cpuBurstStrategy", "systemStrategy")


def violations(part: str, document: Mapping[str, Any] | None) -> list[Violation]:
    """Return the numbers of a section that the admission refuses. Strings and disks are not checked."""
    written = document or {}
    if part != "resourceQOSStrategy":
        return sorted(_section_violations(part, written, ""))
    problems: list[Violation] = []
    for name, parts in written.items():
        if isinstance(parts, Mapping):
            for key, values in parts.items():
                if isinstance(values, Mapping):
                    problems += _section_violations(key, values, f"{name}.{key}.")
    return sorted(problems)


def refused(part: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key of a section with a number that the admission refuses, and the reason with the valid range."""
    for key, rule in violations(part, values):
        minimum, maximum = _RANGES.get(part, {}).get(key, (None, None))
        if rule in ("min", "max"):
            yield key, f"{values[key]} is not between {minimum} and {maximum}"
        elif rule == "ltfield" and (partner := values.get(_PAIRS[key])) is not None:
            yield key, f"{values[key]} is not below {_PAIRS[key]} {partner}"


def _section_violations(part: str, values: Mapping[str, Any], place: str) -> Iterator[Violation]:
    ranges, bigger = _RANGES.get(part, {}), {great: small for small, great in _PAIRS.items()}
    for key, number in values.items():
        if not isinstance(number, int) or isinstance(number, bool):
            continue
        minimum, maximum = ranges.get(key, (None, None))
        partner = values.get(_PAIRS.get(key, "")), values.get(bigger.get(key, ""))
        if key in _POSITIVE and number <= 0:
            yield Violation(place + key, "gt")
        elif minimum is not None and number < minimum:
            yield Violation(place + key, "min")
        elif maximum is not None and number > maximum:
            yield Violation(place + key, "max")
        elif key in _PAIRS and (partner[0] is None or number >= partner[0]):
            yield Violation(place + key, "ltfield")
        elif key in bigger and (partner[1] is None or number <= partner[1]):
            yield Violation(place + key, "gtfield")


_Value_co = TypeVar("_Value_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Part(Generic[_Value_co]):
    """A section of NodeSLO's spec that a strategy reads.

    Attributes:
        parse: reads the section from the spec with defaults, or raises ValueError.
        default: the value before a NodeSLO was read.
    """

    parse: Callable[[Mapping[str, Any]], _Value_co]
    default: _Value_co


class NodeSlo:
    """The sections of NodeSLO that strategies read, each in its last valid version.

    Args:
        parts: the sections to read.

    Attributes:
        kind: the kind of the document.
        has_document: whether a document was ever read.
    """

    kind = SLO

    def __init__(self, parts: Iterable[Part[Any]]) -> None:
        self._parts: dict[Part[Any], LastGood[Any]] = {part: LastGood(part.default) for part in parts}
        self.has_document = False

    def __getitem__(self, part: Part[_Value_co]) -> _Value_co:
        """Return the value in force of a section."""
        value: _Value_co = self._parts[part].rule
        return value

    @property
    def errors(self) -> list[str]:
        """The errors of unreadable sections."""
        return [part.error for part in self._parts.values() if part.error]

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read a NodeSLO. None switches all sections off."""
        spec = (document or {}).get("spec")
        self.has_document = self.has_document or document is not None
        self.read(merged(spec if isinstance(spec, dict) else {}))

    def read(self, spec: Mapping[str, Any]) -> None:
        """Read the spec of a NodeSLO with defaults. An absent section is off."""
        for part, value in self._parts.items():
            value.take(partial(part.parse, spec))


def class_part(spec: Mapping[str, Any], name: str, part: str) -> tuple[Any, str]:
    """Return a section of a class, or None if it is absent, and the path of its key for errors."""
    strategy = spec.get("resourceQOSStrategy")
    values = strategy.get(name) if isinstance(strategy, dict) else None
    return values.get(part) if isinstance(values, dict) else None, f"resourceQOSStrategy.{name}.{part}"


@dataclass(frozen=True, slots=True, eq=False)
class PodAnnotation(Generic[_Value_co]):
    """An annotation with a value for one pod that replaces the value of NodeSLO.

    Attributes:
        strategy: the name of the strategy that reads the annotation.
        key: the key of the annotation.
        parse: reads the annotation for a pod of a QoS class, or raises ValueError.
        node_value: the value of pods of a QoS class without the annotation.
    """

    strategy: str
    key: str
    parse: Callable[[str, NodeSlo, str], _Value_co]
    node_value: Callable[[NodeSlo, str], _Value_co]

    def value(self, rules: NodeSlo, qos: str, annotations: Mapping[str, str]) -> _Value_co:
        """Return the value of a pod. Raises ValueError, which names the annotation, if the annotation is malformed.

        Args:
            rules: the sections of NodeSLO.
            qos: the QoS class of the pod, or the default of its Kubernetes class.
            annotations: the pod's annotations.
        """
        text = annotations.get(self.key)
        if not text:
            return self.node_value(rules, qos)
        try:
            return self.parse(text, rules, qos)
        except ValueError as error:
            raise ValueError(f"annotation {self.key}: {error}") from None

    def in_round(self, round_: Round[NodeSlo], pod: Pod) -> _Value_co:
        """Return the value of a pod in a round.

        An unreadable annotation is an error of the round. Its last valid version stays in force, or else NodeSLO's
        value.
        """
        qos = pod_class.default_qos(pod.manifest)
        try:
            value = self.value(round_.rules, qos, pod.annotations)
        except ValueError as error:
            round_.unreadable[pod.subject(), self.strategy] = str(error)
            round_.errors.append(f"{pod.key}: {error}")
        else:
            round_.unreadable[pod.subject(), self.strategy] = ""
            round_.good.keep(pod.uid, self.key, pod.annotations)
            return value
        with suppress(ValueError):
            return self.value(round_.rules, qos, round_.good.instead(pod.uid, self.key, pod.annotations) or {})
        return self.node_value(round_.rules, qos)


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError if the text is not a JSON object."""
    document = parse_json(text)
    if not isinstance(document, dict):
        raise ValueError("not an object")  # noqa: TRY004  a mistake of the annotation, not of the caller
    return document
