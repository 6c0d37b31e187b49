"""Take the first view in several ways, in turns, and record the cost of each.

All ways must see the same pods and containers. Each way is warmed up, the order changes with each round, and a pause
precedes each view.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from bench.studies.apiserver.tables import ViewCost
from bench.studies.apiserver.views import BARE, Way, same
from bench.studies.cluster import process_ms

#: A plugin that has taken the state in keeps the next one from joining for as long as that took: views that follow at
#: once would measure this rest, which a plugin that connects once never meets.
PAUSE_S = 0.03


def in_turns(
    ways: Mapping[str, Way], servers: Mapping[str, Sequence[int]], rounds: int, views_each: int
) -> dict[str, ViewCost]:
    """Take `views_each` views of each way in each round; the first way says what there is to see.

    Args:
        servers: the processes whose time counts as the server's, by way.
    """
    names = [*ways]
    expected = ways[names[0]]().view
    for name in names:
        time.sleep(PAUSE_S)
        view = ways[name]().view
        if name != BARE and not same(view, expected):
            raise RuntimeError(f"{name} sees {len(view.containers)} containers, {names[0]} {len(expected.containers)}")
    costs = {name: ViewCost([], [], [], 0) for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            costs[name] = _one_round(ways[name], costs[name], servers[name], views_each)
    time.sleep(PAUSE_S)
    return costs


def _one_round(way: Way, cost: ViewCost, servers: Sequence[int], views_each: int) -> ViewCost:
    """Take the views of one round, and add them."""
    before = sum(map(process_ms, servers))
    samples = []
    for _ in range(views_each):
        time.sleep(PAUSE_S)
        samples.append(way())
    return ViewCost(
        [*cost.ms, [sample.ms for sample in samples]],
        [*cost.cpu_ms, sum(sample.cpu_ms for sample in samples) / views_each],
        [*cost.server_ms, (sum(map(process_ms, servers)) - before) / views_each],
        samples[-1].bytes,
    )
