"""rubik's configuration file: the agent's own keys, and one block for each service that is switched on.

The file is JSON as Go reads it: a key in any case, of several the one as it is here, null as good as absent. A field is
a key of the file. Blocks of services that are off are not looked at. Next: `nri.agent.rubik.decisions.pods`.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from nri.config import Between, Source
from nri.config.complaint import Problem, WrongValue, suggest, together
from nri.config.layers import located
from nri.config.place import Path, show
from nri.config.typed import Partial, build, check, fields_of, is_plain
from nri.errors import ConfigError
from nri.policies.shapes import Unread, meant

__all__ = [
    "FEATURES",
    "Agent",
    "CpuEvict",
    "DynCache",
    "DynMemory",
    "File",
    "IoCostDevice",
    "IoCostNode",
    "IoCostParam",
    "MemoryEvict",
    "Net",
    "Percents",
    "Preemption",
    "Psi",
    "QuotaTurbo",
    "block_of",
    "read",
    "services",
]

_MOST_MB: Final = 9999 * 1024
_MilliS = Annotated[int, Between(10, 10_000)]
_Percent = Annotated[int, Between(10, 100)]
_Seconds = Annotated[int, Between(1, 3600)]
_Threshold = Annotated[int, Between(1, 99)]
_Cooldown = Annotated[int, Between(1, 2**63 - 2)]
_Word = Annotated[int, Between(-(2**63), 2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Agent:
    """The keys of the agent itself; what they may be is asked by `complain`, not while the file is read."""

    logDriver: str = "stdio"
    logDir: str = "/var/log/rubik"
    logSize: _Word = 1024
    logLevel: str = "info"
    cgroupRoot: str = "/sys/fs/cgroup"
    cgroupDriver: str = "cgroupfs"
    informerType: str = "apiserver"
    enabledFeatures: list[str] | None = None

    def complain(self) -> None:
        """Raise WrongValue for the first value that cannot be."""
        for key, known in _WORDS.items():
            if getattr(self, key) not in known:
                raise WrongValue(key, f'"{getattr(self, key)}" is none of {", ".join(filter(None, known))}', "say one")
        if not 10 <= self.logSize <= 1 << 20:
            raise WrongValue("logSize", f"{self.logSize} MB is not from 10 to {1 << 20}", "1024 is the default")
        if self.logDriver == "file" and not self.logDir.startswith("/"):
            raise WrongValue("logDir", f'"{self.logDir}" is no absolute path', "begin it with /")


_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "logDriver": ("", "stdio", "file"),
    "logLevel": ("", "debug", "info", "warn", "error", "stack"),
    "cgroupDriver": ("cgroupfs", "systemd"),
    "informerType": ("apiserver", "nri"),
}


@dataclass(frozen=True, slots=True)
class Net:
    """Bandwidth of offline pods' network in MB a second: between `bandwidthLow` and `bandwidthHigh`, by `waterline`."""

    waterline: _Word = 0
    bandwidthLow: _Word = 0
    bandwidthHigh: _Word = 0

    def wrong(self) -> str:
        """Return what is wrong with it, where the network is held back; "" if nothing is."""
        for key, least in (("waterline", 20), ("bandwidthLow", 1), ("bandwidthHigh", 1)):
            value = getattr(self, key)
            if not least <= value <= _MOST_MB:
                said = f"{key} {value} is not" if value else f"{key} is missing:"
                return f"{said} from {least} to {_MOST_MB}"
        low, high = self.bandwidthLow, self.bandwidthHigh
        return "" if low < high else f"bandwidthLow {low} is not less than bandwidthHigh {high}"


@dataclass(frozen=True, slots=True)
class Preemption:
    """Absolute priority of online pods: for which resources."""

    resource: list[Literal["cpu", "memory", "net"]]
    net: Net = field(default_factory=Net)

    def __post_init__(self) -> None:
        _some(self.resource, "cpu, memory, net")
        if "net" in self.resource and (wrong := self.net.wrong()):
            raise WrongValue("net", wrong, "the resource net needs all three")


