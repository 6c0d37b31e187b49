"""Cases of the benchmarks: events of one kind under one load; each becomes a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Events of one kind under one load.

    Attributes:
        kind: the event, as `bench/peers/README.md` calls it.
        events: how many make a round.
        in_turn: from plugin to plugin, also what would go to all of them at once.
        recorder: keep every step of every event, on both sides (`nri.trace.recorder`).
    """

    title: str
    kind: str
    plugins: int = 1
    callers: int = 1
    idle_us: int = 0
    events: int = 600
    delay_ms: int = 0
    in_turn: bool = False
    recorder: bool = False

    def scaled(self, scale: float) -> int:
        """The number of events in a scaled round; at least some for each caller."""
        return max(self.callers * 4, int(self.events * scale))


SC, CC = "state change", "CreateContainer"
CASES = {
    "state": Case(f"{SC}, 1 plugin, back to back", "psc"),
    "create": Case(f"{CC}, 1 plugin, back to back", "cc"),
    "state-sparse": Case(f"{SC}, 1 plugin, 5 ms idle before each event", "psc", idle_us=5000, events=80),
    "create-sparse": Case(f"{CC}, 1 plugin, 5 ms idle before each event", "cc", idle_us=5000, events=80),
    "state-4": Case(f"{SC}, 4 plugins", "psc", plugins=4, events=200),
    "create-4": Case(f"{CC}, 4 plugins", "cc", plugins=4, events=200),
    "state-10": Case(f"{SC}, 10 plugins", "psc", plugins=10, events=100),
    "state-10-turn": Case(f"{SC}, 10 plugins, one after the other", "psc", plugins=10, events=100, in_turn=True),
    "create-10": Case(f"{CC}, 10 plugins", "cc", plugins=10, events=100),
    "state-8c": Case(f"{SC}, 1 plugin, 8 callers", "psc", callers=8, events=2400),
    "create-8c": Case(f"{CC}, 1 plugin, 8 callers", "cc", callers=8, events=1600),
    "slow": Case(
        f"{SC}, 4 plugins that take 5 ms each, 8 callers", "psc", plugins=4, callers=8, events=160, delay_ms=5
    ),
    "state-recorder": Case(f"{SC}, 1 plugin, every step recorded", "psc", recorder=True),
    "create-recorder": Case(f"{CC}, 1 plugin, every step recorded", "cc", recorder=True),
    "state-10-recorder": Case(f"{SC}, 10 plugins, every step recorded", "psc", plugins=10, events=100, recorder=True),
    "create-10-recorder": Case(f"{CC}, 10 plugins, every step recorded", "cc", plugins=10, events=100, recorder=True),
}
#: Numbers of containers, and how often they are measured for each round of the other cases: a short time varies more.
SYNC = {100: 3.0, 1000: 0.5, 10_000: 0.25}
#: What can be named on the command line.
EVERYTHING = (*CASES, "sync", "start", "memory", "idle", "node")
