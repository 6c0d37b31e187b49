"""quotaBurst: bursts at a creation and later, the pod's sum, and resets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.agent.model import Container, Pod
from nri.agent.rubik import quota_burst
from nri.agent.rubik.quota_burst import ANNOTATION, Quota
from tests.support.rubik_world import RubikWorld, create_container, pod


def make_world(folder: Path, *pods: dict[str, Any], **more: Any) -> RubikWorld:
    world = RubikWorld(folder, *pods, quotaBurst=None, **more)
    world.loop()
    return world


def bursts(world: RubikWorld, source: dict[str, Any]) -> tuple[str, str]:
    """Those of the container and of the pod."""
    return tuple(world.text(path, "cpu.cfs_burst_us") for path in (world.app(source), world.folder_of(source)))  # type: ignore[return-value]


def test_a_container_gets_its_pods_burst_and_the_pod_the_sum(tmp_path: Path) -> None:
    world = make_world(tmp_path, a := pod("a", cpu="1", quota_burst_time="20000"), b := pod("b", cpu="1"))
    assert (bursts(world, a), bursts(world, b)) == (("20000", "20000"), ("0", "0"))


@pytest.mark.parametrize(
    ("cpu", "burst", "words"), [("1", "100001", "less than the burst"), ("8", "1", "already covers all 8 CPUs")]
)
def test_a_burst_without_room_in_the_kernel_or_the_node_is_reported(
    tmp_path: Path, cpu: str, burst: str, words: str
) -> None:
    world = make_world(tmp_path, a := pod("a", cpu=cpu, quota_burst_time=burst))
    assert bursts(world, a) == ("0", "0")
    assert "quotaBurst: shop/a/app: no burst: " in world.loops.health()[1]
    assert words in world.loops.health()[1]


@pytest.mark.parametrize("how", ["annotation", "configuration"])
def test_a_burst_without_a_request_is_removed(tmp_path: Path, how: str) -> None:
    world = make_world(tmp_path, a := pod("a", cpu="1", quota_burst_time="20000"))
    if how == "annotation":
        world.run(pod("a", cpu="1"))
    else:
        world.configure()
    world.loop()
    assert bursts(world, a) == ("0", "0")
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]


def test_a_disabled_service_removes_the_burst_of_a_container_created_meanwhile_once(
    tmp_path: Path,
) -> None:
    world = make_world(tmp_path)
    world.configure()
    world.loop()
    world.run(a := pod("a", cpu="1", quota_burst_time="20000"))
    for path in (world.app(a), world.folder_of(a)):
        world.overwrite(path, "cpu.cfs_burst_us", "20000")
    world.loop()
    assert bursts(world, a) == ("0", "0")
    world.overwrite(world.app(a), "cpu.cfs_burst_us", "5000")
    world.clock.now += 100
    world.loop()
    assert bursts(world, a) == ("5000", "0"), "it is somebody else's by now"


def test_a_disabled_service_removes_bursts_of_a_killed_agent_and_keeps_foreign_ones(tmp_path: Path) -> None:
    a, b, c = (pod(name, cpu="1", quota_burst_time=text) for name, text in (("a", "20000"), ("b", "9"), ("c", "soon")))
    world = make_world(tmp_path, a, b, c)
    world.kill()
    for entry in (b, c):
        world.overwrite(world.app(entry), "cpu.cfs_burst_us", "5000")
    world.configure()
    world.loop(2)
    assert [bursts(world, entry) for entry in (a, b, c)] == [("0", "0"), ("5000", "9"), ("5000", "0")]
    assert world.loops.errors == [], "nobody has asked for the service"


def test_containers_with_a_foreign_burst_keep_it_after_a_killed_agent(tmp_path: Path) -> None:
    a = pod("a", cpu="1", quota_burst_time="20000")
    a["spec"]["containers"].append({"name": "side", "resources": {}})
    side = {"name": "side", "containerID": "containerd://side", "state": {"running": {}}}
    a["status"]["containerStatuses"].append(side)
    world = make_world(tmp_path, a)
    other = f"{world.folder_of(a)}/side"
    assert world.text(other, "cpu.cfs_burst_us") == "20000"
    world.kill()
    world.overwrite(other, "cpu.cfs_burst_us", "5000")
    world.configure()
    world.loop(2)
    assert (*bursts(world, a), world.text(other, "cpu.cfs_burst_us")) == ("0", "0", "5000")


def test_an_unreadable_annotation_affects_only_its_pod_and_the_last_valid_one_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = pod("a", cpu="1", quota_burst_time="20000"), pod("b", cpu="1", quota_burst_time="soon")
    world = make_world(tmp_path, a, b)
    assert (bursts(world, a), bursts(world, b)) == (("20000", "20000"), ("0", "0"))
    world.run(pod("a", cpu="1", quota_burst_time="-1"), b)
    world.overwrite(world.app(a), "cpu.cfs_burst_us", "5")
    world.clock.now += 100
    world.loop()
    assert bursts(world, a) == ("20000", "20000")
    account = world.history.account("uid-a")
    assert account is not None
    assert [row["hook"] for row in account["errors"]] == ["quotaBurst"]
    assert "'-1' is not a number of microseconds" in account["errors"][0]["reason"]
    assert sum("'-1' is not a number" in record.message for record in caplog.records) == 1


def test_with_quota_turbo_a_burst_is_limited_by_the_limit_and_not_the_raised_quota(tmp_path: Path) -> None:
    a = pod("a", cpu="1", quota_turbo="true")
    world = RubikWorld(tmp_path, a, quotaBurst=None, quotaTurbo={"syncInterval": 1000})
    world.throttled = {world.app(a)}
    world.loop(10)
    assert world.quota(world.app(a)) > 110_000
    world.run(pod("a", cpu="1", quota_turbo="true", quota_burst_time="110000"))
    world.loop()
    assert bursts(world, a) == ("0", "0")
    assert "the quota 100000 is less than the burst 110000" in world.loops.health()[1]
    world.run(pod("a", cpu="1", quota_turbo="true", quota_burst_time="100000"))
    world.loop()
    assert bursts(world, a) == ("100000", "100000")


POD = Pod(uid="u", folder="p", containers=(Container(id="1", folder="p/1"), Container(id="2", folder="p/2")))


def _asking(text: str) -> Pod:
    return Pod(uid="u", folder="p", annotations={ANNOTATION: text}, containers=POD.containers)


def _written(pod: Pod, **quotas: Quota) -> dict[str, str]:
    actual = {"p": Quota(200_000, 100_000, 0), "p/1": Quota(50_000, 100_000, 0), "p/2": Quota(100_000, 100_000, 0)}
    actual |= {name.replace("_", "/"): quota for name, quota in quotas.items()}
    burst = quota_burst.parse(pod.annotations) or 0
    return {write.folder: write.value for write in quota_burst.writes(pod, burst, actual.__getitem__, 4)}


def test_a_burst_above_the_quota_is_refused_and_left_out_of_the_pods_sum() -> None:
    assert _written(_asking("60000")) == {"p/2": "60000", "p": "60000"}
    assert _written(_asking("50000")) == {"p/1": "50000", "p/2": "50000", "p": "100000"}
    assert _written(_asking("50000"), p_1=Quota(None, 100_000, 0), p=Quota(400_000, 100_000, 0)) == {"p/2": "50000"}


def test_an_unlimited_quota_accepts_any_burst() -> None:
    unlimited = Quota(-1, 100_000, 0)
    assert _written(_asking("60000"), p=unlimited, p_1=unlimited) == {
        "p/1": "60000",
        "p/2": "60000",
        "p": "120000",
    }


def test_leading_zeros_of_a_burst_are_ignored() -> None:
    assert quota_burst.parse({ANNOTATION: "0" * 24 + "7"}) == 7


@pytest.mark.parametrize("text", ["-5", "abc", "0x10", " 7", "1_000", "9999999999999999999"])
def test_an_invalid_number_of_microseconds_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a number of microseconds"):
        _written(_asking(text))


@pytest.mark.parametrize(
    ("quota", "words", "expected"),
    [
        (50_000, {"quota_burst_time": "20000"}, 20_000),
        (50_000, {"quota_burst_time": "60000"}, 0),
        (-1, {"quota_burst_time": "60000"}, 60_000),
        (50_000, {"quota_burst_time": "soon"}, 0),
        (50_000, {}, 0),
    ],
    ids=["as asked", "above the quota", "without a quota", "no number", "not asked"],
)
def test_a_container_has_its_burst_before_it_starts(
    tmp_path: Path, quota: int, words: dict[str, str], expected: int
) -> None:
    world = RubikWorld(tmp_path, quotaBurst=None)
    create_container(world, quota, **words)
    assert world.value("kubepods/burstable/podu/c", "cpu.cfs_burst") == expected


def test_a_preview_reports_the_burst_of_a_creation_and_does_not_set_it(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, preview=("quotaBurst",), quotaBurst=None)
    create_container(world, 50_000, quota_burst_time="20000")
    assert world.value("kubepods/burstable/podu/c", "cpu.cfs_burst") == 0
    account = world.history.account("u")
    assert account is not None
    assert [(row["field"], row["value"], row["stage"]) for row in account["values"]] == [
        ("cpu.cfs_burst", "20000", "preview")
    ]
