"""Docker's words."""

import pytest

from nri.testing.hook_cases.original import docker


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


def test_no_configuration_has_no_resources() -> None:
    assert docker.resources_of(None) is None
    assert docker.resources_of({}) == {}


def test_all_words_of_a_configuration_have_their_name_in_the_protocol() -> None:
    config: dict[str, int | str] = {"CpuPeriod": 1, "CpuQuota": -1, "CpuShares": 3, "Memory": 4, "MemorySwap": 5}
    config |= {"CpusetCpus": "0-1", "CpusetMems": "0", "OomScoreAdj": -8}
    assert docker.resources_of(config) == {
        "cpu_period": 1,
        "cpu_quota": -1,
        "cpu_shares": 3,
        "memory_limit_in_bytes": 4,
        "memory_swap_limit_in_bytes": 5,
        "cpuset_cpus": "0-1",
        "cpuset_mems": "0",
        "oom_score_adj": -8,
    }


def test_a_response_without_resources_leaves_the_configuration_as_it_is() -> None:
    for after in (docker.host_config_after, docker.update_config_after):
        assert after({"CpuShares": 20}, None) == {"CpuShares": 20}


def test_resources_make_no_configuration_where_there_is_none() -> None:
    for after in (docker.host_config_after, docker.update_config_after):
        assert after(None, {"cpu_shares": 20}) is None


def test_cpus_that_a_response_does_not_name_are_cleared_in_the_configuration() -> None:
    after = docker.update_config_after({"CpusetCpus": "0-3", "CpusetMems": "0"}, {"cpuset_mems": "1"})
    assert after is not None
    assert (after["CpusetCpus"], after["CpusetMems"]) == ("", "1")


def test_an_update_without_configuration_keeps_the_stored_resources() -> None:
    assert docker.resources_after_update({"cpu_shares": 20}, None) == {"cpu_shares": 20}


def test_an_update_of_a_container_without_stored_resources_stores_none() -> None:
    assert docker.resources_after_update(None, {"CpuShares": 20}) is None


def test_an_update_takes_cpus_and_never_the_oom_score() -> None:
    stored = {"cpuset_cpus": "0-3", "oom_score_adj": 10}
    after = docker.resources_after_update(stored, {"CpusetCpus": "4", "OomScoreAdj": 20})
    assert after == {"cpuset_cpus": "4", "oom_score_adj": 10}
