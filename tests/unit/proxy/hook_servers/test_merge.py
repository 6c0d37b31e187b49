"""The changes of a hook server's response."""

import pytest

from nri.proxy.hook_servers import merge


def test_a_response_clears_missing_cpus_and_keeps_values_for_zeros() -> None:
    actual = {"cpu_shares": 500, "cpu_quota": 5, "cpuset_cpus": "0-3", "oom_score_adj": 10, "unified": {"a": "1"}}
    after = merge.resources_after_response(actual, {"cpu_quota": -1, "unified": {"b": "2"}})
    assert after == {
        "cpu_shares": 500,
        "cpu_quota": -1,
        "cpuset_cpus": "",
        "cpuset_mems": "",
        "oom_score_adj": 0,
        "unified": {"a": "1", "b": "2"},
    }
    assert merge.resources_after_response(None, {"cpu_quota": -1}) is None
    assert merge.resources_after_response(actual, None) == actual


def test_an_update_keeps_missing_cpus_and_the_oom_score() -> None:
    actual = {"cpuset_cpus": "0-3", "oom_score_adj": 10}
    after = merge.resources_after_update(actual, {"oom_score_adj": 20, "memory_limit_in_bytes": -1})
    assert after == {"cpuset_cpus": "0-3", "oom_score_adj": 10, "unified": {}}


def test_a_response_replaces_the_whole_environment() -> None:
    after = merge.container_after_response({"container_envs": {"A": "1"}}, {"container_envs": {"B": "2"}})
    assert after["container_envs"] == {"B": "2"}
    assert merge.container_after_response({"container_envs": {"A": "1"}}, {})["container_envs"] == {"A": "1"}
    assert merge.pod_after_response({"cgroup_parent": "a"}, {"cgroup_parent": ""})["cgroup_parent"] == "a"


@pytest.mark.parametrize(("original", "after"), [(-1001, 10), (-1000, -1000), (0, 0), (1000, 1000), (1001, 10)])
def test_an_oom_score_out_of_range_is_ignored(original: int, after: int) -> None:
    actual = merge.resources_after_response({"oom_score_adj": 10}, {"oom_score_adj": original})
    assert actual is not None
    assert actual["oom_score_adj"] == after


@pytest.mark.parametrize("name", ["cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes"])
def test_some_values_of_a_response_count_only_above_zero(name: str) -> None:
    for original, after in ((7, 7), (0, 5), (-1, 5)):
        actual = merge.resources_after_response({name: 5}, {name: original})
        assert actual is not None
        assert actual[name] == after


def test_an_update_needs_both_sides_to_change_something() -> None:
    assert merge.resources_after_update(None, {"cpu_shares": 5}) is None
    assert merge.resources_after_update({"cpu_shares": 5}, None) == {"cpu_shares": 5}


def test_an_update_sets_given_cpus() -> None:
    after = merge.resources_after_update({"cpuset_cpus": "0-3", "cpuset_mems": "0"}, {"cpuset_cpus": "4"})
    assert after == {"cpuset_cpus": "4", "cpuset_mems": "0", "unified": {}}


def test_a_cgroup_parent_of_a_response_replaces_the_pods() -> None:
    assert merge.pod_after_response({"cgroup_parent": "a"}, {"cgroup_parent": "b"})["cgroup_parent"] == "b"


def test_a_cgroup_parent_of_a_response_replaces_the_containers_pods() -> None:
    container = {"pod_cgroup_parent": "a"}
    assert merge.container_after_response(container, {"pod_cgroup_parent": "b"})["pod_cgroup_parent"] == "b"
    assert merge.container_after_response(container, {"pod_cgroup_parent": ""})["pod_cgroup_parent"] == "a"


def test_annotations_and_labels_of_a_response_override_the_pods() -> None:
    pod = {"labels": {"a": "1", "b": "1"}}
    after = merge.pod_after_response(pod, {"labels": {"b": "2"}, "annotations": {"c": "3"}})
    assert after["labels"] == {"a": "1", "b": "2"}
    assert after["annotations"] == {"c": "3"}
    assert pod == {"labels": {"a": "1", "b": "1"}}