@dataclass(frozen=True, slots=True)
class Percents:
    """Shares in percent of three groups."""

    low: _Percent = 20
    mid: _Percent = 30
    high: _Percent = 50

    def __post_init__(self) -> None:
        if not self.low <= self.mid <= self.high:
            raise WrongValue("low", f"{self.low}, mid {self.mid} and high {self.high} do not ascend", "sort them")


@dataclass(frozen=True, slots=True)
class _Bandwidths(Percents):
    low: _Percent = 10


@dataclass(frozen=True, slots=True)
class DynCache:
    """Last-level cache and memory bandwidth of offline pods; times in milliseconds."""

    defaultLimitMode: Literal["static", "dynamic"] = "static"
    adjustInterval: _MilliS = 1000
    perfDuration: _MilliS = 1000
    l3Percent: Percents = field(default_factory=Percents)
    memBandPercent: _Bandwidths = field(default_factory=_Bandwidths)


@dataclass(frozen=True, slots=True)
class IoCostParam:
    """The most that a disk does in a second: bytes, and operations in sequence and at random, read and written."""

    rbps: _Word = 0
    rseqiops: _Word = 0
    rrandiops: _Word = 0
    wbps: _Word = 0
    wseqiops: _Word = 0
    wrandiops: _Word = 0


@dataclass(frozen=True, slots=True)
class IoCostDevice:
    """The cost model of one disk."""

    dev: str = ""
    model: str = ""
    param: IoCostParam = field(default_factory=IoCostParam)


@dataclass(frozen=True, slots=True)
class IoCostNode:
    """The disks of a node by its name, or of every other one by `global`."""

    nodeName: str = ""
    config: list[IoCostDevice] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DynMemory:
    """Memory of offline pods by the node's free memory."""

    policy: Literal["fssr"]


@dataclass(frozen=True, slots=True)
class QuotaTurbo:
    """Quotas above the limit while the node is idle; marks in percent of the node, the interval in milliseconds."""

    highWaterMark: Annotated[int, Between(0, 99)] = 60
    alarmWaterMark: Annotated[int, Between(1, 100)] = 80
    syncInterval: Annotated[int, Between(100, 10_000)] = 100

    def __post_init__(self) -> None:
        if self.highWaterMark >= self.alarmWaterMark:
            reason = f"{self.highWaterMark} is not less than alarmWaterMark {self.alarmWaterMark}"
            raise WrongValue("highWaterMark", reason, "say a smaller one")


@dataclass(frozen=True, slots=True)
class Psi:
    """Eviction when online pods wait: for which resources, and from how many percent of the last 10 s on.

    `cooldown` is in seconds after an eviction, and no key of rubik's: there the next round may evict again.
    """

    resource: list[Literal["cpu", "memory", "io"]]
    interval: Annotated[int, Between(10, 30)] = 10
    avg10threshold: Annotated[float, Between(5.0, 100.0)] = 5.0
    cooldown: Annotated[int, Between(0, 3600)] | None = None

    def __post_init__(self) -> None:
        _some(self.resource, "cpu, memory, io")


@dataclass(frozen=True, slots=True)
class CpuEvict:
    """Eviction by the node's CPU, averaged over `windows` seconds: 0 is two intervals."""

    interval: _Seconds = 1
    windows: Annotated[int, Between(0, 3600)] = 0
    threshold: _Threshold = 60
    cooldown: _Cooldown = 20

    def __post_init__(self) -> None:
        windows = self.windows or 2 * self.interval
        if windows % self.interval or windows > 3600:
            reason = f"{windows} s is no multiple of interval {self.interval} s of at most 3600 s"
            raise WrongValue("windows", reason, f"such as {self.interval}")
        object.__setattr__(self, "windows", windows)


@dataclass(frozen=True, slots=True)
class MemoryEvict:
    """Eviction by the node's memory in use."""

    threshold: _Threshold
    interval: _Seconds = 1
    cooldown: _Cooldown = 4


class _Blocks:
    """The services with a block, which they need."""

    preemption: Preemption
    dynCache: DynCache
    ioCost: list[IoCostNode]
    dynMemory: DynMemory
    quotaTurbo: QuotaTurbo
    psi: Psi
    cpuevict: CpuEvict
    memoryevict: MemoryEvict


