"""The lifecycle of pods from request to removal, with a fake runtime."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.config import Source
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError
from nri.host.cgroups import Driver
from nri.pods import lifecycle
from nri.pods.requests import Node, PodRequest, read_pods
from nri.service.interruption import SignalStop, Stopped
from nri.ttrpc.codes import Code
from tests.support.needs import need_root


class Runtime:
    """Answers calls out of `answers`, or with next to nothing; `calls` has the names of those that change something."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.requests: list[Any] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}

    def call(self, method: str, request: Any, timeout_s: float | None = None) -> Any:
        if not method.endswith("Status"):
            self.calls.append(method)
            self.requests.append(request)
        if method in self.answers:
            return self.answers[method](request)
        if method == "ImageStatus":
            return pb.ImageStatusResponse(image=pb.Image(id="i", username="root"))
        if method == "RunPodSandbox":
            return pb.RunPodSandboxResponse(pod_sandbox_id="p")
        return getattr(pb, f"{method}Response")()


def refuse(code: int, text: str) -> Callable[[Any], Any]:
    def answer(_: Any) -> Any:
        raise RpcError(code, text)

    return answer


def pod(folder: Path, container: str = "", spec: str = "") -> PodRequest:
    text = f'kind: Pod\nmetadata: {{name: web}}\nspec:\n{spec}  containers: [{{name: app, image: "b:1", {container}}}]'
    return read_pods(Source("f", text), Node("n", str(folder)))[0]


def run(runtime: Runtime, request: PodRequest, init_s: float = 5.0) -> list[str]:
    lines: list[str] = []
    lifecycle.run(runtime, request, lines.append, init_s)  # type: ignore[arg-type]
    return lines


def test_images_are_pulled_first_and_the_address_is_known_before_containers(tmp_path: Path) -> None:
    runtime = Runtime()
    runtime.answers["PodSandboxStatus"] = lambda _: pb.PodSandboxStatusResponse(
        status=pb.PodSandboxStatus(network=pb.PodSandboxNetworkStatus(ip="10.0.0.7"))
    )
    env = "imagePullPolicy: Always, env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]"
    assert run(runtime, pod(tmp_path, env)) == ["pulling b:1"]
    assert runtime.calls == ["PullImage", "RunPodSandbox", "CreateContainer", "StartContainer"]
    assert runtime.requests[2].config.envs[0].value == b"10.0.0.7"


@pytest.mark.parametrize(
    ("container", "answers", "error"),
    [
        ("imagePullPolicy: Never", {"ImageStatus": lambda _: pb.ImageStatusResponse()}, "imagePullPolicy is Never"),
        (
            "imagePullPolicy: Always",
            {"PullImage": refuse(5, "no such image")},
            "f:4: container app: image b:1: .*no such",
        ),
        ("securityContext: {runAsNonRoot: true}", {}, "b:1 runs as root; set runAsUser"),
        ("", {"RunPodSandbox": refuse(2, "no network")}, "no network"),
        ("", {"CreateContainer": refuse(4, "a plugin refuses")}, "f:4: container app: .*a plugin refuses"),
        ("", {"StartContainer": refuse(2, "no program")}, "f:4: container app: .*no program"),
    ],
)
def test_a_failed_pod_is_removed(
    tmp_path: Path, container: str, answers: dict[str, Callable[[Any], Any]], error: str
) -> None:
    runtime = Runtime()
    runtime.answers = answers
    with pytest.raises(NriError, match=f"{error}.*. Pod default/web was removed"):
        run(runtime, pod(tmp_path, container))
    if "CreateContainer" in runtime.calls:
        assert runtime.calls[-2:] == ["StopPodSandbox", "RemovePodSandbox"]
    assert [*tmp_path.iterdir()] == []


def test_a_failed_run_keeps_the_existing_pod_with_the_same_uid(tmp_path: Path) -> None:
    winner, loser = Runtime(), Runtime()
    first, second = pod(tmp_path), pod(tmp_path)
    second.config.log_directory = first.config.log_directory
    run(winner, first)
    with pytest.raises(NriError, match="pod default/web: pod default/web already has the uid"):
        run(loser, second)
    assert loser.calls == [] and (Path(first.config.log_directory)).is_dir()


def test_a_folder_that_cannot_be_created_is_an_error_with_its_path(tmp_path: Path) -> None:
    request = pod(tmp_path)
    request.config.log_directory = f"{tmp_path}/{'u' * 300}/logs"
    with pytest.raises(NriError, match=f"pod default/web: {tmp_path}/uuu.*: File name too long"):
        run(Runtime(), request)
    assert [*tmp_path.iterdir()] == []


