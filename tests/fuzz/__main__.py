"""Fuzz parsers for as long as wanted: ``python -m tests.fuzz [--minutes N] [--seed N] [TARGET...]``.

Without targets all of them, each for so many minutes. Every round of inputs has a seed of its own, counted up from the
first one, which is printed; so `--seed` with the number of a finding draws it again. A finding is made small, saved
below `build/fuzz` and printed with its traceback; moved to `tests/fuzz/corpus/TARGET` it is part of the tests.
``--try FILE TARGET`` gives one saved input to a target. Exit code 1 if there was a finding.
"""

import argparse
import logging
import random
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.engine import ROUND, VARIANTS, Search, Target, save
from tests.fuzz.targets import TARGETS

FOUND = Path(__file__).parents[2] / "build" / "fuzz"


def explore(target: Target, minutes: float, seed: int) -> bool:
    """Fuzz one target until the time is up or there is a finding; True for a finding."""
    search = Search(target, until=time.monotonic() + minutes * 60, variants=VARIANTS)
    began, first = time.monotonic(), seed
    while time.monotonic() < search.until:
        if search.run(seed, max(20, int(ROUND * target.share))):
            break
        seed += 1
    passed_s = time.monotonic() - began
    print(f"{target.name:<14} {search.tried:>9} inputs in {passed_s:6.1f} s, seeds {first} to {seed}", end="")
    if search.found is None:
        print(": nothing found", flush=True)
        return False
    path = save(target, search.found, FOUND)
    print(f": FOUND with --seed {seed}\n  saved as {path}\n  {search.found[:400]!r}", flush=True)
    if search.error is not None:
        traceback.print_exception(search.error, file=sys.stdout)
    sys.stdout.flush()
    return True


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (1)")
    parser.add_argument("--seed", type=int, help="of the first round; a random one by default")
    parser.add_argument("--try", dest="file", type=Path, metavar="FILE", help="only give this saved input to TARGET")
    arguments = parser.parse_args()
    unknown = set(arguments.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    expected = [TARGETS[name] for name in arguments.targets or TARGETS]
    logging.disable(logging.WARNING)  # errors stay: the targets look for them
    logging.lastResort = None
    if arguments.file:
        for target in expected:
            target.run(arguments.file.read_bytes())
        return 0
    seed = random.SystemRandom().randrange(1 << 30) if arguments.seed is None else arguments.seed
    matches = [target.name for target in expected if explore(target, arguments.minutes, seed)]
    return 1 if matches else 0


if __name__ == "__main__":
    sys.exit(main())
