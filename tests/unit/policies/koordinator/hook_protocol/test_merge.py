"""What a response changes."""

from nri.policies.koordinator.hook_protocol import merge


def test_a_response_clears_cpus_that_it_does_not_name_and_keeps_what_is_zero() -> None:
    ours = {"cpu_shares": 500, "cpu_quota": 5, "cpuset_cpus": "0-3", "oom_score_adj": 10, "unified": {"a": "1"}}
    after = merge.resources_after_response(ours, {"cpu_quota": -1, "unified": {"b": "2"}})
    assert after == {
        "cpu_shares": 500,
        "cpu_quota": -1,
        "cpuset_cpus": "",
        "cpuset_mems": "",
        "oom_score_adj": 0,
        "unified": {"a": "1", "b": "2"},
    }
    assert merge.resources_after_response(None, {"cpu_quota": -1}) is None
    assert merge.resources_after_response(ours, None) == ours


def test_an_update_keeps_cpus_that_it_does_not_name_and_the_oom_score() -> None:
    ours = {"cpuset_cpus": "0-3", "oom_score_adj": 10}
    after = merge.resources_after_update(ours, {"oom_score_adj": 20, "memory_limit_in_bytes": -1})
    assert after == {"cpuset_cpus": "0-3", "oom_score_adj": 10, "unified": {}}


def test_a_response_replaces_the_whole_environment() -> None:
    after = merge.container_after_response({"container_envs": {"A": "1"}}, {"container_envs": {"B": "2"}})
    assert after["container_envs"] == {"B": "2"}
    assert merge.container_after_response({"container_envs": {"A": "1"}}, {})["container_envs"] == {"A": "1"}
    assert merge.pod_after_response({"cgroup_parent": "a"}, {"cgroup_parent": ""})["cgroup_parent"] == "a"
