"""One node for a long time: attacks in random order, plugins that join and leave beside, and a look at what is left.

Every round is judged like an attack of its own. Over all rounds, descriptors and threads must not go up, and memory
not in the second half: records and the allocator's pools are full by then. The order comes from a seed, which is
printed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from tests.torture import judge
from tests.torture.attack import Attack
from tests.torture.attacks import ATTACKS, ROWS
from tests.torture.course import Setting
from tests.torture.table import line

#: Rounds after which a node has made all that it keeps for good.
WARM = 3
#: One pool for all threads: else what each has freed stays with the process, and hides what is really held.
ONE_POOL = {"MALLOC_ARENA_MAX": "1"}
#: What memory may go up by in the second half of the soak, in MiB.
GROWTH_MIB = 64


def soak(minutes: float, timeout_s: float, seed: int, names: Sequence[str] = ()) -> int:
    """Soak for so many minutes; returns how many faults there were.

    Args:
        names: of the attacks; none: all for which any node does.
    """
    dice = random.Random(seed)
    until = time.monotonic() + 60 * minutes
    tell = partial(print, flush=True)
    tell(f"soak: {minutes:g} minutes, seed {seed}")
    rows = [ATTACKS[name] for name in names] or [row for row in ROWS if not row.node]
    held: list[dict[str, int]] = []
    threads: list[str] = []
    faults = events = joins = 0
    with Setting(Attack("soak", "", "", lambda target: None), timeout_s, ONE_POOL) as setting:
        setting.shown()  # who answers `nri why` stays
        while time.monotonic() < until:
            row = dice.choice(rows)
            seconds = dice.uniform(1.0, 6.0)
            with ExitStack() as stack:
                if dice.random() < 0.5:
                    guests = ATTACKS["joiners"]
                    stack.enter_context(setting.hostile(guests, seconds))
                    row = replace(row, log_lines=row.log_lines + guests.log_lines)
                    joins += 1
                outcome = setting.run(row, seconds)
            wrong = judge.faults(outcome)
            held.append(outcome.after)
            events += sum(map(len, outcome.events))
            faults += len(wrong)
            tell(f"{outcome.after['memory'] >> 10:>5} MiB  {line(outcome)}")
            threads = outcome.rest["threads"]
            for each in wrong:
                tell(f"    FAILED: {each}")
    for each in growth(held):
        faults += 1
        tell(f"    FAILED: {each}")
    if len(held) > WARM:
        first, last = held[WARM - 1], held[-1]
        tell(f"held after round {WARM}: {first}, after round {len(held)}: {last}; threads: {', '.join(threads)}")
    tell(f"{len(held)} rounds, {joins} of them beside plugins that join and leave, {events} events, {faults} faults")
    return faults


def growth(held: list[dict[str, int]]) -> list[str]:
    """What has gone up: memory since the first half, as records and the allocator's pools fill; all else at all."""
    if len(held) <= WARM:
        return []
    warm, half = held[WARM - 1], held[WARM - 1 : max(WARM, len(held) // 2)]
    last = {name: min(row[name] for row in held[-2:]) for name in held[-1]}
    found = []
    more = last["memory"] - max(row["memory"] for row in half)
    if more > GROWTH_MIB * 1024:
        found.append(f"memory went up by {more // 1024} MiB")
    found += [
        f"{last[name] - warm[name]} more {name} than after round {WARM}"
        for name in ("descriptors", "threads")
        if last[name] > warm[name]
    ]
    return found
