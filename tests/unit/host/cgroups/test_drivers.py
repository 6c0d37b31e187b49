"""Paths of pods and containers under both cgroup drivers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.host import Driver, KubeQos, detect, parse, pod_path, qos_path
from nri.host.cgroups.drivers import ParsedCgroup, container_path, driver_in_use, expand, expand_slice, kube_qos_of
from tests.support import host_trees

UID = "6553a60b-2b97-442a-b6da-a5704d81dd98"
ESCAPED = UID.replace("-", "_")
ID = "413715dc061efe71c16ef989f2f2ff5cf999a7dc905bb7078eda82cbb38210ec"


@pytest.mark.parametrize(
    ("driver", "kube_qos", "qos", "pod"),
    [
        (Driver.CGROUPFS, KubeQos.GUARANTEED, "kubepods", f"kubepods/pod{UID}"),
        (Driver.CGROUPFS, KubeQos.BURSTABLE, "kubepods/burstable", f"kubepods/burstable/pod{UID}"),
        (Driver.CGROUPFS, KubeQos.BEST_EFFORT, "kubepods/besteffort", f"kubepods/besteffort/pod{UID}"),
        (Driver.SYSTEMD, KubeQos.GUARANTEED, "kubepods.slice", f"kubepods.slice/kubepods-pod{ESCAPED}.slice"),
        (
            Driver.SYSTEMD,
            KubeQos.BURSTABLE,
            "kubepods.slice/kubepods-burstable.slice",
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{ESCAPED}.slice",
        ),
        (
            Driver.SYSTEMD,
            KubeQos.BEST_EFFORT,
            "kubepods.slice/kubepods-besteffort.slice",
            f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{ESCAPED}.slice",
        ),
    ],
)
def test_paths_equal_the_kubelets(driver: Driver, kube_qos: KubeQos, qos: str, pod: str) -> None:
    assert qos_path(driver, kube_qos) == qos
    assert pod_path(driver, kube_qos, UID) == pod
    assert parse(pod) == ParsedCgroup(driver, kube_qos, UID)
    assert parse(qos) == ParsedCgroup(driver, kube_qos)
    assert kube_qos_of(pod) is kube_qos


@pytest.mark.parametrize(
    ("scheme", "scope", "runtime"),
    [
        ("docker", "docker-", "docker"),
        ("containerd", "cri-containerd-", "containerd"),
        ("cri-o", "crio-", "cri-o"),
        ("iSulad", "isulad-", "iSulad"),
        ("nri-engine", "nri-", "nri-engine"),
        ("podman", "libpod-", "podman"),
    ],
)
def test_a_container_is_a_folder_or_a_scope_of_its_runtime(scheme: str, scope: str, runtime: str) -> None:
    pod = pod_path(Driver.SYSTEMD, KubeQos.BURSTABLE, UID)
    path = container_path(Driver.SYSTEMD, f"{pod}/", f"{scheme}://{ID}")
    assert path == f"{pod}/{scope}{ID}.scope"
    assert parse(path) == ParsedCgroup(Driver.SYSTEMD, KubeQos.BURSTABLE, UID, ID, runtime)
    folder = f"crio-{ID}" if scheme == "cri-o" else ID
    path = container_path(Driver.CGROUPFS, "kubepods/podx", f"{scheme}://{ID}")
    assert path == f"kubepods/podx/{folder}"
    parsed = parse(path)
    assert parsed is not None and (parsed.container_id, parsed.runtime) == (ID, "cri-o" if scheme == "cri-o" else None)
    assert container_path(Driver.CGROUPFS, "", f"{scheme}://{ID}") == folder


@pytest.mark.parametrize(
    "bad", ["bad-format-id", "", "://x", "rkt://x", "crio://x", "containerd://", "containerd://a/b", "containerd://.."]
)
def test_an_id_without_a_known_runtime_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="container"):
        container_path(Driver.SYSTEMD, "kubepods.slice", bad)


@pytest.mark.parametrize("bad", ["", "a/b", "..", "."])
def test_an_invalid_uid_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="uid of a pod"):
        pod_path(Driver.CGROUPFS, KubeQos.BURSTABLE, bad)


@pytest.mark.parametrize(
    ("path", "parsed"),
    [
        ("/kubepods/besteffort/podx/abc", ParsedCgroup(Driver.CGROUPFS, KubeQos.BEST_EFFORT, "x", "abc")),
        ("kubepods/podx/crio-abc", ParsedCgroup(Driver.CGROUPFS, KubeQos.GUARANTEED, "x", "abc", "cri-o")),
        ("/kubelet/kubepods/burstable/podx", ParsedCgroup(Driver.CGROUPFS, KubeQos.BURSTABLE, "x")),
        (
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-podx_y.slice",
            ParsedCgroup(Driver.SYSTEMD, KubeQos.BEST_EFFORT, "x-y"),
        ),
        (
            "kubepods-pod12345.slice/cri-containerd-c1.scope",
            ParsedCgroup(Driver.SYSTEMD, KubeQos.GUARANTEED, "12345", "c1", "containerd"),
        ),
        ("kubepods.slice/kubepods-podx.slice/abc.scope", ParsedCgroup(Driver.SYSTEMD, KubeQos.GUARANTEED, "x", "abc")),
        ("kubepods.slice/kubepods-podx.slice/abc.service", ParsedCgroup(Driver.SYSTEMD, KubeQos.GUARANTEED, "x")),
        (
            "kubepods.slice/kubepods-podx.slice/crio-conmon-abc.scope",
            ParsedCgroup(Driver.SYSTEMD, KubeQos.GUARANTEED, "x", "conmon-abc", "cri-o"),
        ),
        ("system.slice/sshd.service", None),
        ("", None),
        ("/", None),
        ("podx/abc", None),
    ],
)
def test_a_path_is_parsed(path: str, parsed: ParsedCgroup | None) -> None:
    assert parse(path) == parsed


@pytest.mark.parametrize(
    ("path", "kube_qos"),
    [
        ("kubepods-poduid1.slice", KubeQos.GUARANTEED),
        ("kubepods/besteffort", KubeQos.BEST_EFFORT),
        ("kubepods.slice/kubepods-burstable.slice/x.slice", KubeQos.BURSTABLE),
        ("", KubeQos.GUARANTEED),
        ("kubepods/podburstable", KubeQos.GUARANTEED),
        ("kubepods.slice/kubepods-podbesteffort1.slice", KubeQos.GUARANTEED),
    ],
)
def test_a_path_shows_its_qos_class(path: str, kube_qos: KubeQos) -> None:
    assert kube_qos_of(path) is kube_qos


def test_the_driver_is_detected_by_the_cgroup_of_all_pods(tmp_path: Path) -> None:
    assert driver_in_use(detect(host_trees.v2(tmp_path / "1", "system.slice"))) is None
    assert driver_in_use(detect(host_trees.v2(tmp_path / "2", "kubepods.slice"))) is Driver.SYSTEMD
    assert driver_in_use(detect(host_trees.v1(tmp_path / "3", "kubepods"))) is Driver.CGROUPFS


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (
            f"kubepods-besteffort-pod1.slice:cri-containerd:{ID}",
            f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-{ID}.scope",
        ),
        ("system.slice:docker:x", "system.slice/docker-x.scope"),
        (":docker:x", "system.slice/docker-x.scope"),
        ("a.slice::x", "a.slice/-x.scope"),
        ("/kubepods/podx/abc", "kubepods/podx/abc"),
        ("", ""),
    ],
)
def test_the_cgroup_parent_of_a_request_becomes_a_path(message: str, path: str) -> None:
    assert expand(message) == path


@pytest.mark.parametrize(
    "bad", ["a:b", "a.slice:b:", "a.slice:b:c:d", "a:b:c", "a/b.slice:c:d", "a--b.slice:c:d", "-.slice:c:d"]
)
def test_an_invalid_cgroup_parent_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"SLICE:PREFIX:ID|not a slice"):
        expand(bad)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/kubepods/pod1/", "kubepods/pod1"),
        ("kubepods-burstable-pod1.slice", "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"),
        ("system.slice", "system.slice"),
        ("", ""),
    ],
)
def test_a_slice_is_below_the_slices_of_its_name(name: str, path: str) -> None:
    assert expand_slice(name) == path


def test_a_name_that_only_ends_like_a_slice_is_refused() -> None:
    with pytest.raises(ValueError, match="not a slice"):
        expand_slice("a--b.slice")


@given(st.sampled_from(Driver), st.sampled_from(KubeQos), st.uuids(), st.from_regex(r"[0-9a-f]{8,64}", fullmatch=True))
def test_paths_survive_a_round_trip(driver: Driver, kube_qos: KubeQos, uid: object, container_id: str) -> None:
    path = container_path(driver, pod_path(driver, kube_qos, str(uid)), f"containerd://{container_id}")
    parsed = parse(path)
    assert parsed is not None
    assert parsed[:4] == (driver, kube_qos, str(uid), container_id)


#: Pieces of paths of both drivers, so that what is drawn is nearly right, and now and then is.
_PIECES = st.sampled_from(
    [
        *(
            "/",
            "kubepods",
            "kubepods.slice",
            "kubepods-besteffort.slice",
            "besteffort",
            "burstable",
            "guaranteed",
            ".slice",
        ),
        *(
            "pod01234567-89ab-cdef-0123-456789abcdef",
            "kubepods-besteffort-pod01234567_89ab_cdef_0123_456789abcdef.slice",
        ),
        *("pod", "-", "_", ".scope", "cri-containerd-", "crio-", ":", "0123456789abcdef", "0" * 64, ""),
    ]
)
_ONE_CHANGED = st.tuples(st.integers(0, 200), st.sampled_from("/-_.:kp0"))


@given(
    st.lists(_PIECES, max_size=8).map("/".join) | st.lists(_PIECES, max_size=8).map("".join),
    st.none() | _ONE_CHANGED,
)
def test_an_altered_path_is_parsed_correctly_or_refused(path: str, changed: tuple[int, str] | None) -> None:
    if changed is not None and path:
        place = changed[0] % len(path)
        path = path[:place] + changed[1] + path[place + 1 :]
    parsed = parse(path)
    assert kube_qos_of(path) in KubeQos
    if parsed is None:
        return
    driver, kube_qos, uid, container_id = parsed[:4]
    assert kube_qos is kube_qos_of(path)
    tops = [name for name in path.split("/") if re.fullmatch(r"kubepods|(.*-)?kubepods(-.*)?\.slice", name)]
    assert tops, "only what is below the cgroup of all pods is read"
    assert (driver is Driver.SYSTEMD) == (tops[0] != "kubepods")
    assert uid is None or uid.replace("-", "_") in path.replace("-", "_"), "the pod's uid stands in the path"
    assert container_id is None or (uid is not None and container_id in path), "a container is that of a pod"
