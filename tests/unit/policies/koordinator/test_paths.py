"""Folders of cgroups, of both drivers and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator import paths
from nri.policies.koordinator.names import KUBE_CLASSES

UID = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)


@given(st.sampled_from(KUBE_CLASSES), UID, st.sampled_from([paths.SYSTEMD, paths.CGROUPFS]))
def test_a_pods_folder_tells_its_class_and_uid(kube_class: str, uid: str, driver: str) -> None:
    path = paths.pod_path(kube_class, uid, driver)
    assert paths.kube_class_of(path) == kube_class
    assert paths.pod_id_of(path.rpartition("/")[2], driver) == uid
    assert path.startswith(paths.kube_class_path(kube_class, driver) + "/")


@given(st.sampled_from(["docker", "containerd", "cri-o"]), UID, st.sampled_from([paths.SYSTEMD, paths.CGROUPFS]))
def test_a_containers_folder_tells_its_number(runtime: str, number: str, driver: str) -> None:
    path = paths.container_path("kubepods/podx", f"{runtime}://{number}", driver)
    assert paths.is_container_path(path, driver)
    assert paths.container_id_of(path.rpartition("/")[2], driver) == number


@pytest.mark.parametrize("number", ["", "413715dc", "crio://1", "://1"])
def test_an_id_of_another_form_has_no_folder(number: str) -> None:
    assert paths.container_path("kubepods/podx", number) == ""


def test_a_leading_slash_stays() -> None:
    assert paths.container_path("/kubepods/podx/", "containerd://1") == "/kubepods/podx/cri-containerd-1.scope"


@pytest.mark.parametrize(
    ("application", "path"),
    [
        ({"name": "a", "qos": "LS"}, "host-latency-sensitive/a"),
        ({"name": "a", "qos": "BE"}, "host-best-effort/a"),
        ({"name": "a"}, "a"),
        ({"cgroupPath": {"base": "Kubepods", "parentDir": "p", "relativePath": "r"}}, "kubepods.slice/p/r"),
        ({"cgroupPath": {"base": "CgroupRoot", "relativePath": "r"}}, "r"),
        (None, ""),
    ],
)
def test_a_host_application_is_where_it_says_or_where_its_class_is(application: dict[str, object], path: str) -> None:
    assert paths.host_application_path(application) == path


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
        paths.pod_id_of(folder, driver)


def test_a_container_of_crio_may_lack_the_scope() -> None:
    assert paths.container_id_of("crio-413715dc") == "413715dc"


@pytest.mark.parametrize("folder", ["", "kubepods-pod1.slice", "docker-1", "cri-containerd-1", "runc-1.scope"])
def test_a_folder_that_is_no_containers_has_no_number(folder: str) -> None:
    with pytest.raises(ValueError, match="is no folder of a container"):
        paths.container_id_of(folder)


def test_a_pods_path_is_no_containers() -> None:
    pod = paths.pod_path("Burstable", "1")
    assert not paths.is_container_path(pod)
    assert paths.is_container_path(f"{pod}/cri-containerd-1.scope/")
