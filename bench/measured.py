"""Figures of a case, round by round. `bench.run` takes them, `bench.report` shows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.pairs import Round


@dataclass
class Measured:
    """Per pairing, one value per round."""

    p50: dict[str, list[float]] = field(default_factory=dict)
    p99: dict[str, list[float]] = field(default_factory=dict)
    rate: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    floor_us: list[float] = field(default_factory=list)

    def add(self, name: str, result: Round) -> None:
        """Take one round of one pairing."""
        for table, value in (
            (self.p50, result.quantile(0.5)),
            (self.p99, result.quantile(0.99)),
            (self.rate, result.per_second),
            (self.cpu, result.cpu_us),
        ):
            table.setdefault(name, []).append(value)
