"""The schemata of a resctrl group: masks of cache ways and shares of memory bandwidth, by cache domain.

Next: `nri.agent.koordinator.resctrl`, which computes them.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Schemata", "cache_mask"]


class Schemata:
    """Masks and shares by domain; 0 is not set. A line is written only if every domain of it is set.

    Attributes:
        l3: masks of the cache's ways.
        mb: shares of the memory bandwidth, in the CPU's own words.
        domains: how many domains the machine has.
    """

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self.l3 = dict.fromkeys(ids, 0)
        self.mb = dict(self.l3)
        self.domains = len(self.l3)

    def l3_valid(self) -> bool:
        """Whether every domain has a mask, and there are no others."""
        return 0 < self.domains == len(self.l3) and all(mask > 0 for mask in self.l3.values())

    def mb_valid(self) -> bool:
        """Whether every domain that is named has a share."""
        return self.domains > 0 and bool(self.mb) and all(share > 0 for share in self.mb.values())

    def l3_line(self) -> str:
        """The line for the cache; the kernel passes over the last semicolon."""
        return self._line("L3", {domain: f"{mask:x}" for domain, mask in self.l3.items()})

    def mb_line(self) -> str:
        """The line for the memory bandwidth, of the domains that the cache has."""
        return self._line("MB", {domain: str(self.mb.get(domain, 0)) for domain in (self.l3 if self.mb else ())})

    @staticmethod
    def _line(name: str, values: dict[int, str]) -> str:
        return f"{name}:{''.join(f'{domain}={values[domain]};' for domain in sorted(values))}\n" if values else ""


def cache_mask(ways: int, start: int, end: int) -> int:
    """Return the mask of the ways from `start` to `end` percent, both rounded up.

    Raises:
        ValueError: the percentages are no range, or the machine's own mask has a hole.
    """
    if ways < 0 or (ways + 1).bit_count() != 1:
        raise ValueError(f"the cache's mask {ways:x} has a hole")
    if start < 0 or end > 100 or end <= start:
        raise ValueError(f"{start} to {end} percent is no range")
    count = ways.bit_length()
    return (1 << -(-count * end // 100)) - (1 << -(-count * start // 100))
