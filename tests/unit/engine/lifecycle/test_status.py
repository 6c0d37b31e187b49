"""Records as CRI statuses."""

from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.container_creation import log_path
from nri.engine.lifecycle.inventory import (
    STATES,
    ContainerEntry,
    PodEntry,
    container_status,
    pod_progress,
    pod_status,
    progress,
)
from nri.engine.spec import ImageConfig, stop_signal
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState

METADATA = {"name": "web", "namespace": "n", "uid": "u"}


def container(**more: object) -> ContainerEntry:
    config = {"metadata": {"name": "c"}, "image": {"image": "busybox"}, "log_path": "c/0.log"}
    return ContainerEntry(ContainerRecord("c1", config=config, **more), {})  # type: ignore[arg-type]


@pytest.mark.parametrize("state", PodState)
def test_only_a_ready_pod_has_the_state_ready(state: PodState) -> None:
    status = pod_status(PodEntry(PodRecord("p1", state=state, config={"metadata": METADATA})))
    assert (status.state == pb.SANDBOX_READY) == (state is PodState.READY)


def test_a_pod_has_its_first_address_and_further_addresses() -> None:
    status = pod_status(PodEntry(PodRecord("p1", ips=["10.0.0.1", "fd00::1"], config={"metadata": METADATA})))
    assert status.network.ip == "10.0.0.1"
    assert [row.ip for row in status.network.additional_ips] == ["fd00::1"]
    assert status.metadata.name == "web"
    assert pod_status(PodEntry(PodRecord("p1"))).network.ip == ""


@pytest.mark.parametrize("state", [PodState.STOPPED, PodState.REMOVING])
def test_a_stopped_pod_shows_its_address_only_to_plugins(state: PodState) -> None:
    entry = PodEntry(PodRecord("p1", ips=["10.0.0.1"], state=state))
    assert (pod_status(entry).network.ip, pod_progress(entry).network.ip) == ("", "10.0.0.1")


@pytest.mark.parametrize("requested", ["", "runc"])
def test_clients_see_the_requested_handler_of_a_pod(requested: str) -> None:
    entry = PodEntry(PodRecord("p1", runtime_handler="runc", requested_handler=requested))
    assert (pod_status(entry).runtime_handler, pod_progress(entry).runtime_handler) == (requested, "runc")


def test_every_signal_of_the_cri_is_reported_as_it_was_requested() -> None:
    signals = [pb.Signal.Value(name) for name in pb.Signal.keys()][1:]  # noqa: SIM118  not a mapping
    reported = []
    for signal in signals:
        entry = container(stop_signal=str(stop_signal(pb.ContainerConfig(stop_signal=signal), ImageConfig())))
        entry.config.stop_signal = signal
        reported.append(container_status(entry).stop_signal)
    assert reported == signals


@pytest.mark.parametrize(("image", "signal"), [("", "SIGTERM"), ("SIGQUIT", "SIGQUIT"), ("37", "SIGRTMINPLUS3")])
def test_without_a_request_the_images_stop_signal_or_the_default_is_reported(image: str, signal: str) -> None:
    number = stop_signal(pb.ContainerConfig(), ImageConfig(stop_signal=image))
    status = container_status(container(stop_signal=str(number)))
    assert pb.Signal.Name(status.stop_signal) == f"SIGNAL_{signal}"


def test_every_state_of_a_container_has_a_cri_state() -> None:
    assert set(STATES) == set(ContainerState)
    assert progress(container(state=ContainerState.REMOVING)).state == pb.CONTAINER_EXITED


def test_a_status_has_request_and_result() -> None:
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
def test_a_log_requires_the_pods_folder_and_a_path(folder: str, path: str, actual: str) -> None:
    pod = PodEntry(PodRecord("p1", config={"log_directory": folder}))
    assert log_path(pod, pb.ContainerConfig(log_path=path)) == actual