def test_a_failed_pod_that_cannot_be_removed_is_named_with_a_fix(tmp_path: Path) -> None:
    runtime = Runtime()
    runtime.answers = {"CreateContainer": refuse(2, "no"), "RemovePodSandbox": refuse(2, "busy")}
    with pytest.raises(NriError, match=r"could not be removed: .*busy.*. Try: nri pod rm -f default/web"):
        run(runtime, pod(tmp_path))


def test_a_signal_while_the_sandbox_is_created_removes_the_pod(tmp_path: Path) -> None:
    def create(_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return pb.RunPodSandboxResponse(pod_sandbox_id="p")

    runtime = Runtime()
    runtime.answers["RunPodSandbox"] = create
    with SignalStop() as stop, pytest.raises(Stopped):
        lifecycle.run(runtime, pod(tmp_path), lambda _: None, hold_signals=stop.held)  # type: ignore[arg-type]
    assert runtime.calls[-2:] == ["StopPodSandbox", "RemovePodSandbox"]
    assert runtime.requests[-1].pod_sandbox_id == "p"
    assert [*tmp_path.iterdir()] == []


def test_a_removal_that_was_killed_can_be_repeated(
    tmp_path: Path,
) -> None:
    runtime, request = Runtime(), pod(tmp_path)
    run(runtime, request)
    sandbox = pb.PodSandbox(id="p", metadata=request.config.metadata)
    runtime.answers["StopPodSandbox"] = refuse(13, "a process does not end")
    with pytest.raises(NriError, match="a process does not end"):
        lifecycle.remove(runtime, sandbox, str(tmp_path))  # type: ignore[arg-type]
    assert len([*tmp_path.iterdir()]) == 1
    runtime.answers = {"RemovePodSandbox": refuse(13, "killed here")}
    with pytest.raises(NriError, match="killed here"):
        lifecycle.remove(runtime, sandbox, str(tmp_path))  # type: ignore[arg-type]
    assert [*tmp_path.iterdir()] == []


def test_sub_paths_of_volumes_are_bound_at_the_creation_of_their_container(tmp_path: Path) -> None:
    need_root()
    volumes = "  volumes: [{name: v, emptyDir: {}}]\n"
    local_pod = pod(tmp_path, "volumeMounts: [{name: v, mountPath: /a, subPath: x}]", volumes)
    (part,) = local_pod.containers[0].sub_paths
    runtime = Runtime()

    def create(request: Any) -> Any:
        assert request.config.mounts[0].host_path == part.target
        assert Path(part.target).stat().st_ino == (Path(part.volume) / "x").stat().st_ino
        return pb.CreateContainerResponse()

    runtime.answers["CreateContainer"] = create
    run(runtime, local_pod)
    sandbox = pb.PodSandbox(id="p", metadata=local_pod.config.metadata)
    lifecycle.remove(runtime, sandbox, str(tmp_path))  # type: ignore[arg-type]
    assert [*tmp_path.iterdir()] == [] and str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_a_failed_init_container_is_an_error_with_its_last_log_lines(tmp_path: Path) -> None:
    log, first = tmp_path / "log", "  initContainers: [{name: prepare, image: 'b:1'}]\n"
    log.write_text("2026-01-02T03:04:05Z stdout F a disk is full\n")
    runtime, states = Runtime(), [pb.CONTAINER_RUNNING, pb.CONTAINER_EXITED]
    runtime.answers["ContainerStatus"] = lambda _: pb.ContainerStatusResponse(
        status=pb.ContainerStatus(state=states.pop(0), exit_code=3, log_path=str(log))
    )
    with pytest.raises(NriError, match="container prepare: exit code 3; its log ends with: a disk is full"):
        run(runtime, pod(tmp_path / "pods", "", first))
    runtime.answers["ContainerStatus"] = lambda _: pb.ContainerStatusResponse(
        status=pb.ContainerStatus(state=pb.CONTAINER_EXITED, exit_code=1, log_path=str(tmp_path / "none"))
    )
    with pytest.raises(NriError, match=r"container prepare: exit code 1\. Pod"):
        run(runtime, pod(tmp_path / "pods", "", first))
    runtime.answers["ContainerStatus"] = lambda _: pb.ContainerStatusResponse(status=pb.ContainerStatus(state=1))
    with pytest.raises(NriError, match=r"init container \S+ has not ended after .* s; see --timeout"):
        run(runtime, pod(tmp_path / "pods", "", first), 0.1)


def test_ctrl_c_removes_the_pod(tmp_path: Path) -> None:
    runtime = Runtime()

    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    runtime.answers["StartContainer"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(runtime, pod(tmp_path))
    assert runtime.calls[-1] == "RemovePodSandbox" and [*tmp_path.iterdir()] == []


def test_the_grace_period_comes_from_the_manifest_or_the_option() -> None:
    sandbox = pb.PodSandbox(id="p")
    running = [
        pb.Container(id=name, pod_sandbox_id="p", state=1, annotations=notes)  # type: ignore[arg-type]
        for name, notes in (("a", {lifecycle.GRACE: "7"}), ("b", {lifecycle.GRACE: "much"}), ("c", {}))
    ]
    ended = pb.Container(id="d", pod_sandbox_id="p", state=pb.CONTAINER_EXITED)
    for grace_s, seconds in ((None, [7, 30, 30]), (2, [2, 2, 2])):
        runtime = Runtime()
        lifecycle.stop(runtime, sandbox, [*running, ended], grace_s)  # type: ignore[arg-type]
        assert sorted((one.container_id, one.timeout) for one in runtime.requests[:3]) == [
            *zip("abc", seconds, strict=True)
        ]
        assert runtime.calls[3:] == ["StopPodSandbox"]


def test_a_failed_stop_of_a_sandbox_is_retried() -> None:
    runtime, refusals = Runtime(), [Code.UNKNOWN, 0]

    def stop(_: Any) -> Any:
        if code := refusals.pop(0):
            raise RpcError(code, "just ending")
        return pb.StopPodSandboxResponse()

    runtime.answers["StopPodSandbox"] = stop
    lifecycle.stop(runtime, pb.PodSandbox(id="p"), [], 0)  # type: ignore[arg-type]
    assert runtime.calls == ["StopPodSandbox"] * 2
    runtime.answers["StopPodSandbox"] = refuse(Code.NOT_FOUND, "gone")
    with pytest.raises(RpcError):
        lifecycle.stop(runtime, pb.PodSandbox(id="p"), [], 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("uid", ["", "..", "a/b", "other"])
def test_folders_that_this_command_did_not_create_are_kept(tmp_path: Path, uid: str) -> None:
    (tmp_path / "other").mkdir()
    sandbox = pb.PodSandbox(id="p", metadata=pb.PodSandboxMetadata(uid=uid))
    lifecycle.remove(Runtime(), sandbox, str(tmp_path))  # type: ignore[arg-type]
    assert (tmp_path / "other").is_dir()


def test_the_cgroup_driver_comes_from_the_runtime() -> None:
    runtime = Runtime()
    lines = pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS)
    runtime.answers["RuntimeConfig"] = lambda _: pb.RuntimeConfigResponse(linux=lines)
    assert lifecycle.driver_of(runtime) is Driver.CGROUPFS  # type: ignore[arg-type]
    runtime.answers["RuntimeConfig"] = lambda _: pb.RuntimeConfigResponse()  # whose zero is systemd
    assert lifecycle.driver_of(runtime) is Driver.SYSTEMD  # type: ignore[arg-type]
    runtime.answers["RuntimeConfig"] = refuse(Code.UNIMPLEMENTED, "unknown method")
    assert lifecycle.driver_of(runtime) is Driver.CGROUPFS  # type: ignore[arg-type]
    runtime.answers["RuntimeConfig"] = refuse(Code.INTERNAL, "broken")
    with pytest.raises(RpcError):
        lifecycle.driver_of(runtime)  # type: ignore[arg-type]


def test_users_other_than_root_have_a_separate_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/u/state")
    assert lifecycle.state_folder() == "/home/u/state/nri-pods"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert lifecycle.state_folder() == "/var/lib/nri-pods"


@pytest.mark.parametrize(
    ("info", "root"),
    [
        ({"config": '{"containers": {"seccomp_root": "/srv/profiles"}}'}, "/srv/profiles"),
        ({"config": '{"containers": {"seccomp_root": "profiles"}}'}, "/var/lib/kubelet/seccomp"),
        ({"config": '{"containerd": {}}'}, "/var/lib/kubelet/seccomp"),
        ({"config": "[1"}, "/var/lib/kubelet/seccomp"),
        ({}, "/var/lib/kubelet/seccomp"),
    ],
)
def test_seccomp_profiles_are_below_the_folder_that_the_runtime_reports(info: dict[str, str], root: str) -> None:
    runtime = Runtime()
    runtime.answers["Status"] = lambda _: pb.StatusResponse(info=info)
    assert lifecycle.seccomp_root(runtime) == root  # type: ignore[arg-type]
