"""Cache and memory bandwidth by QoS class: one resctrl group for LSR, LS and BE, with the threads of their containers.

Percentages are NodeSLO's `resctrlQOS`. A part of the cache is a range of its ways, both ends rounded up. Bandwidth is
percent in tens on Intel (rounded up), and of 160 on AMD, where 2048 is all. Rules: pure; a group whose numbers make no
sense keeps what it has. Next: `nri.agent.koordinator.resctrl`, for single pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nri.agent.koordinator.names import BE, LS, LSE, LSR
from nri.agent.koordinator.schemata import cache_mask
from nri.policies.shapes import Record

__all__ = ["CACHE", "GROUPS", "bandwidth", "group_of", "mask", "schemata"]

#: The groups, and NodeSLO's key of the class that each is for.
GROUPS: Final = {"LSR": "lsrClass", "LS": "lsClass", "BE": "beClass"}
#: `resctrlQOS` of a class.
CACHE: Final = Record(
    {"enable": bool, **dict.fromkeys(("catRangeStartPercent", "catRangeEndPercent", "mbaPercent"), int)}
)
_OF_CLASS: Final = {LSE: "LSR", LSR: "LSR", LS: "LS", BE: "BE"}
_AMD: Final = "AuthenticAMD"
_AMD_SHARE, _AMD_ALL = 160, 2048


def group_of(qos: str) -> str:
    """Return the group of a QoS class; "" for none. Threads are put in only while the class is switched on."""
    return _OF_CLASS.get(qos, "")


def bandwidth(percent: int | None, vendor: str) -> str:
    """Return the share of memory bandwidth in the processor's words; "" leaves it as it is."""
    if percent is None or not 0 < percent <= 100:
        return ""
    if vendor == _AMD:
        return str(_AMD_ALL if percent == 100 else percent * _AMD_SHARE // 100)
    return str(-(-percent // 10) * 10)


def mask(ways: int, start: int, end: int) -> int:
    """Return the mask of the ways from `start` to `end` percent. Raises ValueError for what is no range."""
    return cache_mask(ways, start, end)


def schemata(config: Mapping[str, Any], ways: int | None, vendor: str, domains: Sequence[int]) -> tuple[str, ...]:
    """Return the lines of a class's group; a part that makes no sense, or that is not known, has none.

    Args:
        config: `resctrlQOS` of the class.
        ways: the mask of all ways of the cache; None is not known.
        vendor: of the processor.
        domains: the numbers of the caches.
    """
    lines = []
    start, end = config.get("catRangeStartPercent"), config.get("catRangeEndPercent")
    if ways is not None and start is not None and end is not None:
        try:
            lines.append(_line("L3", f"{mask(ways, start, end):x}", domains))
        except ValueError:
            pass  # the admission refuses it, and so would the kernel
    share = bandwidth(config.get("mbaPercent"), vendor)
    return tuple(filter(None, [*lines, _line("MB", share, domains) if share else ""]))


def _line(name: str, value: str, domains: Sequence[int]) -> str:
    return f"{name}:{''.join(f'{domain}={value};' for domain in domains)}\n" if domains else ""
