"""Classes of CPUs, by which their frequencies and idle states are set, and interrupts that containers want or not.

One job: from which CPUs have which class, and who wants which interrupts, to the settings of every CPU and interrupt.
Pure. Rules: the keys are nri-plugins'; "turbo" is the highest frequency only for the class of the highest
`turboPriority` among those with CPUs in the same package (or machine), and the base frequency for others.
:meth:`CpuClass.without_effect` has the reason for each key of a configuration that is not carried out.
Next: `nri.placement.tuner`, which writes it.
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

__all__ = [
    "Control",
    "CpuClass",
    "IrqAffinity",
    "Settings",
    "Tuning",
    "affinities",
    "check_asked",
    "class_of",
    "described",
    "irq_affinity_of",
    "settings",
    "unmovable",
]  # fmt: skip

_UNITS: Final = {"ghz": 1_000_000, "mhz": 1000, "khz": 1, "": 1}
_FREQUENCY: Final = re.compile(r"(\d{1,10}(?:\.\d{1,9})?) ?(ghz|mhz|khz|)", re.IGNORECASE)
_SYMBOLS: Final = ("min", "base", "turbo")
_MOST_KHZ: Final = 100_000_000
#: Patterns of one annotation: each is compared with each interrupt.
_MAX_PATTERNS: Final = 100
_FREQUENCIES: Final = ("minFreq", "maxFreq", "uncoreMinFreq", "uncoreMaxFreq", "pctMinFreq", "pctMaxFreq")
_PCT: Final = ("pctPriority", "sstClosID", "pctMinFreq", "pctMaxFreq")


@dataclass(frozen=True)
class CpuClass:
    """One class; what is not given is left as it is.

    Attributes:
        name: what other keys and annotations call it.
        minFreq, maxFreq: a frequency of its CPUs: 3.2GHz, a number of kHz, min, base or turbo.
        uncoreMinFreq, uncoreMaxFreq: a frequency of what the dies of its CPUs share, such as caches.
        energyPerformancePreference: from 0, the fastest, to 255, which saves most.
        freqGovernor: the kernel's governor of frequencies, such as performance.
        disabledCstates: names of idle states that its CPUs do not use.
        turboPriority: of the classes in a package only the one with the highest has turbo.
        pctPriority, sstClosID, pctMinFreq, pctMaxFreq, publishExtendedResource: read, and without effect.
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
            raise WrongValue("name", "a CPU class has no name", "give it one")
        found = {}
        for key in _FREQUENCIES:
            try:
                found[key] = _khz(getattr(self, key), Limits(), turbo=True)
            except ValueError as error:
                reason, _, suggestion = str(error).partition("; ")
                raise WrongValue(key, reason, suggestion) from None
        for least, most in zip(_FREQUENCIES[::2], _FREQUENCIES[1::2], strict=True):
            if min(found[least], found[most]) > 0 and found[least] > found[most]:
                reason = f"{getattr(self, least)} is above {most} ({getattr(self, most)})"
                raise WrongValue(least, reason, "lower it")
        preference = self.energyPerformancePreference
        if preference is not None and not 0 <= preference <= 255:
            key = "energyPerformancePreference"
            raise WrongValue(key, f"{preference} is not from 0 to 255", "0 is the fastest, 255 saves most")
        if self.freqGovernor and not re.fullmatch(r"[a-z0-9_-]{1,64}", self.freqGovernor):
            reason = f"{self.freqGovernor!r} is no name of a governor"
            raise WrongValue("freqGovernor", reason, "such as performance")
        if self.pctPriority and self.sstClosID is not None:
            raise WrongValue("pctPriority", f"{self.pctPriority} and sstClosID exclude each other", "keep one")

    def without_effect(self) -> Iterator[tuple[str, str]]:
        """Keys that are given, and are not carried out, each with the reason."""
        for key in _PCT:
            if getattr(self, key) not in ("", None):
                yield key, "Intel's speed select is not driven"
        if self.publishExtendedResource:
            yield "publishExtendedResource", "no resource of the node is made of it"


