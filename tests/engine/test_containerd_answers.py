"""The same requests to containerd 2.4 and to the engine: each call's outcome, and every field of the statuses."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from nri.cri.pb import api_pb2 as pb
from tests.support.cri_client import CriClient
from tests.support.needs import need, need_root, need_tool
from tests.support.waiting import wait_for
from tools.runtimes import Containerd, MissingError, install
from tools.runtimes.daemon import Runtime
from tools.runtimes.engine import Engine
from tools.runtimes.images import BUSYBOX
from tools.runtimes.machine import ensure_packages

#: Fields of answers that differ on purpose; docs/deviations.md names those that clients could notice.
IGNORED = re.compile(
    r"(id|container_id|pod_sandbox_id|created_at|started_at|finished_at|timestamp|message|image_ref|user_specified_image)"
)


@pytest.fixture(scope="module")
def runtimes() -> Iterator[list[Runtime]]:
    need_root()
    for tool in ("runc", "conmon", "skopeo", "umoci"):
        need_tool(tool)
    try:
        ensure_packages(print)
        installed = install("2.4", print)
    except MissingError as error:
        need(False, str(error))
        raise
    daemons: list[Runtime] = [Containerd(installed), Engine(say=lambda _: None, nri=False)]
    try:
        for daemon in daemons:
            daemon.enable_pod_network()
            daemon.start()
        yield daemons
    finally:
        for daemon in daemons:
            daemon.close()


class Requests:
    """The requests of one case to one runtime; `answers` are theirs, by the names of the calls."""

    def __init__(self, daemon: Runtime) -> None:
        self._run_dir, self._cri = str(daemon.run_dir), CriClient(daemon.cri_socket)
        self.answers: dict[str, Any] = {}

    def call(self, method: str, name: str = "", **fields: Any) -> Any:
        """Call, and note the answer, or that the call failed."""
        try:
            answer = self._cri.call(method, **fields)
        except grpc.RpcError:
            self.answers[name or method] = "failed"
            return None
        message = json_format.MessageToDict(answer, preserving_proto_field_name=True)
        self.answers.update(self._rows(name or method, message))
        return answer

    def _rows(self, path: str, value: Any) -> Iterator[tuple[str, Any]]:
        """The fields of an answer, without those that are different for each pod or runtime."""
        if isinstance(value, dict) and value:
            for key, field in value.items():
                if not IGNORED.fullmatch(key) and key != "info":
                    yield from self._rows(f"{path}.{key}", field)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for index, row in enumerate(value):
                yield from self._rows(f"{path}[{index}]", row)
        else:
            text = re.sub(r"10\.\d+\.\d+\.\d+", "ADDRESS", str(value).replace(self._run_dir, "RUN"))
            yield path, "" if text == "{}" else text

    def run(self, pod: dict[str, Any], container: dict[str, Any], handler: str) -> None:
        """Make a pod and a container, follow their lives, and remove them."""
        modes = {"network": "NODE", "pid": "CONTAINER"} | pod.pop("modes", {})
        linux = {"security_context": {"namespace_options": modes}, "cgroup_parent": f"/{Path(self._run_dir).name}"}
        fields = {"metadata": {"name": "p", "uid": "u", "namespace": "n"}, "linux": linux,
                  "log_directory": f"{self._run_dir}/logs/p", **pod}  # fmt: skip
        config = json_format.ParseDict(fields, pb.PodSandboxConfig())
        answer = self.call("RunPodSandbox", config=config, runtime_handler=handler)
        if answer is None:
            return
        pod_id = answer.pod_sandbox_id
        self.call("PodSandboxStatus", pod_sandbox_id=pod_id)
        self._container(pod_id, config, {"linux": {"security_context": {"namespace_options": modes}}, **container})
        self.call("StopPodSandbox", pod_sandbox_id=pod_id)
        self.call("PodSandboxStatus", "PodSandboxStatus after StopPodSandbox", pod_sandbox_id=pod_id)
        self.call("RemovePodSandbox", pod_sandbox_id=pod_id)

    def _container(self, pod_id: str, pod: pb.PodSandboxConfig, fields: dict[str, Any]) -> None:
        fields = {"metadata": {"name": "c"}, "image": {"image": BUSYBOX}, "log_path": "c.log", **fields}
        config = json_format.ParseDict(fields, pb.ContainerConfig())
        answer = self.call("CreateContainer", pod_sandbox_id=pod_id, config=config, sandbox_config=pod)
        if answer is None:
            return
        identity, log = {"container_id": answer.container_id}, Path(pod.log_directory, "c.log")
        self.call("StopContainer", "StopContainer before StartContainer", **identity)
        self.call("StartContainer", **identity)
        self.call("ContainerStatus", **identity)
        if config.command[:1] == ["sh"]:
            wait_for(
                lambda: self._cri.call("ContainerStatus", **identity).status.state == pb.CONTAINER_EXITED, "its end"
            )
            time.sleep(0.1)
            self.answers["log"] = sorted(line.split(" ", 3)[3] for line in log.read_text().splitlines())
        self.call("ExecSync", **identity, cmd=["true"])  # a program that is not loaded yet ends by another code
        self.call("StopContainer", **identity, timeout=1)
        self.call("UpdateContainerResources", **identity, linux=pb.LinuxContainerResources(cpu_shares=300))
        self.call("ContainerStatus", "ContainerStatus after StopContainer", **identity)
        self.call("ListContainers", filter=pb.ContainerFilter(id=answer.container_id))
        self.call("StartContainer", "StartContainer after StopContainer", **identity)
        self.call("RemoveContainer", **identity)
        self.call("RemoveContainer", "RemoveContainer again", **identity)
        log.unlink(missing_ok=True)


TMP = {"container_path": "/m", "host_path": "/tmp", "readonly": True}
LOW_QUOTA = {"resources": {"cpu_quota": 10, "cpu_period": 100_000}}
NO_PROFILE = {"profile_type": "Localhost", "localhost_ref": "/none"}


def shell(script: str, **fields: Any) -> dict[str, Any]:
    return {"command": ["sh", "-c", script], **fields}


def security(**fields: Any) -> dict[str, Any]:
    modes = {"network": "NODE", "pid": "CONTAINER"}
    return {"linux": {"security_context": {"namespace_options": modes, **fields}}}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a container that runs": ({"labels": {"a": "b"}}, {"command": ["sleep", "100"], "labels": {"c": "d"}}),
    "a network": ({"modes": {"network": "POD"}, "hostname": "web.example."}, shell("hostname; echo $HOSTNAME")),
    "a network mode of no use": ({"modes": {"network": "CONTAINER", "ipc": "TARGET"}}, shell("true")),
    "processes of another container": ({"modes": {"pid": "TARGET"}}, shell("echo $$", **security())),
    "a missing program": ({}, {"command": ["nothing"]}),
    "a folder as a program": ({}, {"command": ["/etc"]}),
    "an exit code": ({}, shell("exit 3")),
    "a signal": ({}, shell("kill -9 $$")),
    "a key with an equals sign": ({}, shell("env | grep ^A", envs=[{"key": "A=B", "value": "Yw=="}])),
    "a relative mount": ({}, shell("test -d /m/n", mounts=[TMP | {"container_path": "m/n"}])),
    "a read-only mount": ({}, shell("touch /m/x", mounts=[TMP])),
    "a stop signal": ({}, {"command": ["sleep", "100"], "stop_signal": "SIGNAL_SIGRTMINPLUS3"}),
    "a user and groups": ({}, shell("id", **security(run_as_user={"value": 7}, supplemental_groups=[5]))),
    "strict groups": ({}, shell("id", **security(supplemental_groups=[5], supplemental_groups_policy="Strict"))),
    "a group without a user": ({}, shell("id", **security(run_as_group={"value": 7}))),
    "an unknown user": ({}, shell("id", **security(run_as_username="nobody-here"))),
    "a quota that is too small": ({}, {"command": ["sleep", "1"], "linux": LOW_QUOTA}),
    "an unknown image": ({}, {"image": {"image": "localhost/none:1"}}),
    "an unknown profile": ({}, shell("true", **security(seccomp=NO_PROFILE))),
}  # fmt: skip


@pytest.mark.parametrize(("name", "handler"), [("a container that runs", "runc"), *((name, "") for name in CASES)])
def test_answers_are_those_of_containerd(runtimes: list[Runtime], name: str, handler: str) -> None:
    answers = []
    for daemon in runtimes:
        requests = Requests(daemon)
        pod, container = CASES[name]
        requests.run(dict(pod), container, handler)
        answers.append(requests.answers)
    containerd, engine = answers
    assert engine == containerd
