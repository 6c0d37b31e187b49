"""Conversion of changes to NRI messages, and comparison with a runtime's state."""

from __future__ import annotations

import pytest

from nri.agent.model import Changes, Device, Mount, Resctrl, Resources
from nri.agent.transports import translation
from nri.agent.transports.translation import ASKED_QUOTA, requested_resources, requests_from_api
from nri.api import messages as m
from nri.host import Outcome

ALL = Changes(
    {
        "cpu.shares": 512,
        "cpu.cfs_quota": 50_000,
        "cpuset.cpus": "0-1,2",
        "memory.limit": 1 << 20,
        "oom_score_adj": 7,
    },
    resctrl=Resctrl("group"),
    env={"A": "b"},
    mounts=(Mount("/in", "bind", "/out"),),
    devices=(Device("/dev/x", "c", 1, 2, 0o666),),
)


def never(_name: str) -> bool:
    """Whether this machine has a knob on cgroup v2."""
    return False


def adjusted() -> m.Container:
    """A container that has all of `ALL`."""
    message = translation.adjustment(ALL, None, never)
    container = m.Container(env=["A=b", "B"], mounts=message.mounts)
    container.linux.resources.CopyFrom(message.linux.resources)
    container.linux.oom_score_adj.value = 7
    container.linux.devices.add(path="/dev/x", type="c", major=1, minor=2)
    return container


def test_valid_changes_are_unchanged() -> None:
    assert translation.valid_changes(ALL, "folder") == (ALL, [])
    clear = Changes({"cpuset.cpus": ""})
    assert translation.valid_changes(clear, "folder") == (clear, [])


def test_an_invalid_value_is_left_out_with_its_reason() -> None:
    changes, (result,) = translation.valid_changes(Changes({"cpuset.cpus": "x\n", "cpu.shares": 2}), "folder")
    assert changes == Changes({"cpu.shares": 2})
    assert (result.target, result.name, result.outcome) == ("folder", "cpuset.cpus", Outcome.REFUSED)
    assert "not a number or a range" in result.reason


def test_an_update_has_only_resources_and_is_none_without_any() -> None:
    update = translation.update(translation.updatable(ALL, never), "id", never)
    assert update is not None
    assert update.container_id == "id"
    assert (update.linux.resources.cpu.cpus, update.linux.resources.cpu.shares.value) == ("0-1,2", 512)
    assert not update.linux.resources.HasField("rdt_class")
    assert translation.update(translation.updatable(Changes(env={"A": "b"}), never), "id", never) is None
    assert translation.update(Changes({"cpuset.cpus": ""}), "id", never) is None


def test_an_update_leaves_out_values_that_the_runtime_already_has() -> None:
    container = adjusted()
    container.linux.resources.cpu.cpus = "0,1,2"
    assert translation.update(translation.updatable(ALL, never), "id", never, container) is None
    container.linux.resources.cpu.shares.value = 9
    update = translation.update(translation.updatable(ALL, never), "id", never, container)
    assert update is not None
    assert update.linux.resources.cpu.shares.value == 512
    assert not update.linux.resources.HasField("memory")
    container.linux.resources.cpu.cpus = "what"
    second_round = translation.update(translation.updatable(ALL, never), "id", never, container)
    assert second_round is not None
    assert second_round.linux.resources.cpu.cpus == "0-1,2"


def test_values_that_the_runtime_has_are_applied() -> None:
    results = translation.comparison_results(adjusted(), ALL, "folder")
    assert {result.name for result in results} == {
        *("cpu.shares", "cpu.cfs_quota", "cpuset.cpus", "memory.limit"),
        *("env.A", "mount./in", "device./dev/x", "oom_score_adj", "rdt_class"),
    }
    assert {result.outcome for result in results} == {Outcome.APPLIED}


def test_different_and_missing_values_of_the_runtime_are_reported() -> None:
    container = adjusted()
    container.linux.resources.cpu.shares.value = 3
    container.linux.oom_score_adj.value = 8
    del container.env[:]
    results = {
        result.name: result.reason
        for result in translation.comparison_results(container, ALL, "folder")
        if result.reason
    }
    assert results == {
        "cpu.shares": "the runtime has 3",
        "oom_score_adj": "the runtime has 8",
        "env.A": "the runtime lacks this value",
    }


