"""The samples of a recorded case: a number is one sample of age 0.5 s, a list has pairs of age and value."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["Metrics"]

_AGE_S: Final = 0.5


class Metrics:
    """The samples of a case.

    Args:
        given: `metrics` of the case.
        interval_s: the seconds between two samples.
    """

    def __init__(self, case: dict[str, Any] | None, interval_s: float = 1) -> None:
        self._given, self.interval_s = case or {}, interval_s

    def at(self, age_s: float, *path: str) -> float | None:
        """Return the value of a series at an age; at age 0 the youngest, unless it is too old to be the last one."""
        samples = self._samples(path)
        if age_s:
            return next((value for age, value in samples if age == age_s), None)
        age, value = min(samples, default=(0.0, None))
        return value if age <= 2 * self.interval_s else None

    def names(self, *path: str) -> list[str]:
        """Return the names of the series below a place."""
        level: Any = self._given
        for name in path:
            level = (level or {}).get(name)
        return list(level or {})

    def earlier_ages(self) -> list[float]:
        """Return the ages of all samples that are not the youngest of their series, oldest first."""
        ages: set[float] = set()

        def collect(level: Any) -> None:
            if isinstance(level, dict):
                for inner in level.values():
                    collect(inner)
            elif isinstance(level, list):
                own_part = sorted(age for age, _ in level)
                ages.update(own_part[1:] if own_part and own_part[0] <= 2 * self.interval_s else own_part)

        collect(self._given)
        return sorted(ages, reverse=True)

    def _samples(self, path: tuple[str, ...]) -> list[tuple[float, float]]:
        level: Any = self._given
        for name in path:
            level = level.get(name) if isinstance(level, dict) else None
        if level is None:
            return []
        return [(_AGE_S, level)] if isinstance(level, (int, float)) else [(age, value) for age, value in level]