#: The services, and whether each needs a block.
FEATURES: Final = {**dict.fromkeys(fields_of(_Blocks), True), **dict.fromkeys(("quotaBurst", "ioLimit", "cpi"), False)}
_KEYS: Final = ("agent", *FEATURES)


class File(typing.NamedTuple):
    """A file that was read: the agent's keys, the blocks as they are, and keys that nothing reads."""

    source: Source
    agent: Agent
    blocks: Mapping[str, Any]
    unread: list[Unread]


class _Top:
    agent: Agent


def read(tree: Any, source: Source) -> File:
    """Take the tree of a file as one; errors name the source. Raises ConfigError naming file, line and key."""
    if not isinstance(tree, dict):
        raise ConfigError(source.name, "", "is no JSON object", 'write {"agent": {...}}')
    unread = [Unread.of(key, meant(key, _KEYS)) for key in tree if key not in _KEYS]
    agent = _built(_Top, {} if tree.get("agent") is None else tree["agent"], "agent", source, unread)
    return File(source, agent, {key: value for key, value in tree.items() if key != "agent"}, unread)


def block_of(feature: str, value: object, source: Source, unread: list[Unread] | None = None) -> Any:
    """Read one block. Raises ConfigError."""
    if value is None:
        raise ConfigError(source.name, feature, "is switched on and has no block", f'add "{feature}": {{...}}')
    return _built(_Blocks, value, feature, source, [] if unread is None else unread)


def services(file: File) -> dict[str, Any]:
    """Read the blocks of the services that are switched on, by name; None for one without a block.

    Raises ConfigError for the first problem, with all others in `others`.
    """
    found: dict[str, Any] = {}
    errors: list[ConfigError] = []
    problems: list[Problem] = []
    for place, name in enumerate(file.agent.enabledFeatures or ()):
        path: Path = ("agent", "enabledFeatures", place)
        if name not in FEATURES:
            problems.append(Problem(path, f'"{name}" is no service', suggest(name, FEATURES)))
        elif name in found:
            problems.append(Problem(path, f'"{name}" is there twice', "say it once"))
        else:
            found[name] = None
            try:
                if FEATURES[name]:
                    found[name] = block_of(name, file.blocks.get(name), file.source, file.unread)
            except ConfigError as error:
                errors.append(error)
    if errors or problems:
        raise together([*located(file.source, problems), *errors])
    return found


def _built(cls: type, value: Any, key: str, source: Source, unread: list[Unread]) -> Any:
    problems: list[Problem] = []
    made = check(cls, _folded(cls, {key: value}, (), unread), (), problems).values[key]
    if isinstance(made, Partial):
        made = build(made, (key,), problems)
    if problems:
        raise together(located(source, problems))
    return made


def _folded(cls: type, tree: Any, path: Path, unread: list[Unread]) -> Any:
    """The tree with the keys of a class as they are written there, without nulls and unknown keys."""
    if not isinstance(tree, dict):
        return tree
    known = fields_of(cls)
    folded = {name.casefold(): name for name in known}
    found = {}
    for key, value in sorted(tree.items()):  # one with small letters comes last
        name = key if key in known else folded.get(key.casefold())
        if name is None:
            unread.append(Unread.of(show((*path, key)), meant(key, known)))
        elif value is not None:
            found[name] = _inside(known[name], value, (*path, key), unread)
    return found


def _inside(annotation: Any, value: Any, path: Path, unread: list[Unread]) -> Any:
    """The value of a field, folded where it holds classes."""
    if is_plain(annotation):
        return _folded(annotation, value, path, unread)
    items = typing.get_args(annotation)
    if typing.get_origin(annotation) is list and is_plain(items[0]) and isinstance(value, list):
        each = (item if item is not None else {} for item in value)
        return [_folded(items[0], item, (*path, place), unread) for place, item in enumerate(each)]
    return value


def _some(resource: list[Any], known: str) -> None:
    if not resource:
        raise WrongValue("resource", "is empty", f"name some of {known}")
