"""Classes of CPUs with their frequencies and idle states, and interrupts that containers claim or avoid.

nri-plugins has the same keys. "turbo" is the highest frequency only for the class with the highest `turboPriority` in a
package (or machine), and the base frequency for other classes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from nri.api.selectors import check_pattern
from nri.config import Source, read
from nri.config.complaint import WrongValue
from nri.errors import ConfigError
from nri.host.cpu_tuning import UNKNOWN, Limits, Setting
from nri.placement import masks
from nri.placement.containers import Container, NoPlace
from nri.placement.machine import Machine

_UNITS: Final = {"ghz": 1_000_000, "mhz": 1000, "khz": 1, "": 1}
_FREQUENCY: Final = re.compile(r"(\d{1,10}(?:\.\d{1,9})?) ?(ghz|mhz|khz|)", re.IGNORECASE)
_SYMBOLS: Final = ("min", "base", "turbo")
_MAX_KHZ: Final = 100_000_000
#: Maximum number of patterns in an annotation. Each pattern is compared with each interrupt.
_MAX_PATTERNS: Final = 100
_FREQUENCIES: Final = ("minFreq", "maxFreq", "uncoreMinFreq", "uncoreMaxFreq", "pctMinFreq", "pctMaxFreq")
_PCT: Final = ("pctPriority", "sstClosID", "pctMinFreq", "pctMaxFreq")


@dataclass(frozen=True)
class CpuClass:
    """A class of CPUs. Values that are not set stay unchanged.

    Attributes:
        name: the name for other keys and annotations.
        minFreq, maxFreq: frequencies of its CPUs: 3.2GHz, a number of kHz, min, base or turbo.
        uncoreMinFreq, uncoreMaxFreq: frequencies of the units that the CPUs of a die share, for example caches.
        energyPerformancePreference: from 0, the fastest, to 255, which saves most energy.
        freqGovernor: the kernel's frequency governor, for example performance.
        disabledCstates: names of idle states that its CPUs do not use.
        turboPriority: of the classes in a package only the class with the highest priority has turbo.
        pctPriority, sstClosID, pctMinFreq, pctMaxFreq, publishExtendedResource: accepted, but without effect.
    """

    name: str
    minFreq: str | int = ""
    maxFreq: str | int = ""
    uncoreMinFreq: str | int = ""
    uncoreMaxFreq: str | int = ""
    energyPerformancePreference: int | None = None
    freqGovernor: str = ""
    disabledCstates: list[str] = field(default_factory=list)
    turboPriority: int = 0
    pctPriority: Literal["", "high", "low"] = ""
    sstClosID: int | None = None
    pctMinFreq: str | int = ""
    pctMaxFreq: str | int = ""
    publishExtendedResource: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise WrongValue("name", "a CPU class must have a name", "add name")
        khz = {}
        for key in _FREQUENCIES:
            try:
                khz[key] = _khz(getattr(self, key), Limits(), turbo=True)
            except ValueError as error:
                reason, _, suggestion = str(error).partition("; ")
                raise WrongValue(key, reason, suggestion) from None
        for low, high in zip(_FREQUENCIES[::2], _FREQUENCIES[1::2], strict=True):
            if min(khz[low], khz[high]) > 0 and khz[low] > khz[high]:
                reason = f"{getattr(self, low)} is above {high} ({getattr(self, high)})"
                raise WrongValue(low, reason, "lower it")
        preference = self.energyPerformancePreference
        if preference is not None and not 0 <= preference <= 255:
            key = "energyPerformancePreference"
            reason = f"{preference} is out of range"
            raise WrongValue(key, reason, "write a number from 0, the fastest, to 255, which saves most energy")
        if self.freqGovernor and not re.fullmatch(r"[a-z0-9_-]{1,64}", self.freqGovernor):
            reason = f"{self.freqGovernor!r} is not a valid name of a governor"
            raise WrongValue("freqGovernor", reason, "write the name of a governor, for example performance")
        if self.pctPriority and self.sstClosID is not None:
            raise WrongValue("pctPriority", f"{self.pctPriority} and sstClosID exclude each other", "remove one key")

    def ignored_keys(self) -> Iterator[tuple[str, str]]:
        """Keys that are set but have no effect, with the reason."""
        for key in _PCT:
            if getattr(self, key) not in ("", None):
                yield key, "Intel Speed Select is not supported"
        if self.publishExtendedResource:
            yield "publishExtendedResource", "it is for classes with Intel Speed Select, which is not supported"


@dataclass(frozen=True)
class _OlderCpuClass:
    """A class of `control.cpu.classes`, the key in releases of nri-plugins before 2026. 0 means not set.

    Attributes:
        minFreq, maxFreq, uncoreMinFreq, uncoreMaxFreq: frequencies in kHz.
        energyPerformancePreference, freqGovernor, disabledCstates: as in cpuClasses.
    """

    minFreq: int = 0
    maxFreq: int = 0
    energyPerformancePreference: int = 0
    uncoreMinFreq: int = 0
    uncoreMaxFreq: int = 0
    freqGovernor: str = ""
    disabledCstates: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.named("older")

    def named(self, name: str) -> CpuClass:
        """Convert to a class of `cpuClasses`. Raises WrongValue if a value is invalid."""
        preference = {"energyPerformancePreference": self.energyPerformancePreference or None}
        return CpuClass(name, **{**vars(self), **preference})


@dataclass(frozen=True)
class _CpuControl:
    """Classes of CPUs under their older key.

    Attributes:
        classes: classes by name; balloons reads the classes that are not in cpuClasses.
    """

    classes: dict[str, _OlderCpuClass] = field(default_factory=dict)


@dataclass(frozen=True)
class Control:
    """Controllers of nri-plugins.

    Attributes:
        cpu: classes of CPUs under their older key.
        rdt, blockio: accepted, but without effect.
    """

    cpu: _CpuControl = field(default_factory=_CpuControl)
    rdt: dict[str, Any] = field(default_factory=dict)
    blockio: dict[str, Any] = field(default_factory=dict)

    def added_classes(self, classes: Sequence[CpuClass]) -> list[CpuClass]:
        """The classes of `cpu` whose names are not among these classes."""
        names = {cpu_class.name for cpu_class in classes}
        return [older.named(name) for name, older in sorted(self.cpu.classes.items()) if name not in names]

    def overridden_classes(self, classes: Sequence[CpuClass]) -> list[str]:
        """The names of the classes of `cpu` that differ from the class with this name in `classes`."""
        by_name = {cpu_class.name: cpu_class for cpu_class in classes}
        return [name for name, older in sorted(self.cpu.classes.items()) if by_name.get(name) != older.named(name)]


class IrqAffinity(NamedTuple):
    """Interrupts that a balloon or container claims or masks, as patterns of descriptions or as numbers.

    Attributes:
        who: the balloon or container.
        cpus: the mask of its CPUs.
        claim_first: whether an interrupt that is claimed and masked is masked.
        sink: whether interrupts that nobody claims go to these CPUs.
    """

    who: str
    cpus: int
    claim: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    claim_first: bool = False
    sink: bool = False


class Tuning(NamedTuple):
    """A policy's tuning: the CPUs of each class, and the affinities of interrupts."""

    classes: Mapping[str, int] = MappingProxyType({})
    irq_affinities: Sequence[IrqAffinity] = ()