@dataclass(frozen=True)
class _OlderCpuClass:
    """A class of `control.cpu.classes`, where releases of nri-plugins until 2026 have them; 0 is not set.

    Attributes:
        minFreq, maxFreq, uncoreMinFreq, uncoreMaxFreq: in kHz.
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
        """It as a class of `cpuClasses`. Raises WrongValue."""
        preference = {"energyPerformancePreference": self.energyPerformancePreference or None}
        return CpuClass(name, **{**vars(self), **preference})


@dataclass(frozen=True)
class _CpuControl:
    """Classes of CPUs in their older place.

    Attributes:
        classes: by name; balloons reads them, where cpuClasses has no class of that name.
    """

    classes: dict[str, _OlderCpuClass] = field(default_factory=dict)


@dataclass(frozen=True)
class Control:
    """Controllers of nri-plugins.

    Attributes:
        cpu: classes of CPUs in their older place.
        rdt, blockio: read, and without effect.
    """

    cpu: _CpuControl = field(default_factory=_CpuControl)
    rdt: dict[str, Any] = field(default_factory=dict)
    blockio: dict[str, Any] = field(default_factory=dict)

    def added_classes(self, classes: Sequence[CpuClass]) -> list[CpuClass]:
        """The classes of `cpu` whose names these do not have."""
        names = {each.name for each in classes}
        return [older.named(name) for name, older in sorted(self.cpu.classes.items()) if name not in names]

    def overridden_classes(self, classes: Sequence[CpuClass]) -> list[str]:
        """The names of those classes of `cpu` for which these have a different one."""
        by_name = {each.name: each for each in classes}
        return [name for name, older in sorted(self.cpu.classes.items()) if by_name.get(name) != older.named(name)]


class IrqAffinity(NamedTuple):
    """Interrupts that some CPUs want, or are to be kept from; patterns of descriptions, or numbers.

    `claim_first`: of those that are both, the mask wins. `sink`: those that nobody wants come here, too.
    """

    who: str
    cpus: int
    claim: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    claim_first: bool = False
    sink: bool = False


class Tuning(NamedTuple):
    """A policy's tuning: which CPUs have which class, and whose interrupts go where."""

    classes: Mapping[str, int] = MappingProxyType({})
    irq_affinities: Sequence[IrqAffinity] = ()


class Settings(NamedTuple):
    """Settings by CPU, and of each die, by package and die, the lowest and the highest frequency between its CPUs."""

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
            raise ValueError(f"{len(patterns)} patterns; at most {_MAX_PATTERNS} are read")
        for pattern in patterns:
            check_pattern(pattern)


def check_asked(
    container: Container,
    own: bool,
    classes: Sequence[CpuClass],
    unmovable: Callable[[Sequence[str]], str] = lambda _patterns: "",
) -> None:
    """Raise NoPlace for what a container asks of its own CPUs in vain.

    What is asked for a whole pod is in vain only if no container of it could have it.

    Args:
        own: whether it has some.
        unmovable: why some patterns of interrupts cannot be met, "" if they can: see the function of this name.
    """
    guaranteed, names = container.qos == "Guaranteed", [each.name for each in classes]
    if guaranteed and not any(container.requests):
        return  # it runs, and what it asked for is not to be had
    asked = container.asks("cpu-class")
    if asked is not None and not names:
        container.doubt("cpu-class", "it has no effect, for cpuClasses defines none")
    elif asked is not None:
        if guaranteed and asked[1] and asked[1] not in names:
            raise container.refusal("cpu-class", f"there is no CPU class {asked[1]!r}; {', '.join(names)}")
        _check_scope(container, "cpu-class", asked[0], own or (guaranteed and not asked[1]))
    asked = container.asks("irq-affinity")
    if asked is not None:
        interrupts = _interrupts(container)
        if complaint := unmovable([*interrupts.claim, *interrupts.mask]):
            raise container.refusal("irq-affinity", complaint)
        _check_scope(container, "irq-affinity", asked[0], own)


def _check_scope(container: Container, key: str, scope: int, own: bool) -> None:
    if scope == 0 and not own:
        raise container.refusal(key, "it has no CPUs of its own")


def _interrupts(container: Container) -> _IrqAnnotation:
    """The interrupts that a container asks for. NoPlace if that cannot be read."""
    try:
        table = container.table("irq-affinity", "claim", "mask", "mode")
        lists = {key: [str(each) if type(each) is int else each for each in value] if isinstance(value, list) else value
                 for key, value in table.items() if value is not None}  # fmt: skip
        return read(_IrqAnnotation, [Source("irq-affinity", json.dumps(lists), "json")])
    except (ConfigError, ValueError) as error:
        raise container.refusal("irq-affinity", error) from error


def class_of(container: Container, classes: Sequence[CpuClass], default: str) -> str:
    """The class of a container's own CPUs: that of its annotation, else this one."""
    found = container.asks("cpu-class")
    return found[1] if found is not None and found[1] in [each.name for each in classes] else default


def irq_affinity_of(container: Container, cpus: int) -> IrqAffinity | None:
    """The interrupts that a container wants on its own CPUs, or is to be spared; None if it does not say."""
    if not cpus or container.asks("irq-affinity") is None:
        return None
    try:
        asked = _interrupts(container)
    except NoPlace as error:  # it ran before it was read
        container.doubt("irq-affinity", error.reason)
        return None
    return IrqAffinity(str(container), cpus, tuple(asked.claim), tuple(asked.mask), asked.mode == "claim-first")


# -- settings ---------------------------------------------------------------------------------------------------------


