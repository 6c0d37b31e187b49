"""Sysctls of the machine's memory, as NodeSLO's `systemStrategy` asks for them: what is kept free, and reclaimed when.

`minFreeKbytesFactor` is in ten-thousandths of the node's memory. Names are those of `nri.host`'s switches. A key that
is absent sets nothing. Next: `nri.agent.koordinator.defaults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nri.policies.shapes import Record, fit

__all__ = ["SHAPE", "System", "parse", "wanted"]

_PART: Final = "systemStrategy"
#: The switch of each key that is its value, and the least and greatest.
_SWITCHES: Final[Mapping[str, tuple[str, int, int]]] = {
    "watermarkScaleFactor": ("vm.watermark_scale_factor", 10, 400),
    "memcgReapBackGround": ("mm.memcg_reaper", 0, 1),
    "pageCacheLimitEnabled": ("mm.pagecache_limit", 0, 1),
}
_FACTOR, _FREE = "minFreeKbytesFactor", "vm.min_free_kbytes"
_LEAST_FREE, _MOST_FREE = 10 << 10, 400 << 10
SHAPE: Final = Record({_FACTOR: int, **dict.fromkeys(_SWITCHES, int)})


class System(NamedTuple):
    """Values by switch, and of the node's memory the ten-thousandths that stay free; None is not asked for."""

    values: Mapping[str, int] = {}
    free: int | None = None


def parse(given: Any) -> System:
    """Read NodeSLO's `systemStrategy`. Raises ValueError for a number out of range."""
    found = fit({} if given is None else given, SHAPE, _PART)
    values = {}
    for key, (switch, least, most) in _SWITCHES.items():
        if key in found:
            if not least <= found[key] <= most:
                raise ValueError(f"{_PART}.{key}: {found[key]} is not from {least} to {most}")
            values[switch] = found[key]
    free = found.get(_FACTOR)
    if free is not None and free <= 0:
        raise ValueError(f"{_PART}.{_FACTOR}: {free} is not above 0")
    return System(values, free)


def wanted(system: System, memory: int) -> tuple[dict[str, int], str]:
    """Return the values by switch, and why one is left out, "" for nothing.

    Args:
        system: what is asked for.
        memory: of the node, in bytes.
    """
    if system.free is None:
        return dict(system.values), ""
    kilobytes = (memory >> 10) * system.free // 10_000
    if not _LEAST_FREE <= kilobytes <= _MOST_FREE:
        why = f"{_PART}.{_FACTOR} {system.free} makes {kilobytes} kB, which is not from {_LEAST_FREE} to {_MOST_FREE}"
        return dict(system.values), why
    return {**system.values, _FREE: kilobytes}, ""
