"""The samples of a recorded case, as queries of a window answer them. Next: `tests.strategy_cases.evict`."""

from __future__ import annotations

from typing import Any

__all__ = ["Metrics"]


class Metrics:
    """The samples of a case.

    Args:
        given: `metrics` of the case.
        interval_s: between two samples.
    """

    def __init__(self, given: dict[str, Any] | None, interval_s: int = 1) -> None:
        self._given, self.interval_s = given or {}, interval_s

    def window(self, seconds: float, *path: str) -> list[float]:
        """Return the values of a series that are not older."""
        return [value for age, value in sorted(self._samples(path)) if age <= seconds]

    def last(self, *path: str) -> float | None:
        """Return the youngest value of a series, if it is not older than two samples take."""
        found = self.window(2 * self.interval_s, *path)
        return found[0] if found else None

    def names(self, *path: str) -> list[str]:
        """Return the names of the series that there are below a place."""
        found: Any = self._given
        for each in path:
            found = (found or {}).get(each)
        return list(found or {})

    def _samples(self, path: tuple[str, ...]) -> list[tuple[float, float]]:
        found: Any = self._given
        for each in path:
            found = found.get(each) if isinstance(found, dict) else None
        if found is None:
            return []
        return [(0.5, found)] if isinstance(found, (int, float)) else [(age, value) for age, value in found]
