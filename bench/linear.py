"""How cost grows with its input: `python -m bench.linear [CASE...]`. Twice the input costs at most 2.3 times as much.

Everything that a plugin, a pod's annotations or a file can make big (`tests.support.growing`) is measured at a size and
at twice that, in processor time, the best of several runs, both sizes in turn. The last line names what grows faster
than that, and then the exit code is 1. No sockets: what is measured is the work behind them.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
from collections.abc import Callable

from tests.support.growing import creations, placements, records, services, texts, traces, updates
from tests.support.growing.big import Case

#: Twice the input may cost at most this many times as much.
MAX_GROWTH = 2.3
RUNS = 7
#: A run that is shorter than this is done with a larger input, in seconds.
SHORTEST_S = 0.01
LARGEST = 16_000
#: The same for whole events, whose replies have limits.
LARGEST_EVENT = 2_000

CASES: dict[str, Case] = {
    **creations.CASES, **updates.CASES, **records.CASES, **services.CASES, **texts.CASES, **traces.CASES,
    **placements.CASES,
}  # fmt: skip


def cost_s(work: Callable[[], object]) -> float:
    """Processor time of one run, in seconds."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    work()
    took = time.process_time() - began
    gc.enable()
    return took


def measure(case: Case, size: int = 2000, largest: int = LARGEST) -> tuple[int, float, float]:
    """The size, and the lowest costs of this size and of twice the size, in seconds."""
    while True:
        work = case(size)
        work()  # the first run imports modules
        took = cost_s(work)
        if took >= SHORTEST_S or size >= largest:
            break
        size *= 2
    double_work = case(2 * size)
    runs = RUNS if took < 1 else 1
    pairs = [(cost_s(work), cost_s(double_work)) for _ in range(runs)]
    return size, min(cost for cost, _ in pairs), min(cost for _, cost in pairs)


def main() -> int:
    """Measure, and print a line for each case."""
    parser = argparse.ArgumentParser(prog="python -m bench.linear", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="prefix of the cases to measure; default: all cases")
    logging.disable(logging.WARNING)
    selection = parser.parse_args().cases
    chosen = {name: case for name, case in CASES.items() if not selection or name.startswith(tuple(selection))}
    bad = []
    print(f"{'case':52} {'entries':>8} {'ms':>9} {'twice':>9}  times")
    for name, case in chosen.items():
        largest = LARGEST_EVENT if name.startswith("event:") else LARGEST
        size, cost, double_cost = measure(case, largest=largest)
        for _ in range(3):
            if double_cost <= MAX_GROWTH * cost:
                break
            # Other load of the machine may have disturbed the measurement.
            repeated = measure(case, size, size)
            if repeated[2] / repeated[1] < double_cost / cost:
                size, cost, double_cost = repeated
        growth = double_cost / cost
        if growth > MAX_GROWTH:
            bad.append(name)
        print(f"{name:52} {size:8} {cost * 1e3:9.2f} {double_cost * 1e3:9.2f}  {growth:5.2f}", flush=True)
    print(f"over {MAX_GROWTH}: {', '.join(bad)}" if bad else f"none over {MAX_GROWTH}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
