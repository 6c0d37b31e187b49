"""Every call of the CRI's RuntimeService on a real engine with real pods, and the rules of its answers."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import OciRuntime
from nri.engine.support.errors import CommandFailed
from tests.engine.live import IMAGE, Live
from tests.engine.machine import Machine
from tests.engine.node import V2
from tests.support.cri_client import METHODS, CriClient
from tests.support.needs import need_tool

Code = grpc.StatusCode
NOBODY = "0" * 64


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
    """The engine of all tests of this file, with no pod in it before and after each."""
    yield shared
    shared.remove_all()
    assert not shared.cri.call("ListContainers").containers


@pytest.fixture
def cri(live: Live) -> CriClient:
    return live.cri


# --- the engine itself ---


def test_the_engine_says_what_it_is_and_that_it_is_ready(cri: CriClient) -> None:
    version = cri.call("Version", version="v1")
    assert (version.version, version.runtime_name, version.runtime_api_version) == ("0.1.0", "nri-engine", "v1")
    response = cri.call("Status", verbose=True)
    conditions = {row.type: row for row in response.status.conditions}
    assert conditions["RuntimeReady"].status and conditions["NetworkReady"].status
    assert {row.name for row in response.runtime_handlers} == {"", "runc", "crun"}
    assert response.features.supplemental_groups_policy
    assert json.loads(response.info["config"])["default_runtime"] == "runc"
    assert not cri.call("Status").info


def test_without_a_network_the_engine_is_ready_and_the_network_is_not(live: Live) -> None:
    path = live.config.network.config_dir / "10-net.conflist"
    text = path.read_text()
    path.unlink()
    try:
        rows = {row.type: row for row in live.cri.call("Status").status.conditions}
        assert rows["RuntimeReady"].status and not rows["NetworkReady"].status
        assert rows["NetworkReady"].reason == "NetworkPluginNotReady" and rows["NetworkReady"].message
    finally:
        path.write_text(text)


def test_the_kubelet_learns_who_makes_cgroups_and_tells_its_addresses(cri: CriClient) -> None:
    assert cri.call("RuntimeConfig").linux.cgroup_driver == pb.CGROUPFS
    network = pb.NetworkConfig(pod_cidr="10.1.0.0/24")
    cri.call("UpdateRuntimeConfig", runtime_config=pb.RuntimeConfig(network_config=network))
    assert json.loads(cri.call("Status", verbose=True).info["podCIDR"]) == "10.1.0.0/24"


def test_checkpoints_are_unimplemented(cri: CriClient) -> None:
    for name in ("CheckpointContainer", "CheckpointPod", "RestorePod"):
        assert cri.refused(name)[0] is Code.UNIMPLEMENTED


# --- pods ---


@pytest.mark.parametrize("handler", ["", "runc", "crun"])
def test_a_pod_lives_and_is_told_about(live: Live, handler: str) -> None:
    cri = live.cri
    before = time.time_ns()
    config = live.pod_config("web", network=pb.POD, labels={"app": "web"}, annotations={"note": "é"}, hostname="web-0")
    config.metadata.attempt = 3
    pod_id = cri.call("RunPodSandbox", config=config, runtime_handler=handler).pod_sandbox_id
    response = cri.call("PodSandboxStatus", pod_sandbox_id=pod_id, verbose=True)
    status = response.status
    assert status.id == pod_id and len(pod_id) == 64
    assert (status.metadata, status.state) == (config.metadata, pb.SANDBOX_READY)
    assert before < status.created_at < time.time_ns() and status.created_at <= response.timestamp
    assert (status.labels, status.annotations) == ({"app": "web"}, {"note": "é"})
    assert status.network.ip.startswith("10.231.78.")
    assert status.linux.namespaces.options == config.linux.security_context.namespace_options
    assert status.runtime_handler == handler
    info = json.loads(response.info["info"])
    assert info["config"]["hostname"] == "web-0" and info["runtimeHandler"] == (handler or "runc")
    assert "network" in info["namespaces"] and info["cniResult"]["ips"]
    container = live.run(pod_id, "app", ["sh", "-c", "hostname; exec sleep 1000000"])
    text = live.logs / "web/app.log"
    live.machine.wait_for(lambda: text.exists() and "web-0" in text.read_text(), "the name in the log")
    containers_statuses = cri.call("PodSandboxStatus", pod_sandbox_id=pod_id).containers_statuses
    assert [entry.id for entry in containers_statuses] == [container]
    for _ in range(2):
        cri.call("StopPodSandbox", pod_sandbox_id=pod_id)
    status = cri.call("PodSandboxStatus", pod_sandbox_id=pod_id).status
    assert status.state == pb.SANDBOX_NOTREADY
    assert live.status(container).state == pb.CONTAINER_EXITED
    for _ in range(2):
        cri.call("RemovePodSandbox", pod_sandbox_id=pod_id)
    assert cri.refused("PodSandboxStatus", pod_sandbox_id=pod_id)[0] is Code.NOT_FOUND
    assert cri.refused("ContainerStatus", container_id=container)[0] is Code.NOT_FOUND


def test_a_pod_on_the_nodes_network_has_no_address(live: Live) -> None:
    status = live.cri.call("PodSandboxStatus", pod_sandbox_id=live.pod("node")).status
    assert status.network.ip == "" and status.linux.namespaces.options.network == pb.NODE


def test_the_name_of_a_pod_is_taken_until_the_pod_is_removed(live: Live) -> None:
    config = live.pod_config("one")
    pod_id = live.cri.call("RunPodSandbox", config=config).pod_sandbox_id
    code, text = live.cri.refused("RunPodSandbox", config=config)
    assert code is Code.ALREADY_EXISTS and pod_id in text
    config.metadata.attempt = 1
    second = live.cri.call("RunPodSandbox", config=config).pod_sandbox_id
    config.metadata.attempt = 0
    live.cri.call("RemovePodSandbox", pod_sandbox_id=pod_id)
    assert live.cri.call("RunPodSandbox", config=config).pod_sandbox_id not in (pod_id, second)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": pb.PodSandboxMetadata(uid="u", namespace="n")}, "metadata.name"),
        ({"metadata": pb.PodSandboxMetadata(name="n", namespace="n")}, "metadata.uid"),
        ({"metadata": pb.PodSandboxMetadata(name="n", uid="u")}, "metadata.namespace"),
        ({"linux": pb.LinuxPodSandboxConfig(sysctls={"kernel.panic": "1"})}, "kernel.panic"),
        ({"linux": pb.LinuxPodSandboxConfig(cgroup_parent="/../x")}, "cgroup_parent"),
        ({"linux": pb.LinuxPodSandboxConfig(cgroup_parent="/a\0")}, "config.linux.cgroup_parent"),
        ({"dns_config": pb.DNSConfig(servers=["1.1.1.1\nsearch b"])}, "dns_config.servers[0]"),
        ({"metadata": pb.PodSandboxMetadata(name="n;IP=1", uid="u", namespace="n")}, "metadata.name"),
    ],
)
def test_a_pod_that_cannot_be_is_refused_by_field_and_leaves_nothing(
    live: Live, change: dict[str, object], words: str
) -> None:
    config = live.pod_config("bad")
    for field, value in change.items():
        getattr(config, field).CopyFrom(value)
    code, text = live.cri.refused("RunPodSandbox", config=config)
    assert (code, words in text) == (Code.INVALID_ARGUMENT, True), text
    assert not live.cri.call("ListPodSandbox").items


@pytest.mark.parametrize(
    ("field", "value"),
    [("hostname", "h" * 300), ("hostname", "a\nb"), ("log_directory", "/" + "a" * 300), ("log_directory", "logs")],
)
def test_a_name_or_path_that_the_kernel_has_not_is_refused_by_field(live: Live, field: str, value: str) -> None:
    config = live.pod_config("bad")
    setattr(config, field, value)
    code, text = live.cri.refused("RunPodSandbox", config=config)
    assert (code, text.startswith(field)) == (Code.INVALID_ARGUMENT, True), text
    pod_id = live.pod("good")
    for path in ("/etc/x", "../x", "a" * 300, "a\nb"):
        pod_config = live.container_config("c")
        pod_config.log_path = path
        code, text = live.cri.refused("CreateContainer", pod_sandbox_id=pod_id, config=pod_config)
        assert (code, text.startswith("log_path")) == (Code.INVALID_ARGUMENT, True), text
    assert not live.cri.call("ListContainers").containers


def test_an_unknown_runtime_handler_is_refused_with_those_that_there_are(live: Live) -> None:
    code, text = live.cri.refused("RunPodSandbox", config=live.pod_config("bad"), runtime_handler="kata")
    assert code is Code.INVALID_ARGUMENT and "kata" in text and "runc" in text and "crun" in text


def test_an_oci_runtime_that_is_not_on_this_machine_fails_what_needs_it_and_leaves_nothing(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    program = machine.folder / "late-runc"
    missing = (Code.FAILED_PRECONDITION, f"the program '{program}' is missing")
    with Live(machine, runtimes={"runc": OciRuntime("runc"), "late": OciRuntime(str(program))}) as live:
        code, text = live.cri.refused("RunPodSandbox", config=live.pod_config("p"), runtime_handler="late")
        assert (code, text.partition(":")[0]) == missing
        program.symlink_to(need_tool("runc"))
        pod_id = live.pod("p", "late")
        program.unlink()
        code, text = live.cri.refused("CreateContainer", pod_sandbox_id=pod_id, config=live.container_config("c"))
        assert (code, text.partition(":")[0]) == missing
        assert not live.cri.call("ListContainers").containers and "could not be undone" not in caplog.text
        program.symlink_to(need_tool("runc"))
        live.run(pod_id, "c")


def test_pods_are_listed_by_id_state_and_labels(live: Live) -> None:
    cri = live.cri
    first = live.pod("a", labels={"app": "x", "tier": "1"})
    second = live.pod("b", labels={"app": "x"})
    cri.call("StopPodSandbox", pod_sandbox_id=second)

    def listed(**filters: object) -> list[str]:
        items = cri.call("ListPodSandbox", filter=pb.PodSandboxFilter(**filters)).items  # type: ignore[arg-type]
        streamed = cri.stream("StreamPodSandboxes", filter=pb.PodSandboxFilter(**filters))  # type: ignore[arg-type]
        assert [pod_sandbox for part in streamed for pod_sandbox in part.pod_sandboxes] == list(items)
        return [pod_sandbox.id for pod_sandbox in items]

    assert listed() == [first, second]
    assert listed(id=first) == listed(id=first[:13]) == listed(label_selector={"tier": "1"}) == [first]
    assert listed(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY)) == [first]
    assert listed(state=pb.PodSandboxStateValue(state=pb.SANDBOX_NOTREADY)) == [second]
    assert listed(label_selector={"app": "x"}) == [first, second]
    assert listed(label_selector={"app": "x", "tier": "2"}) == listed(id=NOBODY) == []
    item = cri.call("ListPodSandbox", filter=pb.PodSandboxFilter(id=first)).items[0]
    status = cri.call("PodSandboxStatus", pod_sandbox_id=first[:20]).status
    for field in ("id", "metadata", "state", "created_at", "labels", "annotations", "runtime_handler"):
        assert getattr(item, field) == getattr(status, field), field


def test_a_pod_takes_over_new_resources(live: Live) -> None:
    pod_id = live.pod("sized")
    resources = pb.LinuxContainerResources(cpu_shares=512)
    live.cri.call("UpdatePodSandboxResources", pod_sandbox_id=pod_id, resources=resources)
    info = json.loads(live.cri.call("PodSandboxStatus", pod_sandbox_id=pod_id, verbose=True).info["info"])
    assert info["config"]["linux"]["resources"]["cpuShares"] == "512"
    assert live.cri.refused("UpdatePodSandboxResources", pod_sandbox_id=NOBODY)[0] is Code.NOT_FOUND


# --- containers ---


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_a_container_is_created_started_stopped_and_removed(live: Live, handler: str) -> None:
    cri = live.cri
    before = time.time_ns()
    pod_id = live.pod("p", handler)
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20, cpu_shares=512)
    container = live.create(
        pod_id, "c", labels={"a": "b"}, annotations={"n": "1"}, linux=pb.LinuxContainerConfig(resources=resources)
    )
    created = live.status(container)
    assert (created.state, created.started_at, created.finished_at) == (pb.CONTAINER_CREATED, 0, 0)
    assert before < created.created_at < time.time_ns()
    cri.call("StartContainer", container_id=container)
    response = cri.call("ContainerStatus", container_id=container[:12], verbose=True)
    running, info = response.status, json.loads(response.info["info"])
    assert running.state == pb.CONTAINER_RUNNING and created.created_at <= running.started_at < time.time_ns()
    assert (running.metadata.name, running.labels, running.annotations) == ("c", {"a": "b"}, {"n": "1"})
    assert running.image.image == IMAGE and running.image_id.startswith("sha256:") and "@sha256:" in running.image_ref
    assert running.resources.linux.memory_limit_in_bytes == 64 << 20 and running.resources.linux.cpu_shares == 512
    assert running.log_path == str(live.logs / "p/c.log")
    assert running.user.linux.uid == 0
    assert info["sandboxID"] == pod_id and Path(f"/proc/{info['pid']}").exists()
    assert info["runtimeSpec"]["process"]["args"] == ["sleep", "1000000"]
    for _ in range(2):
        cri.call("StopContainer", container_id=container, timeout=0)
    ended = live.status(container)
    assert (ended.state, ended.exit_code, ended.reason) == (pb.CONTAINER_EXITED, 137, "Error")
    assert running.started_at < ended.finished_at < time.time_ns()
    for _ in range(2):
        cri.call("RemoveContainer", container_id=container)
    assert cri.refused("ContainerStatus", container_id=container)[0] is Code.NOT_FOUND


def test_a_container_that_ends_by_itself_says_how(live: Live) -> None:
    pod_id = live.pod("p")
    good = live.run(pod_id, "good", ["true"])
    bad = live.run(pod_id, "bad", ["sh", "-c", "exit 3"])
    ended = live.wait_exited(good)
    assert (ended.exit_code, ended.reason) == (0, "Completed")
    ended = live.wait_exited(bad)
    assert (ended.exit_code, ended.reason) == (3, "Error")


def test_a_stop_asks_first_and_kills_after_the_timeout(live: Live) -> None:
    pod_id = live.pod("p")
    polite = live.run(pod_id, "polite", ["sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"])
    deaf = live.run(pod_id, "deaf", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
    for log in (live.logs / "p/polite.log", live.logs / "p/deaf.log"):
        live.machine.wait_for(lambda log=log: "ready" in log.read_text(), "its trap")  # type: ignore[misc]
    live.cri.call("StopContainer", container_id=polite, timeout=20)
    assert live.status(polite).exit_code == 7
    began = time.monotonic()
    live.cri.call("StopContainer", container_id=deaf, timeout=1)
    assert live.status(deaf).exit_code == 137 and time.monotonic() - began >= 1


def test_the_name_of_a_container_is_taken_until_it_is_removed(live: Live) -> None:
    pod_id = live.pod("p")
    container = live.create(pod_id, "c")
    code, text = live.cri.refused("CreateContainer", pod_sandbox_id=pod_id, config=live.container_config("c"))
    assert code is Code.ALREADY_EXISTS and container in text
    live.cri.call("RemoveContainer", container_id=container)
    live.create(pod_id, "c")


def test_a_running_container_is_removed_by_force_with_its_pod(live: Live) -> None:
    pod_id = live.pod("p")
    live.cri.call("RemoveContainer", container_id=live.run(pod_id, "one"))
    live.run(pod_id, "two")
    live.cri.call("RemovePodSandbox", pod_sandbox_id=pod_id)
    assert not live.cri.call("ListContainers").containers


@pytest.mark.parametrize(
    ("field", "value", "code", "words"),
    [
        ("metadata", pb.ContainerMetadata(), Code.INVALID_ARGUMENT, "metadata.name"),
        ("image", pb.ImageSpec(), Code.INVALID_ARGUMENT, "config.image.image"),
        ("image", pb.ImageSpec(image="localhost/none:1"), Code.NOT_FOUND, "localhost/none:1"),
        ("mounts", [pb.Mount(container_path="", host_path="/tmp")], Code.INVALID_ARGUMENT, "mounts[0]"),
        ("devices", [pb.Device(host_path="/dev/none", container_path="/dev/x")], Code.INVALID_ARGUMENT, "devices[0]"),
        ("log_path", "../../etc/x", Code.INVALID_ARGUMENT, "log_path"),
    ],
)
def test_a_container_that_cannot_be_is_refused_and_leaves_nothing(
    live: Live, field: str, value: object, code: Code, words: str
) -> None:
    pod_id = live.pod("p")
    config = live.container_config("bad")
    if isinstance(value, list):
        del getattr(config, field)[:]
        getattr(config, field).extend(value)
    elif isinstance(value, str):
        setattr(config, field, value)
    else:
        getattr(config, field).CopyFrom(value)
    got, text = live.cri.refused("CreateContainer", pod_sandbox_id=pod_id, config=config)
    assert (got, words in text) == (code, True), text
    assert not live.cri.call("ListContainers").containers
    live.create(pod_id, "bad")


def test_containers_are_listed_by_id_pod_state_and_labels(live: Live) -> None:
    cri = live.cri
    pod, other = live.pod("a"), live.pod("b")
    first = live.run(pod, "one", labels={"app": "x"})
    second = live.create(pod, "two", labels={"app": "x", "tier": "2"})
    third = live.create(other, "three")

    def listed(**filters: object) -> list[str]:
        containers = cri.call("ListContainers", filter=pb.ContainerFilter(**filters)).containers  # type: ignore[arg-type]
        streamed = cri.stream("StreamContainers", filter=pb.ContainerFilter(**filters))  # type: ignore[arg-type]
        assert [container for part in streamed for container in part.containers] == list(containers)
        return [container.id for container in containers]

    assert listed() == [first, second, third]
    assert listed(id=second) == listed(id=second[:9]) == listed(label_selector={"tier": "2"}) == [second]
    assert listed(pod_sandbox_id=pod) == listed(pod_sandbox_id=pod[:13]) == [first, second]
    assert listed(state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)) == [first]
    assert listed(state=pb.ContainerStateValue(state=pb.CONTAINER_CREATED)) == [second, third]
    assert listed(pod_sandbox_id=pod, state=pb.ContainerStateValue(state=pb.CONTAINER_CREATED)) == [second]
    assert listed(id=third, pod_sandbox_id=pod) == listed(pod_sandbox_id=NOBODY) == []
    item = cri.call("ListContainers", filter=pb.ContainerFilter(id=first)).containers[0]
    status = live.status(first)
    for field in ("id", "metadata", "image", "image_ref", "image_id", "state", "created_at", "labels", "annotations"):
        assert getattr(item, field) == getattr(status, field), field


def test_an_image_is_mounted_and_the_status_says_which(live: Live) -> None:
    mount = pb.Mount(container_path="/m", image=pb.ImageSpec(image=IMAGE), image_sub_path="bin", readonly=True)
    container = live.run(live.pod("p"), "c", mounts=[mount])
    (mount_,) = live.status(container).mounts
    assert mount_.image.image == IMAGE and mount_.image.image_ref == live.status(container).image_id
    words = ["sh", "-c", "/m/busybox echo runs; touch /m/x"]
    reply = live.cri.call("ExecSync", container_id=container, cmd=words)
    assert reply.stdout == b"runs\n" and b"Read-only file system" in reply.stderr
    mount.readonly = False
    config = live.container_config("d", mounts=[mount])
    pod_id = live.cri.call("ListPodSandbox").items[0].id
    code, text = live.cri.refused("CreateContainer", pod_sandbox_id=pod_id, config=config)
    assert code is Code.INVALID_ARGUMENT and "mounts[0].readonly" in text


def test_a_pods_own_seccomp_profile_is_read_from_the_node(live: Live) -> None:
    path = live.machine.folder / "profile.json"
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["sethostname"], "action": "SCMP_ACT_ERRNO"}]}))  # fmt: skip
    config = live.pod_config("p")
    config.linux.security_context.namespace_options.pid = pb.POD
    profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=str(path))
    config.linux.security_context.seccomp.CopyFrom(profile)
    pod_id = live.cri.call("RunPodSandbox", config=config).pod_sandbox_id
    info = json.loads(live.cri.call("PodSandboxStatus", pod_sandbox_id=pod_id, verbose=True).info["info"])
    assert "Seccomp:\t2" in Path(f"/proc/{info['pid']}/status").read_text()
    config.metadata.attempt = 1
    config.linux.security_context.seccomp.localhost_ref = "/etc/hostname"
    code, text = live.cri.refused("RunPodSandbox", config=config)
    assert code is Code.INVALID_ARGUMENT and "localhost_ref" in text and "must be below" in text


def test_resources_change_in_the_cgroup_and_in_the_status(live: Live) -> None:
    container = live.run(live.pod("p"), "c")
    linux_container_resources = pb.LinuxContainerResources(cpu_shares=300, memory_limit_in_bytes=96 << 20)
    live.cri.call("UpdateContainerResources", container_id=container, linux=linux_container_resources)
    proc_status = live.status(container).resources.linux
    assert (proc_status.cpu_shares, proc_status.memory_limit_in_bytes) == (300, 96 << 20)
    files, answer = (
        ("memory/memory.limit_in_bytes cpu/cpu.shares", b"300") if not V2 else ("memory.max cpu.weight", b"12")
    )
    script = f"cd /sys/fs/cgroup && cat {files}"
    reply = live.cri.call("ExecSync", container_id=container, cmd=["sh", "-c", script])
    assert reply.stdout.split() == [str(96 << 20).encode(), answer], reply
    code, _ = live.cri.refused("UpdateContainerResources", container_id=NOBODY, linux=linux_container_resources)
    assert code is Code.NOT_FOUND


def test_a_log_goes_on_in_a_new_file_after_it_was_moved_away(live: Live) -> None:
    container = live.run(live.pod("p"), "c", ["sh", "-c", "while :; do echo tick; sleep 0.05; done"])
    log = live.logs / "p/c.log"
    live.machine.wait_for(lambda: log.exists() and "tick" in log.read_text(), "the first line")
    log.rename(log.with_suffix(".1"))
    live.cri.call("ReopenContainerLog", container_id=container)
    live.machine.wait_for(lambda: log.exists() and "tick" in log.read_text(), "a line in the new file")
    stamp, stream, tag, line = log.read_text().splitlines()[0].split(" ", 3)
    assert (stream, tag, line) == ("stdout", "F", "tick") and stamp[:2] == "20"
    live.cri.call("StopContainer", container_id=container, timeout=0)
    assert live.cri.refused("ReopenContainerLog", container_id=container)[0] is Code.FAILED_PRECONDITION
    assert live.cri.refused("ReopenContainerLog", container_id=NOBODY)[0] is Code.NOT_FOUND


# --- what is not there, or not in a state ---


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("StopPodSandbox", "pod_sandbox_id"), ("RemovePodSandbox", "pod_sandbox_id"),
        ("StopContainer", "container_id"), ("RemoveContainer", "container_id"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("identity", [NOBODY, "", "no-such"])
def test_to_stop_or_remove_what_is_not_there_is_no_error(cri: CriClient, name: str, field: str, identity: str) -> None:
    answer = cri.call(name, **{field: identity})
    assert not answer.ListFields(), "an empty answer, as if it had just been stopped or removed"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("PodSandboxStatus", {"pod_sandbox_id": NOBODY}),
        ("PodSandboxStats", {"pod_sandbox_id": NOBODY}),
        ("PortForward", {"pod_sandbox_id": NOBODY, "port": [80]}),
        ("ContainerStatus", {"container_id": ""}),
        ("ContainerStats", {"container_id": NOBODY}),
        ("StartContainer", {"container_id": NOBODY}),
        ("ExecSync", {"container_id": NOBODY, "cmd": ["true"]}),
        ("Exec", {"container_id": NOBODY, "cmd": ["true"], "stdout": True}),
        ("Attach", {"container_id": NOBODY, "stdout": True}),
    ],
)
def test_what_is_not_there_is_not_found(cri: CriClient, name: str, fields: dict[str, object]) -> None:
    assert cri.refused(name, **fields)[0] is Code.NOT_FOUND


def test_a_container_in_a_pod_that_is_not_there_or_has_stopped_is_refused(live: Live) -> None:
    config = live.container_config("c")
    assert live.cri.refused("CreateContainer", pod_sandbox_id=NOBODY, config=config)[0] is Code.NOT_FOUND
    pod_id = live.pod("p")
    live.cri.call("StopPodSandbox", pod_sandbox_id=pod_id)
    code, text = live.cri.refused("CreateContainer", pod_sandbox_id=pod_id, config=config)
    assert code is Code.FAILED_PRECONDITION and "stopped" in text
    assert live.cri.refused("PortForward", pod_sandbox_id=pod_id, port=[80])[0] is Code.FAILED_PRECONDITION


def test_an_id_that_begins_several_has_to_be_longer(live: Live) -> None:
    pods = [live.pod(f"p{number}") for number in range(17)]  # of 17 ids two begin with the same digit
    first = next(one[0] for one in pods if sum(pod[0] == one[0] for pod in pods) > 1)
    code, text = live.cri.refused("PodSandboxStatus", pod_sandbox_id=first)
    assert code is Code.INVALID_ARGUMENT and "use a longer prefix of the id" in text


def test_what_does_not_run_has_nothing_run_in_it(live: Live) -> None:
    container = live.create(live.pod("p"), "c")
    for name, fields in (("ExecSync", {"cmd": ["true"]}), ("Exec", {"cmd": ["true"], "stdout": True}),
                         ("Attach", {"stdout": True})):  # fmt: skip
        code, text = live.cri.refused(name, container_id=container, **fields)
        assert code is Code.FAILED_PRECONDITION and "created" in text
    live.cri.call("StartContainer", container_id=container)
    assert live.cri.refused("StartContainer", container_id=container)[0] is Code.FAILED_PRECONDITION


# --- programs inside ---


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_a_program_runs_to_its_end_with_its_output_and_code(live: Live, handler: str) -> None:
    container = live.run(live.pod("p", handler), "c")
    script = "echo out; echo err >&2; exit 5"
    reply = live.cri.call("ExecSync", container_id=container, cmd=["sh", "-c", script], timeout=20)
    assert (reply.stdout, reply.stderr, reply.exit_code) == (b"out\n", b"err\n", 5)
    code, text = live.cri.refused("ExecSync", container_id=container, cmd=["/no/such"])
    assert code is Code.UNKNOWN and "/no/such" in text
    assert live.cri.refused("ExecSync", container_id=container)[0] is Code.INVALID_ARGUMENT
    assert live.cri.refused("ExecSync", container_id=container, cmd=["a"], timeout=-1)[0] is Code.INVALID_ARGUMENT


def test_output_is_cut_to_what_a_message_can_hold(live: Live) -> None:
    container = live.run(live.pod("p"), "c")
    script = "head -c 17000000 /dev/zero; head -c 17000000 /dev/zero >&2"
    reply = live.cri.call("ExecSync", container_id=container, cmd=["sh", "-c", script])
    assert 16_000_000 < len(reply.stdout) + len(reply.stderr) < 16 << 20
    assert len(reply.stdout) == len(reply.stderr) and reply.exit_code == 0
    script = "echo short >&2; head -c 17000000 /dev/zero"
    reply = live.cri.call("ExecSync", container_id=container, cmd=["sh", "-c", script])
    assert reply.stderr == b"short\n" and 16_000_000 < len(reply.stdout) < 16 << 20


def test_a_program_that_takes_too_long_is_ended_also_when_its_client_goes(live: Live) -> None:
    container = live.run(live.pod("p"), "c")

    def sleepers() -> bytes:
        stdout: bytes = live.cri.call(
            "ExecSync", container_id=container, cmd=["sh", "-c", "pgrep -f 4321 || true"]
        ).stdout
        return stdout

    code, text = live.cri.refused("ExecSync", container_id=container, cmd=["sleep", "4321"], timeout=1)
    assert code is Code.DEADLINE_EXCEEDED, text
    with pytest.raises(grpc.RpcError):
        live.cri.call("ExecSync", container_id=container, cmd=["sleep", "4321"], timeout_s=1.0)
    live.machine.wait_for(lambda: len(sleepers().split()) <= 1, "the end of both")


def test_a_program_that_was_killed_leaves_no_zombie(live: Live) -> None:
    """The first process of a container seldom waits for strangers."""
    container = live.run(live.pod("p"), "c")
    code, _ = live.cri.refused("ExecSync", container_id=container, cmd=["sleep", "4321"], timeout=1)
    assert code is Code.DEADLINE_EXCEEDED
    words = ["sh", "-c", "cat /proc/[0-9]*/stat"]
    output = live.cri.call("ExecSync", container_id=container, cmd=words).stdout.decode()
    assert " Z " not in output


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_a_quick_program_with_a_terminal_loses_none_of_its_output(live: Live, handler: str) -> None:
    container = live.run(live.pod("p", handler), "c")
    for _ in range(15):
        execution = live.engine.running_containers.exec(container, ["echo", "hello"], tty=True, stdin=True)
        assert execution.stdout is not None
        output = b""
        try:
            while data := os.read(execution.stdout, 4096):
                output += data
        except OSError:
            pass  # how the end of a terminal reads
        code = execution.wait(10)
        execution.close()
        # runc may set its terminals up when the program has written already, and then there is a return too much.
        assert (output.replace(b"\r", b""), code) == (b"hello\n", 0)
    execution = live.engine.running_containers.exec(container, ["/no/such"], tty=True)
    with pytest.raises(CommandFailed, match="/no/such"):
        execution.wait(10)
    execution.close()


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("Exec", {"stdout": True}, "cmd"),
        ("Exec", {"cmd": ["sh"]}, "at least one"),
        ("Exec", {"cmd": ["sh"], "tty": True, "stderr": True}, "terminal"),
        ("Attach", {}, "at least one"),
        ("Attach", {"tty": True, "stderr": True}, "terminal"),
    ],
)
def test_streams_that_cannot_be_are_refused(live: Live, name: str, fields: dict[str, object], words: str) -> None:
    code, text = live.cri.refused(name, container_id=live.run(live.pod("p"), "c"), **fields)
    assert code is Code.INVALID_ARGUMENT and words in text


def test_exec_attach_and_port_forward_give_addresses(live: Live) -> None:
    pod_id = live.pod("p")
    container = live.run(pod_id, "c")
    urls = {
        live.cri.call("Exec", container_id=container[:16], cmd=["sh"], tty=True, stdin=True, stdout=True).url,
        live.cri.call("Exec", container_id=container, cmd=["sh"], stdout=True, stderr=True).url,
        live.cri.call("Attach", container_id=container, stdout=True).url,
        live.cri.call("PortForward", pod_sandbox_id=pod_id, port=[80]).url,
        live.cri.call("PortForward", pod_sandbox_id=pod_id).url,
    }
    assert len(urls) == 5 and all(url.startswith("http://127.0.0.1:") for url in urls)
    for port in (0, 65536, -1):
        assert live.cri.refused("PortForward", pod_sandbox_id=pod_id, port=[port])[0] is Code.INVALID_ARGUMENT


# --- what is used ---


def test_what_is_used_is_told_for_containers_and_pods(live: Live) -> None:
    cri = live.cri
    pod_id = live.pod("p", network=pb.POD, labels={"app": "x"})
    config = pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20))
    script = "dd if=/dev/zero of=/file bs=1k count=300; echo written; while :; do :; done"
    busy = live.run(pod_id, "busy", ["sh", "-c", script], labels={"app": "x"}, linux=config)
    idle = live.create(pod_id, "idle")
    live.machine.wait_for(lambda: "written" in (live.logs / "p/busy.log").read_text(), "all that it writes")

    def used() -> pb.ContainerStats:
        container_stats: pb.ContainerStats = cri.call("ContainerStats", container_id=busy[:20]).stats
        return container_stats

    # A rate takes two readings that are half a second apart.
    live.machine.wait_for(lambda: used().cpu.usage_nano_cores.value > 1_000_000, "a rate of what it uses")
    stats = used()
    assert (stats.attributes.id, stats.attributes.metadata.name) == (busy, "busy")
    assert stats.cpu.usage_core_nano_seconds.value > 0
    assert 0 < stats.memory.working_set_bytes.value <= stats.memory.usage_bytes.value < 64 << 20
    assert stats.memory.available_bytes.value == (64 << 20) - stats.memory.working_set_bytes.value
    assert stats.writable_layer.used_bytes.value >= 300 << 10 and stats.writable_layer.inodes_used.value > 0
    assert abs(stats.cpu.timestamp - time.time_ns()) < 60e9
    listed = cri.call("ListContainerStats").stats
    assert [container_stat.attributes.id for container_stat in listed] == [busy, idle]
    assert not listed[1].HasField("cpu") and listed[1].HasField("writable_layer")
    one = pb.ContainerStatsFilter(label_selector={"app": "x"}, pod_sandbox_id=pod_id[:12])
    assert [container_stat.attributes.id for container_stat in cri.call("ListContainerStats", filter=one).stats] == [
        busy
    ]
    streamed = [
        container_stat for part in cri.stream("StreamContainerStats") for container_stat in part.container_stats
    ]
    assert [container_stat.attributes.id for container_stat in streamed] == [busy, idle]
    pod = cri.call("PodSandboxStats", pod_sandbox_id=pod_id).stats
    assert pod.attributes.metadata.name == "p" and len(pod.linux.containers) == 2
    assert pod.linux.cpu.usage_core_nano_seconds.value >= stats.cpu.usage_core_nano_seconds.value
    assert pod.linux.memory.working_set_bytes.value > 0 and pod.linux.process.process_count.value >= 1
    assert pod.linux.network.default_interface.name == "eth0"
    pod_sandbox_stats_filter = pb.PodSandboxStatsFilter(label_selector={"app": "x"})
    assert len(cri.call("ListPodSandboxStats", filter=pod_sandbox_stats_filter).stats) == 1
    assert not cri.call("ListPodSandboxStats", filter=pb.PodSandboxStatsFilter(id=NOBODY)).stats
    assert (
        len(
            [
                container_stat
                for part in cri.stream("StreamPodSandboxStats")
                for container_stat in part.pod_sandbox_stats
            ]
        )
        == 1
    )


def test_every_metric_has_a_descriptor_and_its_labels(live: Live) -> None:
    cri = live.cri
    pod_id = live.pod("p", network=pb.POD)
    container = live.run(pod_id, "c")
    rows = {row.name: row for row in cri.call("ListMetricDescriptors").descriptors}
    assert all(row.help for row in rows.values())
    (pod,) = cri.call("ListPodSandboxMetrics").pod_metrics
    assert pod.pod_sandbox_id == pod_id
    (of_container,) = pod.container_metrics
    assert of_container.container_id == container
    for metric in [*pod.metrics, *of_container.metrics]:
        assert len(metric.label_values) == len(rows[metric.name].label_keys), metric.name
        assert metric.timestamp > 0
    assert {row.name for row in [*pod.metrics, *of_container.metrics]} >= {
        "container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_start_time_seconds",
        "container_network_receive_bytes_total", "container_network_receive_packets_total", "container_fs_usage_bytes",
        "container_threads", "container_memory_cache", "container_cpu_user_seconds_total", "container_file_descriptors",
        "container_memory_failures_total", "container_oom_events_total", "container_spec_cpu_shares",
        "container_spec_cpu_quota", "container_spec_memory_reservation_limit_bytes", "container_ulimits_soft",
        "container_memory_total_active_file_bytes", "container_memory_total_inactive_file_bytes",
    }  # fmt: skip
    stats = cri.call("PodSandboxStats", pod_sandbox_id=pod_id).stats.linux
    assert stats.cpu.HasField("usage_nano_cores"), "the average since the start, in the first sample"
    assert stats.containers[0].cpu.HasField("usage_nano_cores")
    labels = dict(zip(rows["container_processes"].label_keys, of_container.metrics[0].label_values, strict=True))
    assert (labels["container"], labels["pod"], labels["namespace"], labels["id"]) == ("c", "p", "tests", container)
    (streamed,) = [
        pod_sandbox_metric
        for part in cri.stream("StreamPodSandboxMetrics")
        for pod_sandbox_metric in part.pod_sandbox_metrics
    ]
    assert streamed.pod_sandbox_id == pod_id


# --- events ---


def test_what_happens_is_told_to_those_who_listen(live: Live) -> None:
    stream = live.cri.stream("GetContainerEvents", timeout_s=60)
    events: list[pb.ContainerEventResponse] = []
    reader = threading.Thread(target=lambda: _collect(stream, events))
    reader.start()
    live.machine.wait_for(lambda: _listeners(live) == 1, "the listener")
    pod_id = live.pod("p")
    container = live.run(pod_id, "c", ["true"])
    live.wait_exited(container)
    live.cri.call("RemoveContainer", container_id=container)
    live.cri.call("RemovePodSandbox", pod_sandbox_id=pod_id)
    deleted = (pod_id, pb.CONTAINER_DELETED_EVENT)
    live.machine.wait_for(
        lambda: deleted in [(row.container_id, row.container_event_type) for row in events], "the end"
    )
    stream.cancel()
    reader.join(20)
    container_event_types = [row.container_event_type for row in events if row.container_id == container]
    assert container_event_types == [
        pb.CONTAINER_CREATED_EVENT, pb.CONTAINER_STARTED_EVENT, pb.CONTAINER_STOPPED_EVENT, pb.CONTAINER_DELETED_EVENT,
    ]  # fmt: skip
    first = next(row for row in events if row.container_id == container)
    assert first.pod_sandbox_status.id == pod_id and first.containers_statuses[0].id == container
    assert abs(first.created_at - time.time_ns()) < 60e9


def _collect(stream: Iterator[pb.ContainerEventResponse], events: list[pb.ContainerEventResponse]) -> None:
    try:
        events.extend(iter(stream))
    except grpc.RpcError as error:
        assert error.code() is Code.CANCELLED
        return


def test_so_many_may_listen_and_no_more_and_places_come_free(live: Live) -> None:
    live.machine.wait_for(lambda: _listeners(live) == 0, "the end of earlier listeners")
    streams = [live.cri.stream("GetContainerEvents") for _ in range(32)]
    live.machine.wait_for(lambda: _listeners(live) == 32, "32 listeners")
    assert live.cri.refused("GetContainerEvents")[0] is Code.RESOURCE_EXHAUSTED
    pod_id = live.pod("p")
    assert [next(stream).container_id for stream in streams] == [pod_id] * 32
    for stream in streams:
        stream.cancel()
    live.machine.wait_for(lambda: _listeners(live) == 0, "their end")
    another = live.cri.stream("GetContainerEvents")
    live.machine.wait_for(lambda: _listeners(live) == 1, "a free place")
    another.cancel()


def _listeners(live: Live) -> int:
    return len(live.engine.events._listeners)


def test_every_call_is_driven_by_these_tests(shared: Live) -> None:
    images = {name for name, method in METHODS.items() if method.containing_service.name == "ImageService"}
    assert set(METHODS) - images - shared.cri.called == set()
