"""Run the differential test without end, or for so many cases: ``python -m tests.differential --forever [--seed N]``.

Progress goes to stderr. Each finding is made small and printed on stdout as one line, ready for a name and for
``tests/conformance/data/regressions.jsonl``. Exit code 1 if there was a finding. ``--write FILE`` instead writes cases
with the reference's answers, those that are the same each time, for ``nri conformance``.
"""

import argparse
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.differential.compare import TIMES, differs, find
from tests.differential.generate import Case, draw_case
from tests.differential.mix import mix_case
from tests.differential.oracle import Oracle
from tests.differential.shrink import shrink
from tests.differential.specs import draw_spec_case


def cases(seed: int, count: int | None) -> Iterator[Case]:
    """The cases of a seed for the merge: case N is the same whatever came before it."""
    for number in itertools.count() if count is None else range(count):
        name = f"{seed}-{number}"
        source = random.Random(name)
        yield mix_case(source, name) if number % 4 == 3 else draw_case(source, name)


def spec_cases(seed: int, count: int | None) -> Iterator[Case]:
    """The cases of a seed for the spec generator."""
    for number in itertools.count() if count is None else range(count):
        name = f"{seed}-spec-{number}"
        yield draw_spec_case(random.Random(name), name)


def both(seed: int, count: int | None) -> Iterator[Case]:
    """Merges and specs in turn, so many together."""
    halves = (cases(seed, None), spec_cases(seed, None))
    return itertools.islice(itertools.chain.from_iterable(zip(*halves, strict=True)), count)


KINDS = {"merge": cases, "spec": spec_cases, "both": both}


def explore(oracle: Oracle, second: Oracle, drawn: Iterable[Case], limit: int) -> int:
    """Compare cases until they run out or so many differ. `second` answers the questions about a finding."""
    counts: Counter[str] = Counter()
    names: set[str] = set()
    began = reported = time.monotonic()
    try:
        for case, expect in oracle.stream(drawn):
            counts["cases"] += 1
            counts["conflicts and errors"] += "error" in expect
            counts["panics of the reference"] += "panic" in expect
            if differs(case, expect, oracle.mounts):
                if find(second, case) is None:
                    counts["left to chance"] += 1
                else:
                    _report(second, case, names)
                if len(names) >= limit:
                    break
            if time.monotonic() - reported > 5:
                reported = time.monotonic()
                _progress(counts, len(names), reported - began)
    finally:
        _progress(counts, len(names), time.monotonic() - began)
    return 1 if names else 0


def _report(oracle: Oracle, case: Case, names: set[str]) -> None:
    small = shrink(case, lambda candidate: find(oracle, candidate, 8) is not None)
    matches = find(oracle, small, TIMES) or find(oracle, case, TIMES)
    if matches is None or (shape := _shape(small)) in names:
        return
    names.add(shape)
    print(json.dumps(matches.case), flush=True)
    print(f"{matches.diff}\n({', '.join(matches.parts)})\n", file=sys.stderr, flush=True)


def _shape(value: Any) -> str:
    """What tells one finding from another: the structure without the values."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_shape(value[key])}" for key in sorted(value)) + "}"
    return "[" + ",".join(map(_shape, value)) + "]" if isinstance(value, list) else ""


def _progress(counts: Counter[str], matches: int, seconds: float) -> None:
    rate = counts["cases"] / max(seconds, 0.001)
    parts = ", ".join(f"{number} {name}" for name, number in counts.items())
    print(f"{parts}; {matches} findings; {rate:.0f} cases/s", file=sys.stderr, flush=True)


def write(oracle: Oracle, path: Path, drawn: Iterable[Case], count: int) -> None:
    """Write so many cases to which the reference gives one answer."""
    written = 0
    with path.open("w", encoding="utf-8") as out:
        for case in drawn:
            answers = oracle.answers(case, TIMES)
            if len(answers) == 1 and "panic" not in answers[0]:
                out.write(json.dumps({**case, "expect": answers[0]}) + "\n")
                written += 1
            if written == count:
                return


def main() -> int:
    """Parse the arguments, run, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--forever", action="store_true", help="do not stop after --cases")
    parser.add_argument("--cases", type=int, default=5000, metavar="N")
    parser.add_argument("--only", choices=sorted(KINDS), default="both", dest="kind", help="what to compare")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: by the clock")
    parser.add_argument("--most", type=int, default=20, metavar="N", help="stop after so many findings")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write --cases cases with their answers")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr)
    with Oracle(mounts=options.write is None) as oracle, Oracle() as second:
        if options.write is not None:
            write(oracle, options.write, KINDS[options.kind](seed, None), options.cases)
            return 0
        drawn = KINDS[options.kind](seed, None if options.forever else options.cases)
        return explore(oracle, second, drawn, options.most)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
