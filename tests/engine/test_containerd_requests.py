"""Requests that containerd 2.4 accepts, with its outcome, on a real engine with real containers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from tests.engine.live import IMAGE, Live
from tests.engine.machine import Machine
from tests.support.needs import need_tool

Code = grpc.StatusCode


@pytest.fixture(scope="module")
def shared() -> Iterator[Live]:
    machine = Machine()
    try:
        with Live(machine) as live:
            yield live
    finally:
        machine.close()


@pytest.fixture
def live(shared: Live) -> Iterator[Live]:
    yield shared
    shared.remove_all()


def output(live: Live, pod_id: str, *command: str, **more: Any) -> list[str]:
    """The lines that a container of the pod has written when it has ended with the exit code 0."""
    container = live.run(pod_id, "out", command, **more)
    status = live.wait_exited(container)
    lines = [line.split(" ", 3)[3] for line in Path(status.log_path).read_text().splitlines()]
    live.cri.call("RemoveContainer", container_id=container)
    Path(status.log_path).unlink()
    assert status.exit_code == 0, lines
    return lines


def options(**modes: Any) -> pb.LinuxContainerConfig:
    security = pb.LinuxContainerSecurityContext(namespace_options=pb.NamespaceOption(**modes))
    return pb.LinuxContainerConfig(security_context=security)


def namespace_paths(live: Live, pod_id: str) -> dict[str, str]:
    status = live.cri.call("PodSandboxStatus", pod_sandbox_id=pod_id, verbose=True)
    paths: dict[str, str] = json.loads(status.info["info"])["namespaces"]
    return paths


def process_namespace(live: Live, pod_id: str, name: str, mode: pb.NamespaceMode) -> str:
    container = live.run(pod_id, name, linux=options(network=pb.NODE, pid=mode))
    info = live.cri.call("ContainerStatus", container_id=container, verbose=True).info["info"]
    return os.readlink(f"/proc/{json.loads(info)['pid']}/ns/pid")


# --- starts, stops and updates ---


@pytest.mark.parametrize("handler", ["runc", "crun"])
@pytest.mark.parametrize("command", [["nothing"], ["/nothing"], ["/etc"]], ids=" ".join)
def test_a_program_that_does_not_exist_fails_the_start(live: Live, handler: str, command: list[str]) -> None:
    pod_id = live.pod("p", handler)
    container = live.create(pod_id, "c", command)
    assert live.status(container).state == pb.CONTAINER_CREATED
    _, message = live.cri.refused("StartContainer", container_id=container)
    status = live.status(container)
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 128, "StartError")
    assert status.message == message and status.finished_at
    assert command[0] in message or "executable" in message, "crun does not name a folder"
    assert live.cri.refused("StartContainer", container_id=container)[0] is Code.FAILED_PRECONDITION
    live.cri.call("RemoveContainer", container_id=container)


def test_a_container_whose_start_would_fail_is_updated_stopped_and_removed_at_once(live: Live) -> None:
    pod_id = live.pod("p")
    container = live.create(pod_id, "c", ["nothing"])
    linux = pb.LinuxContainerResources(cpu_shares=300)
    live.cri.call("UpdateContainerResources", container_id=container, linux=linux)
    assert live.status(container).resources.linux.cpu_shares == 300
    live.cri.call("StopContainer", container_id=container, timeout=10, timeout_s=5)
    live.cri.call("StopPodSandbox", pod_sandbox_id=pod_id, timeout_s=5)
    live.cri.call("RemovePodSandbox", pod_sandbox_id=pod_id, timeout_s=5)


def test_a_limit_with_which_the_oci_runtime_cannot_work_fails_the_start(live: Live) -> None:
    linux = pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(cpu_quota=10, cpu_period=100_000))
    container = live.create(live.pod("p"), "c", linux=linux)
    _, message = live.cri.refused("StartContainer", container_id=container)
    assert "quota" in message and live.status(container).reason == "StartError"


def test_a_stop_leaves_a_created_container_startable(live: Live) -> None:
    pod_id = live.pod("p")
    container = live.create(pod_id, "c")
    for timeout in (0, 1):
        live.cri.call("StopContainer", container_id=container, timeout=timeout)
    assert live.status(container).state == pb.CONTAINER_CREATED
    live.cri.call("StartContainer", container_id=container)
    assert live.status(container).state == pb.CONTAINER_RUNNING
    waiting = live.create(pod_id, "d")
    live.cri.call("StopPodSandbox", pod_sandbox_id=pod_id)
    assert live.status(waiting).state == pb.CONTAINER_EXITED


def test_the_resources_of_an_ended_container_can_be_updated(live: Live) -> None:
    container = live.run(live.pod("p"), "c")
    live.cri.call("StopContainer", container_id=container)
    linux = pb.LinuxContainerResources(cpu_shares=300)
    live.cri.call("UpdateContainerResources", container_id=container, linux=linux)
    assert live.status(container).resources.linux.cpu_shares == 300


# --- networks ---


def test_a_stopped_pod_has_no_address(live: Live) -> None:
    pod_id = live.pod("p", network=pb.POD)
    assert live.cri.call("PodSandboxStatus", pod_sandbox_id=pod_id).status.network.ip
    live.cri.call("StopPodSandbox", pod_sandbox_id=pod_id)
    status = live.cri.call("PodSandboxStatus", pod_sandbox_id=pod_id).status
    assert status.HasField("network") and not status.network.ip


@pytest.mark.parametrize("file", ["stays", "is removed"])
def test_a_pod_whose_network_namespace_is_unmounted_stops_at_the_first_call(live: Live, file: str) -> None:
    addresses = live.config.network.config_dir / "ipam/pods"
    pod_id = live.pod("p", network=pb.POD)
    container = live.run(pod_id, "c")
    ip = live.cri.call("PodSandboxStatus", pod_sandbox_id=pod_id).status.network.ip
    path = namespace_paths(live, pod_id)["network"]
    subprocess.run([need_tool("umount"), path], check=True, timeout=20)
    if file == "is removed":
        Path(path).unlink()
    assert (addresses / ip).exists()
    live.cri.call("StopPodSandbox", pod_sandbox_id=pod_id)
    assert not (addresses / ip).exists()
    assert live.status(container).state == pb.CONTAINER_EXITED
    live.cri.call("RemovePodSandbox", pod_sandbox_id=pod_id)


@pytest.mark.parametrize("hostname", ["web.example.", "_web", "web-"])
def test_a_host_name_may_end_with_a_dot_or_begin_with_an_underscore(live: Live, hostname: str) -> None:
    pod_id = live.pod("p", network=pb.POD, hostname=hostname)
    assert output(live, pod_id, "cat", "/proc/sys/kernel/hostname", "/etc/hostname") == [hostname, hostname]


def test_the_variable_hostname_of_a_pod_on_the_nodes_network_is_the_nodes_name(live: Live) -> None:
    pod_id = live.pod("p", hostname="web")
    name = Path("/proc/sys/kernel/hostname").read_text().strip()
    assert output(live, pod_id, "sh", "-c", "hostname; echo $HOSTNAME") == [name, name]


# --- namespaces ---


@pytest.mark.parametrize("mode", [pb.POD, pb.CONTAINER, pb.TARGET])
def test_a_container_of_a_pod_on_the_nodes_network_is_on_it_too(live: Live, mode: pb.NamespaceMode) -> None:
    linux = options(network=mode, ipc=mode, pid=pb.CONTAINER)
    assert output(live, live.pod("p"), "cat", "/proc/sys/kernel/hostname", linux=linux) == [
        Path("/proc/sys/kernel/hostname").read_text().strip()
    ]


@pytest.mark.parametrize("mode", [pb.CONTAINER, pb.TARGET])
def test_containers_of_a_pod_may_share_processes_that_the_pod_does_not(live: Live, mode: pb.NamespaceMode) -> None:
    config = live.pod_config("p")
    config.linux.security_context.namespace_options.pid = mode
    pod_id = live.cri.call("RunPodSandbox", config=config).pod_sandbox_id
    modes = {"first": pb.POD, "second": pb.POD, "alone": pb.CONTAINER}
    links = {name: process_namespace(live, pod_id, name, mode_) for name, mode_ in modes.items()}
    assert links["first"] == links["second"] != links["alone"]
    assert links["first"] != os.readlink("/proc/self/ns/pid")


# --- processes, mounts, images ---


def test_keys_of_the_environment_may_contain_an_equals_sign(live: Live) -> None:
    envs = [pb.KeyValue(key="A=B", value=b"c"), pb.KeyValue(key="x.y-z", value=b"1")]
    lines = output(live, live.pod("p"), "env", envs=envs)
    assert {"A=B=c", "x.y-z=1"} <= {*lines}


def test_relative_paths_count_from_the_root_of_the_container(live: Live) -> None:
    folder = live.machine.folder / "shared"
    folder.mkdir()
    (folder / "file").write_text("text\n")
    mount = pb.Mount(container_path="data/in", host_path=str(folder))
    device = pb.Device(container_path="dev/nothing", host_path="/dev/null", permissions="rw")
    words = ["sh", "-c", "pwd; cat file; test -c /dev/nothing && echo device"]
    lines = output(live, live.pod("p"), *words, mounts=[mount], devices=[device], working_dir="data/in")
    assert lines == ["/data/in", "text", "device"]


def test_a_seccomp_profile_may_be_in_a_folder_that_is_linked_into_the_kubelets(live: Live, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}))  # fmt: skip
    link = live.config.containers.seccomp_root / "operator"
    link.symlink_to(tmp_path)
    profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=str(link / "p.json"))
    linux = options(network=pb.NODE, pid=pb.CONTAINER)
    linux.security_context.seccomp.CopyFrom(profile)
    words = ["sh", "-c", "mkdir /tmp/x 2>/dev/null || echo refused"]
    assert output(live, live.pod("p"), *words, linux=linux) == ["refused"]


def test_a_container_made_by_the_id_of_an_image_has_the_images_name(live: Live) -> None:
    identity = live.cri.call("ImageStatus", image=pb.ImageSpec(image=IMAGE)).image.id
    pod_id = live.pod("p")
    for name, image in (
        ("kubelet", pb.ImageSpec(image=identity, user_specified_image=IMAGE)),
        ("id", pb.ImageSpec(image=identity)),
        ("digits", pb.ImageSpec(image=identity.removeprefix("sha256:")[:20])),
    ):
        config = live.container_config(name)
        config.image.CopyFrom(image)
        container = live.cri.call("CreateContainer", pod_sandbox_id=pod_id, config=config).container_id
        assert live.status(container).image.image == IMAGE
        (item,) = live.cri.call("ListContainers", filter={"id": container}).containers
        assert item.image.image == image.image, "lists have the image of the request"
