"""Folders of cgroups with both drivers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent import cgroup_paths as paths
from nri.agent.cgroup_paths import KUBE_CLASSES

UID = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)


@given(st.sampled_from(KUBE_CLASSES), UID, st.sampled_from([paths.SYSTEMD, paths.CGROUPFS]))
def test_a_pods_folder_contains_its_class(kube_class: str, uid: str, driver: str) -> None:
    path = paths.pod_path(kube_class, uid, driver)
    assert paths.kube_class_of(path) == kube_class
    assert path.rpartition("/")[2].removesuffix(".slice").endswith(f"pod{uid}")
    assert path.startswith(paths.kube_class_path(kube_class, driver) + "/")


@pytest.mark.parametrize(
    ("runtime", "folder"),
    [
        ("docker", "docker-1.scope"),
        ("containerd", "cri-containerd-1.scope"),
        ("cri-o", "crio-1.scope"),
        ("nri-engine", "nri-1.scope"),
    ],
)
def test_a_containers_folder_is_a_scope_of_its_runtime_or_its_id(runtime: str, folder: str) -> None:
    assert paths.container_path("kubepods/podx", f"{runtime}://1") == f"kubepods/podx/{folder}"
    plain = "crio-1" if runtime == "cri-o" else "1"
    assert paths.container_path("kubepods/podx", f"{runtime}://1", paths.CGROUPFS) == f"kubepods/podx/{plain}"


@pytest.mark.parametrize("number", ["", "413715dc", "crio://1", "://1"])
def test_an_invalid_id_has_no_folder(number: str) -> None:
    assert paths.container_path("kubepods/podx", number) == ""


def test_a_pod_with_an_unknown_class_or_an_invalid_uid_has_no_folder() -> None:
    assert paths.pod_path("Important", "u") == paths.pod_path("Burstable", "../..") == ""


def test_a_leading_slash_is_kept() -> None:
    assert paths.container_path("/kubepods/podx/", "containerd://1") == "/kubepods/podx/cri-containerd-1.scope"