class Settings(NamedTuple):
    """Settings by CPU, and the lowest and highest uncore frequency by package and die."""

    cpus: dict[int, Setting]
    uncore: dict[tuple[int, int], tuple[int, int]]


# -- containers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _IrqAnnotation:
    claim: list[str] = field(default_factory=list)
    mask: list[str] = field(default_factory=list)
    mode: Literal["", "mask-first", "claim-first"] = ""

    def __post_init__(self) -> None:
        patterns = [*self.claim, *self.mask]
        if len(patterns) > _MAX_PATTERNS:
            raise ValueError(f"{len(patterns)} patterns; at most {_MAX_PATTERNS} are allowed")
        for pattern in patterns:
            check_pattern(pattern)


def check_annotations(
    container: Container,
    has_exclusive: bool,
    classes: Sequence[CpuClass],
    unmovable: Callable[[Sequence[str]], str] = lambda _patterns: "",
) -> None:
    """Raise NoPlace if annotations about a container's exclusive CPUs cannot be satisfied.

    An annotation for the entire pod is refused only if no container of the pod could satisfy it.

    Args:
        has_exclusive: whether the container has exclusive CPUs.
        unmovable: a function that returns why patterns of interrupts cannot be satisfied, as `unmovable` does.
    """
    guaranteed, names = container.qos == "Guaranteed", [cpu_class.name for cpu_class in classes]
    if guaranteed and not any(container.requests):
        return  # a running container that was placed without its requests
    annotation = container.scoped_annotation("cpu-class")
    if annotation is not None and not names:
        container.doubt("cpu-class", "it has no effect: cpuClasses is empty")
    elif annotation is not None:
        if guaranteed and annotation[1] and annotation[1] not in names:
            raise container.refusal("cpu-class", f"unknown CPU class {annotation[1]!r}; write {' or '.join(names)}")
        _check_scope(container, "cpu-class", annotation[0], has_exclusive or (guaranteed and not annotation[1]))
    annotation = container.scoped_annotation("irq-affinity")
    if annotation is not None:
        interrupts = _interrupts(container)
        if complaint := unmovable([*interrupts.claim, *interrupts.mask]):
            raise container.refusal("irq-affinity", complaint)
        _check_scope(container, "irq-affinity", annotation[0], has_exclusive)


