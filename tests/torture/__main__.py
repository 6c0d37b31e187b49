"""Run the attacks and print the table; see `tests.torture`."""

from __future__ import annotations

import argparse
import sys

from tests.torture import course, judge
from tests.torture.attacks import ATTACKS, ROWS
from tests.torture.table import line, write


def main(arguments: list[str]) -> int:
    """Exit code 0: everything held; 1: not."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="this attack; may be given several times")
    parser.add_argument("--short", action="store_true", help="the attacks of the short run only")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each goes on; default 8")
    parser.add_argument("--timeout", type=float, default=2.0, help="the request timeout in seconds; default 2")
    parser.add_argument("--write", action="store_true", help="write the table into docs/reliability.md")
    parser.add_argument("--list", action="store_true", help="only list the attacks")
    options = parser.parse_args(arguments)
    if options.list:
        for row in ROWS:
            print(f"{row.name:<26}{row.does}")
        return 0
    unknown = [name for name in options.only or () if name not in ATTACKS]
    if unknown:
        parser.error(f"no attack {', '.join(unknown)}; see --list")
    chosen = [ATTACKS[name] for name in options.only] if options.only else [r for r in ROWS if r.short or not options.short]
    outcomes, broken = [], 0
    for row in chosen:
        try:
            outcome = course.run(row, options.seconds, options.timeout)
        except course.Course as error:
            print(f"{row.name:<24} FAILED: {error}", flush=True)
            broken += 1
            continue
        wrong = judge.faults(outcome)
        outcomes.append(outcome)
        broken += bool(wrong)
        print(line(outcome), flush=True)
        for each in wrong:
            print(f"    FAILED: {each}", flush=True)
    print(f"{len(chosen) - broken} attacks withstood, {broken} not")
    if options.write:
        write(outcomes)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
