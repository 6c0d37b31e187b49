"""A node and an engine for a long time: attacks on either in random order, beside 20 polite pods of the engine.

Every round is judged like an attack of its own: on the node, beside plugins that join and leave in half of the rounds,
or on the engine. Polite pods are visited in all of them. Over all rounds, descriptors and threads must not go up, and
memory not in the second half: records and the allocator's pools are full by then. The order comes from a seed, which
is printed. Who is not root has no engine.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Self

from tests.torture import engine_attacks, judge
from tests.torture.attack import Attack
from tests.torture.attacks import ATTACKS, ROWS
from tests.torture.course import Setting
from tests.torture.engine_course import DESCRIPTORS, THREADS, EngineAttack, EngineSetting
from tests.torture.stillness import Stillness
from tests.torture.table import engine_line, line
from tools.runtimes.engine import PROGRAM

#: Rounds after which a node has made all that it keeps for good.
WARM = 3
#: One pool for all threads: else what each has freed stays with the process, and hides what is really held.
ONE_POOL = {"MALLOC_ARENA_MAX": "1"}
#: The engine with it.
ENGINE = ("env", *(f"{key}={value}" for key, value in ONE_POOL.items()), *PROGRAM)
#: What memory may go up by in the second half of the soak, in MiB.
GROWTH_MIB = 64


def soak(minutes: float, timeout_s: float, seed: int, names: Sequence[str] = ()) -> int:
    """Soak for so many minutes; returns how many faults there were.

    Args:
        names: of the attacks; none: all for which any node, or any engine, does.
    """
    until = time.monotonic() + 60 * minutes
    tell(f"soak: {minutes:g} minutes, seed {seed}")
    with Soak(timeout_s, seed, names) as soak:
        while time.monotonic() < until:
            soak.round()
        return soak.end()


tell = partial(print, flush=True)


class Soak:
    """A node and an engine, and what each held after every round; ends with the block."""

    def __init__(self, timeout_s: float, seed: int, names: Sequence[str]) -> None:
        self._dice = random.Random(seed)
        self._timeout_s, self._root = timeout_s, not os.geteuid()
        rows = [ATTACKS[name] for name in names if name in ATTACKS] or [row for row in ROWS if not row.node]
        other_entries = [engine_attacks.ATTACKS[name] for name in names if name in engine_attacks.ATTACKS]
        if self._root and not names:
            other_entries = [*engine_attacks.ROWS]
        self._rows: list[Attack | EngineAttack] = [*([] if other_entries and names else rows), *other_entries]
        self._held: list[dict[str, int]] = []
        self._engine_held: list[dict[str, int]] = []
        self._threads: list[str] = []
        self._faults = self._events = self._joins = self._visits = 0
        self._worst_s = 0.0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            quiet = Attack("soak", "", "", lambda target: None)
            self._node = stack.enter_context(Setting(quiet, self._timeout_s, ONE_POOL))
            self._node.shown()  # who answers `nri why` stays
            self._engine = stack.enter_context(EngineSetting(ENGINE)) if self._root else None
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def round(self) -> None:
        """One attack, and what is wrong after it."""
        row = self._dice.choice(self._rows)
        wrong: list[str] = []
        with Stillness() as still:
            if self._engine is None:
                assert isinstance(row, Attack)
                self._attack_node(row, wrong)
            else:
                attack = row
                if isinstance(row, Attack):
                    attack = EngineAttack(row.name, "", "", lambda _: self._attack_node(row, wrong))
                wrong += self._attack_engine(attack, self._engine)
        self._faults += len(wrong)
        for entry in wrong:
            tell(f"    FAILED: {entry}")
        if wrong:
            tell(f"    the machine stood still for {still.worst_s:.2f} s at most")

    def _attack_node(self, row: Attack, wrong: list[str]) -> int:
        """Attack the node, perhaps beside plugins that join and leave; how many events there were."""
        seconds = self._dice.uniform(1.0, 6.0)
        with ExitStack() as stack:
            if self._dice.random() < 0.5:
                guests = ATTACKS["joiners"]
                stack.enter_context(self._node.hostile(guests, seconds))
                row = replace(row, log_lines=row.log_lines + guests.log_lines)
                self._joins += 1
            outcome = self._node.run(row, seconds)
        wrong += judge.faults(outcome)
        self._held.append(outcome.after)
        self._threads = outcome.rest["threads"]
        events = sum(map(len, outcome.events))
        self._events += events
        tell(f"{outcome.after['memory'] >> 10:>5} MiB  {line(outcome)}")
        return events

    def _attack_engine(self, attack: EngineAttack, engine: EngineSetting) -> list[str]:
        """Attack the engine, or do something beside its pods; what is wrong with it."""
        outcome = engine.run(attack)
        self._engine_held.append(holder := engine.held())
        self._visits += outcome.visits
        self._worst_s = max(self._worst_s, outcome.worst_s)
        tell(f"{holder['memory'] >> 10:>5} MiB  {engine_line(outcome)}")
        return outcome.wrong

    def end(self) -> int:
        """Say what it all came to; how many faults there were."""
        slack = {"descriptors": DESCRIPTORS, "threads": THREADS}
        for who, holder, grown in (
            ("the node", self._held, growth(self._held)),
            ("the engine", self._engine_held, growth(self._engine_held, slack)),
        ):
            for entry in grown:
                self._faults += 1
                tell(f"    FAILED: {who}: {entry}")
            if len(holder) > WARM:
                tell(f"{who} held after round {WARM}: {holder[WARM - 1]}, after round {len(holder)}: {holder[-1]}")
        tell(f"threads of the node: {', '.join(self._threads)}")
        tell(
            f"{len(self._held)} rounds on the node, {self._joins} of them beside plugins that join and leave, "
            f"{self._events} events; {len(self._engine_held)} beside polite pods, {self._visits} visits of them, "
            f"the longest {self._worst_s:.2f} s; {self._faults} faults"
        )
        return self._faults


def growth(holder: list[dict[str, int]], slack: Mapping[str, int] = MappingProxyType({})) -> list[str]:
    """What has gone up: memory since the first half, as records and the allocator's pools fill; else by any `slack`."""
    if len(holder) <= WARM:
        return []
    warm, half = holder[WARM - 1], holder[WARM - 1 : max(WARM, len(holder) // 2)]
    last = {name: min(row[name] for row in holder[-2:]) for name in holder[-1]}
    matches = []
    more = last["memory"] - max(row["memory"] for row in half)
    if more > GROWTH_MIB * 1024:
        matches.append(f"memory went up by {more // 1024} MiB")
    matches += [
        f"{last[name] - warm[name]} more {name} than after round {WARM}"
        for name in ("descriptors", "threads")
        if last[name] > warm[name] + slack.get(name, 0)
    ]
    return matches
