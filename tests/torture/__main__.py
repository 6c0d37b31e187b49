"""Run the attacks and print the table; see `tests.torture`."""

from __future__ import annotations

import argparse
import os
import random
import sys
from contextlib import ExitStack

from tests.torture import course, engine_attacks, judge, plugin_course, runtimes, table
from tests.torture.attacks import ATTACKS, ROWS
from tests.torture.engine_course import EngineOutcome, EngineSetting
from tests.torture.soak import soak


def attack_nodes(names: list[str], seconds: float, timeout_s: float) -> tuple[list[course.Outcome], int]:
    """Run attacks on nodes; returns the outcomes and how many were not withstood."""
    outcomes, broken = [], 0
    for name in names:
        if ATTACKS[name].root and os.geteuid():
            print(f"{name:<24} left out: only root can prepare it", flush=True)
            continue
        try:
            outcome = course.run(ATTACKS[name], seconds, timeout_s)
        except course.Course as error:
            print(f"{name:<24} FAILED: {error}", flush=True)
            broken += 1
            continue
        wrong = judge.faults(outcome)
        outcomes.append(outcome)
        broken += bool(wrong)
        print(table.line(outcome), flush=True)
        for entry in wrong:
            print(f"    FAILED: {entry}", flush=True)
    return outcomes, broken


def attack_plugins(names: list[str]) -> tuple[list[plugin_course.PluginOutcome], int]:
    """Run attacks on plugins; returns the same."""
    outcomes, broken = [], 0
    for name in names:
        outcome = plugin_course.run(runtimes.ATTACKS[name])
        outcomes.append(outcome)
        broken += bool(outcome.wrong)
        print(table.plugin_line(outcome), flush=True)
        for entry in outcome.wrong:
            print(f"    FAILED: {entry}", flush=True)
    return outcomes, broken


def attack_engine(names: list[str]) -> tuple[list[EngineOutcome], int]:
    """Run attacks on an engine, one for all of them; returns the same."""
    if names and os.geteuid():
        print(f"{', '.join(names)}: left out: only root can run an engine", flush=True)
        return [], 0
    outcomes, broken = [], 0
    with ExitStack() as stack:
        setting = stack.enter_context(EngineSetting()) if names else None
        for name in names:
            assert setting is not None
            outcome = setting.run(engine_attacks.ATTACKS[name])
            outcomes.append(outcome)
            broken += bool(outcome.wrong)
            print(table.engine_line(outcome), flush=True)
            for entry in outcome.wrong:
                print(f"    FAILED: {entry}", flush=True)
    return outcomes, broken


def main(arguments: list[str]) -> int:
    """Exit code 0: everything held; 1: not."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="this attack; may be given several times")
    parser.add_argument("--short", action="store_true", help="the attacks of the short run only")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each attack on a node lasts; default 8")
    parser.add_argument("--timeout", type=float, default=2.0, help="the request timeout in seconds; default 2")
    parser.add_argument("--write", action="store_true", help="write the numbers into tests/torture/RESULTS.md")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="one node, attacks in random order, for so long")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the soak's order")
    parser.add_argument("--list", action="store_true", help="only list the attacks")
    options = parser.parse_args(arguments)
    if options.list:
        for row in (*ROWS, *runtimes.ROWS, *engine_attacks.ROWS):
            print(f"{row.name:<26}{row.does}")
        return 0
    names = options.only or [
        row.name for row in (*ROWS, *runtimes.ROWS, *engine_attacks.ROWS) if row.short or not options.short
    ]
    unknown = [name for name in names if name not in {*ATTACKS, *runtimes.ATTACKS, *engine_attacks.ATTACKS}]
    if unknown:
        parser.error(f"no attack {', '.join(unknown)}; see --list")
    if options.soak is not None:
        return int(bool(soak(options.soak, options.timeout, options.seed, options.only or ())))
    nodes, first = attack_nodes([name for name in names if name in ATTACKS], options.seconds, options.timeout)
    plugins, second = attack_plugins([name for name in names if name in runtimes.ATTACKS])
    engines, third = attack_engine([name for name in names if name in engine_attacks.ATTACKS])
    broken = first + second + third
    print(f"{len(names) - broken} attacks withstood, {broken} not")
    if options.write:
        table.write(nodes, plugins, engines)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