def settings(
    classes: Iterable[CpuClass],
    members: Mapping[str, int],
    machine: Machine,
    limits: Callable[[int], Limits],
    one_turbo_domain: bool = False,
) -> Settings:
    """The settings of all CPUs that have a class."""
    found, by_name = Settings({}, {}), {each.name: each for each in classes}
    idle = any(each.disabledCstates for each in by_name.values())
    of_cpu = {cpu: by_name[name] for name, mask in members.items() if name in by_name for cpu in masks.members(mask)}
    best: dict[int, int] = {}
    for cpu, kind in of_cpu.items():
        domain = 0 if one_turbo_domain else machine.topology.cpus[cpu].package
        best[domain] = max(best.get(domain, 0), kind.turboPriority)
    for cpu, kind in of_cpu.items():
        place, can = machine.topology.cpus[cpu], limits(cpu)
        turbo = kind.turboPriority == best[0 if one_turbo_domain else place.package]
        preference = kind.energyPerformancePreference
        found.cpus[cpu] = Setting(
            _khz(kind.minFreq, can, turbo),
            _khz(kind.maxFreq, can, turbo),
            kind.freqGovernor,
            "" if preference is None else str(preference),
            frozenset(kind.disabledCstates) if idle else None,
        )
        between = _khz(kind.uncoreMinFreq, can, turbo), _khz(kind.uncoreMaxFreq, can, turbo)
        if any(between):
            die = place.package, place.die
            low, high = found.uncore.get(die, (0, 0))
            found.uncore[die] = max(low, between[0]), max(high, between[1])
    return found


def _khz(value: str | int, limits: Limits, turbo: bool) -> int:
    """A frequency in kHz, 0 for none, UNKNOWN for one that the machine does not say. ValueError for no frequency."""
    word = str(value).strip()
    if word in ("", "0"):
        return 0
    if word in _SYMBOLS:
        index = _SYMBOLS.index(word)
        return limits[1 if index == 2 and not turbo else index] or UNKNOWN
    found = _FREQUENCY.fullmatch(word)
    khz = round(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if not 0 < khz <= _MOST_KHZ:
        raise ValueError(f"{value!r} is no frequency; write 3.2GHz, 3200MHz, 3200000 (kHz), min, base or turbo")
    return khz


def affinities(
    interrupts: Mapping[int, tuple[str, int]],
    irq_affinities: Sequence[IrqAffinity],
    controllable: Sequence[str],
    online: int,
) -> dict[int, int]:
    """The CPUs of each interrupt that may be moved, by its description and the CPUs that it had at first.

    Where a mask leaves it none, those that it had stay: it has to come to some CPU.
    """
    found = {}
    for number, (words, first) in interrupts.items():
        if not _has(controllable, number, words):
            continue
        claimed, masked, sinks = 0, 0, 0
        for rule in irq_affinities:
            wants, shuns = _has(rule.claim, number, words), _has(rule.mask, number, words)
            if shuns and (rule.claim_first or not wants):
                masked |= rule.cpus
            elif wants:
                claimed |= rule.cpus
            sinks |= rule.cpus if rule.sink else 0
        found[number] = claimed or (sinks or first) & ~masked or online & ~masked or first
    return found


def unmovable(
    interrupts: Callable[[], Mapping[int, str]], controllable: Sequence[str], some_will_do: bool, asked: Sequence[str]
) -> str:
    """Why patterns cannot be met: one that names an interrupt which may not be moved, and none that may; "" if all can.

    Without `some_will_do` any such interrupt is a reason, if it is named by its description, as in the original.
    """
    known = {} if "*" in controllable else interrupts()
    for pattern in asked:
        named = [number for number, words in known.items() if _has((pattern,), number if some_will_do else -1, words)]
        fixed = [number for number in named if not _has(controllable, number, known[number])]
        if fixed and (len(fixed) == len(named) or not some_will_do):
            what = f"{pattern!r} is interrupt {fixed[0]} ({known[fixed[0]]}), which may not be moved here"
            return f"{what}; controllableInterrupts: {', '.join(controllable) or 'none'}"
    return ""


def _has(patterns: Sequence[str], number: int, words: str) -> bool:
    """Whether an interrupt is among these: by its number, or by its description, which may have a space behind it."""
    texts = words, f"{words} "
    return any(str(number) == pattern or any(fnmatchcase(text, pattern) for text in texts) for pattern in patterns)


def described(classes: Iterable[CpuClass], tuning: Tuning) -> dict[str, Any]:
    """Both as plain values, for a document: `cpu_classes` with their CPUs and settings, `interrupts` by who asks."""
    by_name = {each.name: each for each in classes}
    return {
        "cpu_classes": [
            {"class": name, "cpus": masks.text(mask), "settings": _words(by_name[name])}
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


def _words(kind: CpuClass) -> str:
    """The settings of a class, for people."""
    given = {key: value for key, value in vars(kind).items() if key != "name" and value not in ("", None, 0, [], False)}
    preference = kind.energyPerformancePreference
    if preference == 0:
        given["energyPerformancePreference"] = preference
    return ", ".join(f"{key} {' '.join(value) if isinstance(value, list) else value}" for key, value in given.items())
