"""Targets for Koordinator's hook protocol: registrations of hook servers, their answers, and requests to the agent."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from nri.agent.koordinator import hook_fields as words
from nri.cri.pb import api_pb2 as cri
from nri.proxy.hook_servers import merge, requests
from nri.proxy.hook_servers.dispatch import STAGES
from nri.proxy.hook_servers.messages import METHODS, change_container, change_pod, change_update, fields_of
from nri.proxy.hook_servers.pb import api_pb2 as pb
from nri.proxy.hook_servers.registrations import parse
from tests.fuzz import inputs
from tests.fuzz.engine import Target

__all__ = ["TARGETS"]

_KEYS = ("remote-endpoint", "failure-policy", "runtime-hooks", "Remote-Endpoint")
_REGISTRATIONS = [
    {"remote-endpoint": "/run/a.sock", "failure-policy": "Fail", "runtime-hooks": ["PreRunPodSandbox"]},
    {"remote-endpoint": "unix:///run/a.sock", "runtime-hooks": []},
]
_CONFIG: dict[str, Any] = {
    "metadata": {"name": "c"},
    "annotations": {"a": "1"},
    "envs": [{"key": "A", "value": b"1"}, {"key": "B", "value": b"\xff"}],
    "linux": {"resources": {"cpu_shares": 5, "cpuset_cpus": "0", "unified": {"a": "1"}}},
}


def _registration(data: bytes) -> None:
    server = parse(data.decode(errors="replace"))
    assert server.endpoint.startswith("/")
    assert set(server.stages) <= set(STAGES)


def _pod_answer(data: bytes) -> None:
    response = fields_of(pb.PodSandboxHookResponse.FromString(data))
    request = cri.RunPodSandboxRequest(config={"labels": {"a": "1"}, "linux": {"cgroup_parent": "/p"}})
    before = requests.pod_of_run(fields_of(request))
    change_pod(request, before, merge.pod_after_response(before, response))
    assert requests.pod_of_run(fields_of(request)).get("labels") == {"a": "1"} | response.get("labels", {})


def _container_answer(data: bytes) -> None:
    response = fields_of(pb.ContainerResourceHookResponse.FromString(data))
    create = cri.CreateContainerRequest(config=_CONFIG)
    before = requests.container_of_create(fields_of(create), {})
    after = merge.container_after_response(before, response)
    change_container(create, before, after)
    assert requests.env_of_cri(fields_of(create.config).get("envs")) == after["container_envs"]
    update = cri.UpdateContainerResourcesRequest(linux={"cpuset_cpus": "0"})
    stored = requests.container_of_update(fields_of(update), before)
    change_update(update, stored, merge.container_after_response(stored, response))


def _request(data: bytes) -> None:
    request = fields_of(pb.ContainerResourceHookRequest.FromString(data))
    assert words.container_context(request).name == (request.get("container_meta") or {}).get("name", "")
    pod = fields_of(pb.PodSandboxHookRequest.FromString(data))
    assert fields_of(METHODS["PreRunPodSandbox"].request(**pod)) == pod
    words.pod_context(pod)


TARGETS = (
    Target("hook-registration", inputs.documents(_REGISTRATIONS, _KEYS), _registration, (ValueError,)),
    Target("hook-pod-answer", inputs.messages(pb.PodSandboxHookResponse), _pod_answer, (DecodeError,), share=0.5),
    Target("hook-answer", inputs.messages(pb.ContainerResourceHookResponse), _container_answer, (DecodeError,)),
    Target("hook-request", inputs.messages(pb.ContainerResourceHookRequest), _request, (DecodeError,)),
)
