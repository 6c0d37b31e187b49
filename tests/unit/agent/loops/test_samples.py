"""Samples: differences of counters, and removed cgroups are forgotten."""

from __future__ import annotations

from pathlib import Path

from nri.agent.loops.samples import Sampler, Used
from tests.support.loop_world import LoopWorld


def test_usage_is_the_difference_of_two_samples(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path)
    world.cgroup("a")
    sampler = Sampler(world.root, world.parts.executor.hierarchies, world.clock)
    first = sampler.take(["a", "nowhere"], 8)
    assert (first.milli, first.of("a").milli, first.of("nowhere")) == (None, None, Used())
    world.uses["a"], world.node_milli = 1500, 3000
    world.throttled.add("a")
    world.pass_s(10)
    second = sampler.take(["a"], 8)
    assert second.of("a") == Used(1500, True, 0)
    assert second.milli == 3000
    assert (second.memory_total, second.memory_used) == (100 << 30, 50 << 30)


def test_a_recreated_cgroup_starts_again_and_a_removed_one_is_forgotten(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path)
    world.cgroup("a")
    sampler = Sampler(world.root, world.parts.executor.hierarchies, world.clock)
    world.uses["a"] = 1000
    world.pass_s()
    sampler.take(["a"], 8)
    world.no_cgroup("a")
    world.cgroup("a")
    world.uses.clear()
    world.pass_s()
    assert sampler.take(["a"], 8).of("a").milli is None
    world.no_cgroup("a")
    sampler.take(["a"], 8)
    assert len(sampler) == 0
