"""Docker's words."""

import pytest

from nri.policies.koordinator.hook_protocol import docker


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
