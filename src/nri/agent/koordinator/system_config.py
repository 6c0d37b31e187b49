"""The strategy SystemConfig: sysctls of the machine's memory, from NodeSLO's `systemStrategy`.

`minFreeKbytesFactor` is in ten-thousandths of the node's memory. An absent key changes nothing. When a sysctl is no
longer requested, the running agent restores its earlier value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from nri.agent.koordinator.documents import SLO, NodeSlo, Part
from nri.agent.loops.round import Round
from nri.agent.loops.strategy import Strategy
from nri.agent.ownership import Level, OwnedKnob
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.host import read_switch
from nri.kube.quantity import capped, ceil
from nri.kube.shapes import Record, fit

_PART: Final = "systemStrategy"
#: The sysctl of each key, with the minimum and maximum.
_SWITCHES: Final[Mapping[str, tuple[str, int, int]]] = {
    "watermarkScaleFactor": ("vm.watermark_scale_factor", 10, 400),
    "memcgReapBackGround": ("mm.memcg_reaper", 0, 1),
    "pageCacheLimitEnabled": ("mm.pagecache_limit", 0, 1),
}
_FACTOR, _FREE = "minFreeKbytesFactor", "vm.min_free_kbytes"
_MIN_FREE, _MAX_FREE = 10 << 10, 400 << 10
SHAPE: Final = Record({_FACTOR: int, **dict.fromkeys(_SWITCHES, int)})
NAME: Final = "SystemConfig"


class System(NamedTuple):
    """Values by sysctl, and the ten-thousandths of the node's memory to keep free (None if not requested)."""

    values: Mapping[str, int] = {}
    free: int | None = None


def parse(document: Any) -> System:
    """Read NodeSLO's `systemStrategy`. Raises ValueError if a number is out of range."""
    section = fit({} if document is None else document, SHAPE, _PART)
    values = {}
    for key, (switch, minimum, maximum) in _SWITCHES.items():
        if key in section:
            if not minimum <= section[key] <= maximum:
                raise ValueError(f"{_PART}.{key}: {section[key]} is not between {minimum} and {maximum}")
            values[switch] = section[key]
    free = section.get(_FACTOR)
    if free is not None and free <= 0:
        raise ValueError(f"{_PART}.{_FACTOR}: {free} is not above 0")
    return System(values, free)


def switch_values(system: System, memory: int) -> tuple[dict[str, int], str]:
    """Return the values by sysctl, and the reason if a value is left out.

    Args:
        system: the requested values.
        memory: the memory of the node in bytes.
    """
    if system.free is None:
        return dict(system.values), ""
    kilobytes = (memory >> 10) * system.free // 10_000
    if not _MIN_FREE <= kilobytes <= _MAX_FREE:
        why = f"{_PART}.{_FACTOR} {system.free} means {kilobytes} kB, which is not between {_MIN_FREE} and {_MAX_FREE}"
        return dict(system.values), why
    return {**system.values, _FREE: kilobytes}, ""


class SystemConfig(Strategy):
    """The strategy that sets the machine's sysctls of memory."""

    name = NAME

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        #: The values of sysctls before the agent set them.
        self._original_values: dict[str, int] = {}

    def is_needed(self, rules: NodeSlo) -> bool:
        """Return whether a sysctl is requested or was set."""
        return bool(rules[SYSTEM_CONFIG].values or rules[SYSTEM_CONFIG].free is not None or self._original_values)

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide for the machine."""
        values, why = switch_values(round_.rules[SYSTEM_CONFIG], _memory(round_))
        if why:
            round_.errors.append(f"{NAME}: {why}")
        for name, value in values.items():
            present = read_switch(round_.parts.root, name)
            if isinstance(present, int):
                self._original_values.setdefault(name, present)
                round_.switches.append((NAME, name, value))
            else:
                round_.cannot(NAME, f"{name} stays unchanged", present.reason)
        for name in self._original_values.keys() - values.keys():
            round_.switches.append((NAME, name, self._original_values.pop(name)))


def _memory(round_: Round[NodeSlo]) -> int:
    """Return the memory of the node in bytes, from its status, or else of the machine, or 0 if unknown."""
    status = (round_.parts.store.document("Node") or {}).get("status") or {}
    try:
        return ceil(capped((status.get("capacity") or {})["memory"]))
    except (KeyError, TypeError, ValueError):
        return round_.sample.memory_total or 0


SYSTEM_CONFIG: Final = Part(lambda spec: parse(spec.get("systemStrategy")), System())
STRATEGY: Final = StrategyRow(
    NAME,
    False,
    "the machine's sysctls of memory: free memory, and when the kernel begins to reclaim",
    "nri.agent.koordinator.system_config:SystemConfig",
    (OwnedKnob(Level.NODE, "sysctl"),),
    document_keys=((SLO, "systemStrategy"),),
)
