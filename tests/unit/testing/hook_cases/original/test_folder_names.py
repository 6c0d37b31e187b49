"""Names of folders, read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator import paths
from nri.policies.koordinator.names import KUBE_CLASSES
from nri.testing.hook_cases.original import folder_names

UID = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)


@given(st.sampled_from(KUBE_CLASSES), UID, st.sampled_from([paths.SYSTEMD, paths.CGROUPFS]))
def test_a_pods_folder_tells_its_uid(kube_class: str, uid: str, driver: str) -> None:
    path = paths.pod_path(kube_class, uid, driver)
    assert folder_names.pod_id_of(path.rpartition("/")[2], driver) == uid


@given(st.sampled_from(["docker", "containerd", "cri-o"]), UID, st.sampled_from([paths.SYSTEMD, paths.CGROUPFS]))
def test_a_containers_folder_tells_its_number(runtime: str, number: str, driver: str) -> None:
    path = paths.container_path("kubepods/podx", f"{runtime}://{number}", driver)
    assert folder_names.is_container_path(path, driver)
    assert folder_names.container_id_of(path.rpartition("/")[2], driver) == number


@pytest.mark.parametrize(
    ("folder", "driver"),
    [
        ("kubepods-burstable.slice", paths.SYSTEMD),
        ("kubepods-pod1.scope", paths.SYSTEMD),
        ("pod1", paths.SYSTEMD),
        ("burstable", paths.CGROUPFS),
        ("kubepods-pod1.slice", paths.CGROUPFS),
    ],
)
def test_a_folder_that_is_no_pods_has_no_uid(folder: str, driver: str) -> None:
    with pytest.raises(ValueError, match="is no folder of a pod"):
        folder_names.pod_id_of(folder, driver)


def test_a_container_of_crio_may_lack_the_scope() -> None:
    assert folder_names.container_id_of("crio-413715dc") == "413715dc"


@pytest.mark.parametrize("folder", ["", "kubepods-pod1.slice", "docker-1", "cri-containerd-1", "runc-1.scope"])
def test_a_folder_that_is_no_containers_has_no_number(folder: str) -> None:
    with pytest.raises(ValueError, match="is no folder of a container"):
        folder_names.container_id_of(folder)


def test_a_pods_path_is_no_containers() -> None:
    pod = paths.pod_path("Burstable", "1")
    assert not folder_names.is_container_path(pod)
    assert folder_names.is_container_path(f"{pod}/cri-containerd-1.scope/")
