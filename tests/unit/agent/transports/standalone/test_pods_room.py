"""A pod's folder leaves room for the values with which the runtime creates containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri import host
from nri.agent.model import Pod, Resources, Write
from nri.agent.transports.standalone.pods import with_room
from nri.host.cgroups.hierarchies import detect
from tests.support.host_trees import v1, v2

QUOTA, SHARES = Write("p", "cpu.cfs_quota", "80000", "why"), Write("p", "cpu.shares", "2", "why")
POD = Pod(resources=Resources(cfs_quota=100_000))


def values(writes: list[Write]) -> list[str]:
    return [write.value for write in writes]


def test_on_cgroup_v1_a_pod_keeps_the_quota_for_the_creation_of_its_containers(tmp_path: Path) -> None:
    actual = with_room([QUOTA, SHARES], POD, detect(v1(tmp_path)))
    assert values(actual) == ["100000", "2"]
    assert (
        actual[0].reason == "the quota with which its containers are created; they could not start with a smaller quota"
    )


@pytest.mark.parametrize("value", ["-1", "100000", "120000"])
def test_a_quota_that_leaves_room_is_unchanged(value: str, tmp_path: Path) -> None:
    wider = QUOTA._replace(value=value)
    assert with_room([wider], POD, detect(v1(tmp_path))) == [wider]


@pytest.mark.parametrize("requested", [None, Resources(), Resources(cfs_quota=-1)])
def test_a_pod_without_a_requested_quota_can_get_any_quota(requested: Resources | None, tmp_path: Path) -> None:
    assert with_room([QUOTA], Pod(resources=requested), detect(v1(tmp_path))) == [QUOTA]


def test_on_cgroup_v2_a_container_can_exceed_its_pod(tmp_path: Path) -> None:
    assert with_room([QUOTA], POD, detect(v2(tmp_path))) == [QUOTA]


def test_without_cgroups_a_quota_is_unchanged(tmp_path: Path) -> None:
    assert with_room([QUOTA], POD, detect(host.Root(tmp_path))) == [QUOTA]