def _check_scope(container: Container, key: str, scope: int, has_exclusive: bool) -> None:
    if scope == 0 and not has_exclusive:
        raise container.refusal(key, "the container has no exclusive CPUs")


def _interrupts(container: Container) -> _IrqAnnotation:
    """The interrupts in a container's annotation. Raises NoPlace if it is invalid."""
    try:
        table = container.table("irq-affinity", "claim", "mask", "mode")
        lists = {key: [str(item) if type(item) is int else item for item in value] if isinstance(value, list) else value
                 for key, value in table.items() if value is not None}  # fmt: skip
        return read(_IrqAnnotation, [Source("irq-affinity", json.dumps(lists), "json")])
    except (ConfigError, ValueError) as error:
        raise container.refusal("irq-affinity", error) from error


def class_of(container: Container, classes: Sequence[CpuClass], default: str) -> str:
    """The class of a container's exclusive CPUs: the class in its annotation, else `default`."""
    annotation = container.scoped_annotation("cpu-class")
    names = [cpu_class.name for cpu_class in classes]
    return annotation[1] if annotation is not None and annotation[1] in names else default


def irq_affinity_of(container: Container, cpus: int) -> IrqAffinity | None:
    """The interrupts that a container claims or masks for its exclusive CPUs. Returns None without an annotation."""
    if not cpus or container.scoped_annotation("irq-affinity") is None:
        return None
    try:
        annotation = _interrupts(container)
    except NoPlace as error:  # the container was running before the annotation was checked
        container.doubt("irq-affinity", error.reason)
        return None
    return IrqAffinity(
        str(container), cpus, tuple(annotation.claim), tuple(annotation.mask), annotation.mode == "claim-first"
    )


# -- settings ---------------------------------------------------------------------------------------------------------


def settings(
    classes: Iterable[CpuClass],
    members: Mapping[str, int],
    machine: Machine,
    limits: Callable[[int], Limits],
    one_turbo_domain: bool = False,
) -> Settings:
    """The settings of all CPUs that have a class."""
    result, by_name = Settings({}, {}), {cpu_class.name: cpu_class for cpu_class in classes}
    idle = any(cpu_class.disabledCstates for cpu_class in by_name.values())
    of_cpu = {cpu: by_name[name] for name, mask in members.items() if name in by_name for cpu in masks.members(mask)}
    best: dict[int, int] = {}
    for cpu, kind in of_cpu.items():
        domain = 0 if one_turbo_domain else machine.topology.cpus[cpu].package
        best[domain] = max(best.get(domain, 0), kind.turboPriority)
    for cpu, kind in of_cpu.items():
        place, can = machine.topology.cpus[cpu], limits(cpu)
        turbo = kind.turboPriority == best[0 if one_turbo_domain else place.package]
        preference = kind.energyPerformancePreference
        result.cpus[cpu] = Setting(
            _khz(kind.minFreq, can, turbo),
            _khz(kind.maxFreq, can, turbo),
            kind.freqGovernor,
            "" if preference is None else str(preference),
            frozenset(kind.disabledCstates) if idle else None,
        )
        between = _khz(kind.uncoreMinFreq, can, turbo), _khz(kind.uncoreMaxFreq, can, turbo)
        if any(between):
            die = place.package, place.die
            low, high = result.uncore.get(die, (0, 0))
            result.uncore[die] = max(low, between[0]), max(high, between[1])
    return result