def test_confirmation_covers_only_values_that_a_write_can_set() -> None:
    container = adjusted()
    assert translation.confirmed(container, ALL, never)
    del container.env[:]
    assert translation.confirmed(container, ALL, never), "no write makes a variable"
    container.linux.oom_score_adj.value = 8
    assert not translation.confirmed(container, ALL, never)
    assert not translation.confirmed(m.Container(), Changes({"cpu.shares": 2}), never)


def test_a_knob_unknown_to_nri_is_never_confirmed_and_a_runtime_only_knob_always() -> None:
    assert not translation.confirmed(m.Container(), Changes({"cpu.bvt": 2}), never)
    assert translation.confirmed(m.Container(), Changes({"rdt_class": "gold"}), never)


def test_a_value_out_of_range_is_left_out_with_its_reason() -> None:
    changes, (result,) = translation.valid_changes(Changes({"cpu.cfs_period": 5, "cpu.shares": 2}), "folder")
    assert changes == Changes({"cpu.shares": 2})
    assert (result.name, result.reason) == ("cpu.cfs_period", "5 is not between 1000 and 1000000")


def test_cgroup_v2_files_are_sent_in_unified_and_written_on_other_machines() -> None:
    changes = Changes({"memory.high": 1 << 20, "cpu.shares": 2, "io.read_bps": {"8:0": 1}})
    assert translation.updatable(changes, never).knobs == {"cpu.shares": 2}
    assert set(translation.written_changes(changes, never).knobs) == {"memory.high", "io.read_bps"}
    assert set(translation.updatable(changes, lambda _: True).knobs) == {"memory.high", "cpu.shares"}
    assert set(translation.written_changes(changes, lambda _: True).knobs) == {"io.read_bps"}


def test_values_missing_in_the_runtimes_report_have_no_result() -> None:
    assert (
        translation.comparison_results(
            m.Container(), Changes({"cpu.shares": 2, "cpuset.cpus": "0", "oom_score_adj": 1}), "folder"
        )
        == []
    )


def test_a_scaled_quota_is_sent_with_the_requested_quota() -> None:
    resources = Resources(cfs_quota=100_000)
    assert translation.adjustment(Changes({"cpu.cfs_quota": 50_000}), resources, never).annotations == {
        "agent.nri/cfs-quota": "100000 50000"
    }
    assert not translation.adjustment(Changes({"cpu.cfs_quota": -1}), resources, never).annotations
    assert not translation.adjustment(Changes({"cpu.cfs_quota": 100_000}), resources, never).annotations
    assert not translation.adjustment(Changes({"cpu.cfs_quota": 50_000}), None, never).annotations


def test_an_unlimited_quota_needs_no_annotation() -> None:
    for resources in (None, Resources(), Resources(cfs_quota=-1), Resources(cpu_shares=2)):
        assert requested_resources(m.PodSandbox(), m.Container(), resources) == resources


@pytest.mark.parametrize(
    ("note", "quota"),
    [("200000 50000", 200_000), ("200000 60000", None), ("", None), ("x 50000", None), ("9" * 30 + " 50000", None)],
)
def test_the_annotation_counts_if_the_quota_is_the_scaled_one(note: str, quota: int | None) -> None:
    container = m.Container(annotations={ASKED_QUOTA: note})
    actual = requested_resources(m.PodSandbox(), container, Resources(cfs_quota=50_000, cpu_shares=3))
    assert actual == Resources(cfs_quota=quota, cpu_shares=3)


def test_an_annotation_that_the_pod_also_has_is_ignored_as_a_users() -> None:
    annotations = {ASKED_QUOTA: "9000000 50000"}
    actual = requested_resources(
        m.PodSandbox(annotations=annotations), m.Container(annotations=annotations), Resources(cfs_quota=50_000)
    )
    assert actual == Resources()


def test_requests_come_from_pods_of_the_api_and_unreadable_containers_are_skipped() -> None:
    pods = [
        {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}},
        {"metadata": {"uid": "v"}, "spec": {"containers": [{"name": "a", "resources": 3}, {"name": "b"}]}},
        {},
    ]
    actual = requests_from_api(pods)
    assert actual[("u", "a")].cfs_quota == 200_000
    assert set(actual) == {("u", "a"), ("v", "b")}
