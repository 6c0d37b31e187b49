"""cpi: a pod that slows an online one down is limited for five minutes, and nobody without counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from nri.host import Unsupported
from nri.host.perf import Event
from tests.support.counted import Counted, counting
from tests.support.rubik_world import RubikWorld, pod

LIMITED = 10_000
WEB = pod("web", cpi="online", cpu="4")


def batch(**more: str) -> dict[str, object]:
    return pod("batch", offline=True, cpi="offline", cpu="2", **more)


def whole_pod(cpu: str) -> dict[str, object]:
    given: Any = batch()
    given["spec"]["resources"] = {"limits": {"cpu": cpu}}
    return cast("dict[str, object]", given)


def events(ratio: float) -> dict[Event, int]:
    return {Event.CYCLES: int(1000 * ratio), Event.INSTRUCTIONS: 1000}


def minutes(world: RubikWorld, number: int) -> None:
    """Let minutes go by, with the two rounds of each in which counting begins and ends."""
    for _ in range(number):
        world.loop(1, 50)
        world.loop(1, 10)


def usual(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> tuple[RubikWorld, Counted]:
    """A hundred minutes in which a cycle is one instruction."""
    counted = Counted(events(1.0))
    counting(monkeypatch, counted)
    world = RubikWorld(folder, WEB, batch(**more), cpi=None)
    world.uses = {world.folder_of(WEB): 1000, world.folder_of(batch()): 1000}
    minutes(world, 100)
    return world, counted


def quotas(world: RubikWorld) -> list[int]:
    return [world.quota(each) for each in (world.folder_of(batch()), world.app(batch()))]


def test_who_slows_an_online_pod_down_is_limited_for_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    assert quotas(world) == [200_000, 200_000]
    counted.events = events(5.0)
    minutes(world, 9)
    assert quotas(world) == [LIMITED, LIMITED]
    assert world.quota(world.app(WEB)) == 400_000
    told = world.history.of("uid-batch")
    assert (
        told is not None and told["values"][0]["reason"] == "it disturbs an online pod, as cycles per instruction say"
    )
    counted.events = events(1.0)
    minutes(world, 15)
    assert quotas(world) == [200_000, 200_000]


@pytest.mark.parametrize("how", ["configuration", "end", "gone"])
def test_quotas_go_back_with_the_service_and_with_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    counted.events = events(5.0)
    minutes(world, 9)
    (service,) = world.loops.loops
    assert len(service) == 1  # type: ignore[arg-type]
    if how == "end":
        world.loops.start()
        world.loops.stop()
    elif how == "gone":
        world.run(WEB)
        world.loop(1, 10)
    else:
        world.configure()
        world.loop(1, 10)
    assert len(service) == 0  # type: ignore[arg-type]
    assert quotas(world) == [LIMITED if how == "gone" else 200_000] * 2


@pytest.mark.parametrize("why", ["quotaTurbo", "files"])
def test_a_pod_whose_quotas_somebody_else_moves_or_cannot_be_read_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    more = {"quota_turbo": "true"} if why == "quotaTurbo" else {}
    world, counted = usual(tmp_path, monkeypatch, **more)
    if why == "files":
        (tmp_path / "sys/fs/cgroup/cpu,cpuacct" / world.app(batch()) / "cpu.cfs_quota_us").unlink()
    counted.events = events(5.0)
    minutes(world, 10)
    assert world.quota(world.folder_of(batch())) == 200_000
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]


def test_samples_without_instructions_count_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    counted.events = {Event.CYCLES: 5000, Event.INSTRUCTIONS: 0}
    minutes(world, 12)
    assert quotas(world) == [200_000, 200_000]


def test_a_machine_that_counts_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting(monkeypatch, Counted({}, Unsupported("the hypervisor does not count cycles")))
    world = RubikWorld(tmp_path, WEB, batch(), cpi=None)
    minutes(world, 2)
    assert world.loops.errors == ["cpi: no pod is judged: unsupported here: the hypervisor does not count cycles"]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("on", [True, False])
def test_a_pod_that_a_killed_agent_has_left_limited_gets_its_quotas_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: bool, restarted: bool
) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    counted.events = events(5.0)
    minutes(world, 9)
    assert quotas(world) == [LIMITED, LIMITED]
    counted.events = events(1.0)
    if restarted:
        world.overwrite(world.app(batch()), "cpu.cfs_quota_us", "200000")
    later = RubikWorld(tmp_path, WEB, batch(), cpi=None)
    if not on:
        later.configure()
    minutes(later, 1)
    assert quotas(later) == [LIMITED if on else 200_000, LIMITED if on and not restarted else 200_000]
    minutes(later, 5)
    assert quotas(later) == [200_000, 200_000]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(("first", "quota"), [("2", 400_000), ("", -1)])
def test_a_pod_that_was_left_limited_gets_the_quota_of_all_its_containers_also_of_those_that_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool, first: str, quota: int
) -> None:
    counting(monkeypatch, Counted(events(1.0)))
    world, given = RubikWorld(tmp_path, WEB, batch(), cpi=None), cast("Any", batch())
    asks = [{"resources": {"limits": {"cpu": cpu} if cpu else {}}} for cpu in (first, "1", "1")]
    given["spec"]["containers"] += [{"name": "late", **asks[1]}]
    given["spec"]["initContainers"] = [
        {"name": "first", **asks[0]},
        {"name": "side", "restartPolicy": "Always", **asks[2]},
    ]
    for folder in (world.folder_of(given), world.app(given)):
        world.overwrite(folder, "cpu.cfs_quota_us", str(LIMITED))
    if not running:
        given["status"]["containerStatuses"] = []
    world.run(WEB, given)
    minutes(world, 8)
    assert quotas(world) == [quota, 200_000 if running else LIMITED]


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        (batch(quota_turbo="true"), True),  # quotaTurbo's
        (batch() | {"spec": {"runtimeClassName": "kata", "containers": [{"name": "app"}]}}, True),
        (batch(), False),  # only its container has that quota
        (whole_pod("100m"), True),  # the limit of all of it together
    ],
)
def test_a_low_quota_that_is_none_of_cpi_s_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, object], whole: bool
) -> None:
    counting(monkeypatch, Counted(events(1.0)))
    world = RubikWorld(tmp_path, WEB, batch(), cpi=None)
    world.overwrite(world.app(batch()), "cpu.cfs_quota_us", str(LIMITED))
    if whole:
        world.overwrite(world.folder_of(batch()), "cpu.cfs_quota_us", str(LIMITED))
    before = quotas(world)
    world.run(WEB, given)
    minutes(world, 8)
    assert quotas(world) == before


def test_a_limit_that_was_changed_while_a_pod_was_limited_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    counted.events = events(5.0)
    minutes(world, 9)
    counted.events = events(1.0)
    for folder in (world.folder_of(batch()), world.app(batch())):
        world.overwrite(folder, "cpu.cfs_quota_us", "300000")  # as a kubelet resizes it
    minutes(world, 15)
    assert quotas(world) == [300_000, 300_000]
