"""Threads, triggers and the end of standalone mode."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from nri.agent.koordinator.node import Node
from nri.agent.settings.values import AgentSettings, StandaloneSettings
from tests.support.scrape import scrape
from tests.support.standalone_world import World
from tests.support.waiting import wait_for
from tests.unit.agent.transports.standalone.test_pods import POOLS, batch, pod


def world_of(folder: Path, interval_s: float) -> World:
    settings = AgentSettings(standalone=StandaloneSettings(interval=interval_s))
    return World(folder, Node(), settings, now=time.monotonic)


def test_without_known_pods_the_transport_is_not_ready_and_writes_no_pod(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    world.round()
    assert world.standalone.health() == (False, "pods are not known yet")
    world.source.replace([])
    world.round()
    assert world.standalone.health() == (True, "3 decisions, 0 written")


def test_changes_of_pods_and_rules_are_applied_at_once(tmp_path: Path) -> None:
    world = world_of(tmp_path, 3600)
    one = pod("a", "LS")
    folder, late = world.pod(one), world.pod(batch("b"))
    world.source.replace([one])
    world.standalone.start()
    try:
        wait_for(lambda: world.standalone.health()[0])
        world.source.replace([one, batch("b")])
        wait_for(lambda: world.text(late, "cpu.shares") == "512")
        world.store.put("NodeResourceTopology", POOLS, "test")
        world.standalone.rules_changed(frozenset({"NodeResourceTopology"}))
        wait_for(lambda: world.text(f"{folder}/ac", "cpuset.cpus") == "0-3")
    finally:
        world.standalone.stop()


def test_the_clock_alone_repairs_a_quota(tmp_path: Path) -> None:
    world = world_of(tmp_path, 0.02)
    folder = world.pod(batch("b"))
    world.source.replace([batch("b")])
    world.standalone.start()
    try:
        for _ in range(3):
            wait_for(lambda: world.text(folder, "cpu.cfs_quota_us") == "50000")
            world.overwrite(folder, "cpu.cfs_quota_us", "1000")
    finally:
        world.standalone.stop()


def test_stop_ends_all_threads_including_the_one_for_kube_qos_folders(tmp_path: Path) -> None:
    before = threading.active_count()
    world = world_of(tmp_path, 0.01)
    world.source.replace([])
    world.standalone.stop()
    world.standalone.start()
    world.standalone.start()
    wait_for(lambda: world.standalone.health()[0])
    world.standalone.stop()
    world.standalone.stop()
    assert threading.active_count() <= before
    world.overwrite("kubepods/besteffort", "cpu.bvt_warp_ns", "5")
    time.sleep(0.05)
    assert world.text("kubepods/besteffort", "cpu.bvt_warp_ns") == "5"


def test_a_failed_round_is_reported_and_the_next_round_works(tmp_path: Path) -> None:
    world = world_of(tmp_path, 0.01)
    world.source.replace([])
    real = world.source.pods
    world.source.pods = lambda: 1 / 0  # type: ignore[assignment, return-value]
    world.standalone.start()
    try:
        wait_for(lambda: "division by zero" in world.standalone.health()[1])
        assert not world.standalone.health()[0]
        world.source.pods = real  # type: ignore[method-assign]
        wait_for(lambda: world.standalone.health()[0])
    finally:
        world.standalone.stop()


def test_pods_above_the_limit_are_skipped_and_counted(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    world.source.replace([{"metadata": {"uid": str(number)}} for number in range(4100)])
    world.standalone.round(frozenset({"timer"}))
    assert 'nri_agent_left_out_total{reason="pods"} 4.0\n' in scrape(world.observer)
