"""Records in the words of the CRI."""

from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.container_creation import log_path
from nri.engine.lifecycle.inventory import STATES, ContainerEntry, PodEntry, container_status, pod_status, progress
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState

METADATA = {"name": "web", "namespace": "n", "uid": "u"}


def container(**more: object) -> ContainerEntry:
    config = {"metadata": {"name": "c"}, "image": {"image": "busybox"}, "log_path": "c/0.log"}
    return ContainerEntry(ContainerRecord("c1", config=config, **more), {})  # type: ignore[arg-type]


@pytest.mark.parametrize("state", PodState)
def test_only_a_ready_pod_is_ready(state: PodState) -> None:
    status = pod_status(PodEntry(PodRecord("p1", state=state, config={"metadata": METADATA})))
    assert (status.state == pb.SANDBOX_READY) == (state is PodState.READY)


def test_a_pod_has_its_first_address_and_the_others_beside() -> None:
    status = pod_status(PodEntry(PodRecord("p1", ips=["10.0.0.1", "fd00::1"], config={"metadata": METADATA})))
    assert status.network.ip == "10.0.0.1"
    assert [row.ip for row in status.network.additional_ips] == ["fd00::1"]
    assert status.metadata.name == "web"
    assert pod_status(PodEntry(PodRecord("p1"))).network.ip == ""


def test_every_state_of_a_container_has_its_word() -> None:
    assert set(STATES) == set(ContainerState)
    assert progress(container(state=ContainerState.REMOVING)).state == pb.CONTAINER_EXITED


def test_a_status_has_what_was_asked_for_and_what_came_of_it() -> None:
    entry = container(
        state=ContainerState.EXITED, exit_code=137, reason="OOMKilled", image="docker.io/library/busybox:latest",
        image_ref="sha256:a", log_path="/logs/c/0.log", resources={"cpu_shares": "7", "newer": 1},
        mounts=[{"container_path": "/a", "newer": {}}], user={"uid": "5"},
    )  # fmt: skip
    status = container_status(entry)
    assert (status.exit_code, status.reason, status.log_path) == (137, "OOMKilled", "/logs/c/0.log")
    assert (status.image.image, status.image_ref) == ("docker.io/library/busybox:latest", "sha256:a")
    assert (status.resources.linux.cpu_shares, status.user.linux.uid) == (7, 5)
    assert [mount.container_path for mount in status.mounts] == ["/a"]
    assert progress(entry).exit_code == 137
    assert not progress(entry).mounts


@pytest.mark.parametrize(("folder", "path", "actual"), [("/l", "c", "/l/c"), ("", "c", ""), ("/l", "", "")])
def test_a_log_needs_the_pods_folder_and_its_own_path(folder: str, path: str, actual: str) -> None:
    pod = PodEntry(PodRecord("p1", config={"log_directory": folder}))
    assert log_path(pod, pb.ContainerConfig(log_path=path)) == actual
