"""`python -m bench placement [--rounds N]`: how long topology-aware and balloons need to decide, without a runtime.

With `--original NAME=PROGRAM` the plugin is compared with that program instead: see `bench.studies.originals`.

For machines of 16 to 4,096 CPUs a policy is filled with containers; then one more is created and released again, over
and over, first one that shares CPUs, then one with its own CPU. Counted is the processor time of the creation; the
time of a release is the same or less. Half of the containers share, half ask for nothing, and one in ten, as far as
CPUs reach, has its own CPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

from bench.report import table
from bench.studies.originals import report
from nri.placement.containers import Container
from nri.placement.policy import Policy
from tests.support.placement import balloons, container, guest, topology_aware

#: CPUs -> packages, nodes of each, cores of each node; two threads each.
MACHINES = {16: (1, 2, 4), 112: (2, 2, 14), 448: (4, 2, 28), 4096: (8, 4, 64)}
COUNTS = (10, 100, 500)
POLICIES: dict[str, Callable[[int], Policy]] = {
    "topology-aware": lambda cpus: topology_aware(_machine(cpus)),
    "balloons": lambda cpus: balloons(
        {"name": "own", "matchExpressions": [{"key": "name", "operator": "Matches", "values": ["own-*"]}],
         "preferNewBalloons": True},
        {"name": "rest", "namespaces": ["*"], "maxBalloons": 2},
        topology=_machine(cpus),
    ),
}  # fmt: skip


def _machine(cpus: int):
    packages, nodes, cores = MACHINES[cpus]
    return guest(packages, nodes, cores, 2, mem_kib_per_node=64 << 20)


def filled(name: str, cpus: int, count: int) -> Policy:
    """A policy that has placed this many containers."""
    policy = POLICIES[name](cpus)
    exclusive = min(count // 10, cpus // 4)
    share_m = min(100, 250 * cpus // count)
    for number in range(count):
        if number < exclusive:
            policy.create(container(f"own-{number}", 1000))
        else:
            policy.create(container(f"c{number}", share_m * (number % 2), qos="Burstable" if number % 2 else ""))
    return policy


def decision_ms(policy: Policy, make: Callable[[], Container], rounds: int) -> float:
    """The median processor time of one creation, in milliseconds."""
    durations = []
    for _ in range(rounds):
        one = make()
        began = time.process_time()
        policy.create(one)
        durations.append(time.process_time() - began)
        policy.release(one.id)
    return 1000 * statistics.median(durations)


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench placement", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=0, help="creations of each kind (default 25); starts (default 5)")
    parser.add_argument(
        "--original", action="append", metavar="NAME=PROGRAM", help="topology-aware or balloons of nri-plugins, built"
    )
    options = parser.parse_args(arguments)
    if options.original:
        print(report(options.original, options.rounds or 5))
        return 0
    rows = []
    for name in POLICIES:
        for cpus in MACHINES:
            row = [name, str(cpus)]
            for count in COUNTS:
                policy = filled(name, cpus, count)
                shared = decision_ms(policy, lambda: container("more", 10, qos="Burstable"), options.rounds or 25)
                exclusive_ms = decision_ms(policy, lambda: container("own-more", 1000), options.rounds or 25)
                row.append(f"{shared:.2f}, {exclusive_ms:.2f}")
            rows.append(row)
    print(table(["policy", "CPUs", *(f"{count} containers, ms" for count in COUNTS)], rows))
    return 0