def _khz(value: str | int, limits: Limits, turbo: bool) -> int:
    """A frequency in kHz. Returns 0 if it is not set, and UNKNOWN if the machine does not report it.

    Raises ValueError if the value is invalid.
    """
    text = str(value).strip()
    if text in ("", "0"):
        return 0
    if text in _SYMBOLS:
        index = _SYMBOLS.index(text)
        return limits[1 if index == 2 and not turbo else index] or UNKNOWN
    match = _FREQUENCY.fullmatch(text)
    khz = round(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if not 0 < khz <= _MAX_KHZ:
        raise ValueError(f"{value!r} is not a frequency; write 3.2GHz, 3200MHz, 3200000 (kHz), min, base or turbo")
    return khz


def affinities(
    interrupts: Mapping[int, tuple[str, int]],
    irq_affinities: Sequence[IrqAffinity],
    controllable: Sequence[str],
    online: int,
) -> dict[int, int]:
    """The new CPUs of each movable interrupt.

    An interrupt keeps its original CPUs if masks exclude all CPUs, because it must go to some CPU.

    Args:
        interrupts: the description and the original CPUs of each interrupt.
    """
    affinity = {}
    for number, (description, first) in interrupts.items():
        if not _has_pattern(controllable, number, description):
            continue
        claimed, masked, sinks = 0, 0, 0
        for rule in irq_affinities:
            claims, masks_it = (
                _has_pattern(rule.claim, number, description),
                _has_pattern(rule.mask, number, description),
            )
            if masks_it and (rule.claim_first or not claims):
                masked |= rule.cpus
            elif claims:
                claimed |= rule.cpus
            sinks |= rule.cpus if rule.sink else 0
        affinity[number] = claimed or (sinks or first) & ~masked or online & ~masked or first
    return affinity


def unmovable(
    interrupts: Callable[[], Mapping[int, str]],
    controllable: Sequence[str],
    some_will_do: bool,
    patterns: Sequence[str],
) -> str:
    """Why a pattern cannot be satisfied: it matches only interrupts that must not be moved. Returns "" if all can be.

    Args:
        some_will_do: whether one movable interrupt of a pattern is enough. Otherwise, as in nri-plugins, each
            interrupt with a matching description must be movable.
    """
    descriptions = {} if "*" in controllable else interrupts()
    for pattern in patterns:
        matching = [
            number
            for number, description in descriptions.items()
            if _has_pattern((pattern,), number if some_will_do else -1, description)
        ]
        fixed = [number for number in matching if not _has_pattern(controllable, number, descriptions[number])]
        if fixed and (len(fixed) == len(matching) or not some_will_do):
            problem = f"{pattern!r} is interrupt {fixed[0]} ({descriptions[fixed[0]]}), which must not be moved"
            return f"{problem}; controllableInterrupts: {', '.join(controllable) or 'none'}"
    return ""


def _has_pattern(patterns: Sequence[str], number: int, description: str) -> bool:
    """Whether patterns match an interrupt's number or description, which may end with a space."""
    texts = description, f"{description} "
    return any(str(number) == pattern or any(fnmatchcase(text, pattern) for text in texts) for pattern in patterns)


def tuning_document(classes: Iterable[CpuClass], tuning: Tuning) -> dict[str, Any]:
    """A tuning as plain JSON: `cpu_classes` with their CPUs and settings, and `interrupts` with their affinities."""
    by_name = {cpu_class.name: cpu_class for cpu_class in classes}
    return {
        "cpu_classes": [
            {"class": name, "cpus": masks.text(mask), "settings": _settings_text(by_name[name])}
            for name, mask in tuning.classes.items()
            if name in by_name
        ],
        "interrupts": [
            {
                "who": rule.who,
                "cpus": masks.text(rule.cpus),
                "claim": list(rule.claim),
                "mask": list(rule.mask),
                "sink": rule.sink,
            }
            for rule in tuning.irq_affinities
        ],
    }


def _settings_text(kind: CpuClass) -> str:
    values = {
        key: value for key, value in vars(kind).items() if key != "name" and value not in ("", None, 0, [], False)
    }
    preference = kind.energyPerformancePreference
    if preference == 0:
        values["energyPerformancePreference"] = preference
    return ", ".join(f"{key} {' '.join(value) if isinstance(value, list) else value}" for key, value in values.items())
