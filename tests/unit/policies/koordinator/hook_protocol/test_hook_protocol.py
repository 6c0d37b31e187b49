"""Koordinator's hook protocol: merges, requests, turns, and Docker's words."""

import pytest

from nri.policies.koordinator.hook_protocol import dispatch, docker, merge, requests
from nri.policies.koordinator.hook_protocol.dispatch import HookServer


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


def test_requests_are_made_of_what_the_cri_says_and_of_what_is_stored() -> None:
    pod = requests.pod_of_run(
        {
            "runtime_handler": "runc",
            "config": {
                "metadata": {"name": "n", "uid": "u", "namespace": "ns", "attempt": 1},
                "labels": {"l": "1"},
                "linux": {"cgroup_parent": "/p"},
            },
        }
    )
    assert pod == {
        "pod_meta": {"name": "n", "uid": "u", "namespace": "ns"},
        "runtime_handler": "runc",
        "labels": {"l": "1"},
        "cgroup_parent": "/p",
    }
    container = requests.container_of_create(
        {"config": {"metadata": {"name": "c"}, "envs": [{"key": "A", "value": b"1"}]}}, pod
    )
    assert container["container_envs"] == {"A": "1"}
    assert container["pod_labels"] == {"l": "1"}
    updated = requests.container_of_update({"linux": {"cpu_shares": 5}}, {"container_resources": {"cpu_shares": 2}})
    assert updated["container_resources"]["cpu_shares"] == 5


def test_pods_with_the_label_are_skipped() -> None:
    assert requests.skipped({"runtimeproxy.koordinator.sh/skip-hookserver": "true"})
    assert not requests.skipped({"runtimeproxy.koordinator.sh/skip-hookserver": "false"})
    assert not requests.skipped(None)


FIRST = HookServer("one", ("PostStopContainer", "PreStartContainer"), "Fail")
SECOND = HookServer("two", ("PreStartContainer",), "Ignore")


def test_the_first_server_that_lists_the_stage_is_asked() -> None:
    assert dispatch.chosen([FIRST, SECOND], "StartContainer") == (FIRST, "PreStartContainer")
    assert dispatch.chosen([FIRST, SECOND], "StartContainer", unreachable=["one"]) == (SECOND, "PreStartContainer")
    assert dispatch.chosen([FIRST, SECOND], "StopContainer", dispatch.POST) == (FIRST, "PostStopContainer")
    assert dispatch.chosen([FIRST, SECOND], "StopContainer") is None
    assert dispatch.chosen([HookServer("x", ("PreRemoveRunPodSandbox",))], "RunPodSandbox") is None


def test_dockers_folder_is_the_last_slice_and_the_cris_all_of_them() -> None:
    full = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice"
    assert docker.expected_parent("systemd", full) == "kubepods-besteffort-pod1.slice"
    assert docker.cri_path("systemd", "kubepods-besteffort-pod1.slice") == full
    assert docker.expected_parent("cgroupfs", "/kubepods/pod1") == "/kubepods/pod1"
    assert docker.cri_path("cgroupfs", "/kubepods/pod1") == "/kubepods/pod1"


def test_dockers_configurations_take_all_resources() -> None:
    after = docker.host_config_after({"CpuShares": 20, "Other": 1}, {"cpu_quota": 5, "oom_score_adj": 7})
    assert after is not None
    assert (after["CpuShares"], after["CpuQuota"], after["OomScoreAdj"], after["Other"]) == (0, 5, 7, 1)
    assert "OomScoreAdj" not in (docker.update_config_after({}, {"oom_score_adj": 7}) or {})
    assert docker.resources_of({"Memory": 5, "CpusetCpus": ""}) == {"memory_limit_in_bytes": 5}
    assert docker.resources_after_update({"cpu_quota": 1}, {"CpuQuota": -1, "Memory": 4}) == {
        "cpu_quota": 1,
        "memory_limit_in_bytes": 4,
    }


def test_dockers_lists_become_maps() -> None:
    assert docker.env_map(["A=1=2", "B", "C="]) == {"A": "1=2", "C": ""}
    assert docker.env_list({"B": "2", "A": "1"}) == ["A=1", "B=2"]
    assert docker.labels_and_annotations({"annotation.a": "1", "l": "2"}) == ({"l": "2"}, {"a": "1"})
    assert docker.container_id_of_url("/1.3/containers/abc/start") == "abc"
    with pytest.raises(ValueError, match="names no container"):
        docker.container_id_of_url("start")
