"""Conversion of messages to dicts and back."""

from typing import Any

from nri.cri.pb import api_pb2 as cri
from nri.proxy.hook_servers import merge, messages, requests
from nri.proxy.hook_servers.dispatch import STAGES
from nri.proxy.hook_servers.messages import METHODS, SERVICE, fields_of


def test_each_stage_has_koordinators_method_name() -> None:
    assert SERVICE == "runtime.v1alpha1.RuntimeHookService"
    assert {stage: method.name for stage, method in METHODS.items()} == {stage: f"{stage}Hook" for stage in STAGES}
    assert METHODS["PreRunPodSandbox"].request.DESCRIPTOR.full_name == "runtime.v1alpha1.PodSandboxHookRequest"
    container = "runtime.v1alpha1.ContainerResourceHookResponse"
    assert METHODS["PostStopContainer"].response.DESCRIPTOR.full_name == container


def test_messages_survive_a_round_trip_through_dicts() -> None:
    config = cri.ContainerConfig(
        metadata={"name": "c"},
        envs=[{"key": "A", "value": b"\xff"}],
        annotations={"a": "1"},
        linux={"resources": {"cpu_quota": -1, "unified": {"x": "y"}, "hugepage_limits": [{"page_size": "2MB"}]}},
    )
    fields = fields_of(config)
    assert fields == {
        "metadata": {"name": "c"},
        "envs": [{"key": "A", "value": b"\xff"}],
        "annotations": {"a": "1"},
        "linux": {"resources": {"cpu_quota": -1, "unified": {"x": "y"}, "hugepage_limits": [{"page_size": "2MB"}]}},
    }
    assert cri.ContainerConfig(**fields) == config
    assert fields_of(cri.ContainerConfig()) == {}


def container_request(**config: Any) -> cri.CreateContainerRequest:
    return cri.CreateContainerRequest(pod_sandbox_id="p", config={"metadata": {"name": "c"}, **config})


def created(request: cri.CreateContainerRequest, response: dict[str, Any]) -> cri.CreateContainerRequest:
    before = requests.container_of_create(fields_of(request), {})
    messages.change_container(request, before, merge.container_after_response(before, response))
    return request


def test_a_response_that_repeats_the_request_changes_no_byte_of_it() -> None:
    request = container_request(
        annotations={"a": "1"},
        envs=[{"key": "B", "value": b"2"}, {"key": "A", "value": b"\xff"}, {"key": "B", "value": b"3"}],
        linux={"resources": {"cpu_shares": 5, "cpuset_cpus": "0-1", "oom_score_adj": 100}},
    )
    before = request.SerializeToString(deterministic=True)
    message = requests.container_of_create(fields_of(request), {})
    created(
        request, {name: message[name] for name in ("container_annotations", "container_resources", "container_envs")}
    )
    assert request.SerializeToString(deterministic=True) == before
    assert created(container_request(), {"container_resources": {}}) == container_request()


def test_resources_annotations_and_cgroup_parent_of_a_response_reach_the_request() -> None:
    request = container_request(linux={"resources": {"cpu_shares": 5, "cpuset_cpus": "0-1", "cpuset_mems": "0"}})
    resources = {"cpu_shares": 7, "cpu_quota": -1, "cpuset_mems": "0", "unified": {"memory.high": "1"}}
    created(
        request,
        {
            "container_annotations": {"a": "1"},
            "container_resources": resources,
            "pod_cgroup_parent": "/kubepods/other",
        },
    )
    assert dict(request.config.annotations) == {"a": "1"}
    assert fields_of(request.config.linux.resources) == resources
    assert request.sandbox_config.linux.cgroup_parent == "/kubepods/other"


def test_an_environment_is_replaced_and_kept_variables_keep_their_order() -> None:
    request = container_request(envs=[{"key": key, "value": b"1"} for key in "CABD"])
    created(request, {"container_envs": {"B": "2", "C": "1", "E": "5", "D": "1", "AA": "4"}})
    assert [(env.key, env.value) for env in request.config.envs] == [
        ("C", b"1"),
        ("B", b"2"),
        ("D", b"1"),
        ("AA", b"4"),
        ("E", b"5"),
    ]


def test_a_pods_labels_annotations_and_cgroup_parent_reach_the_request() -> None:
    request = cri.RunPodSandboxRequest(config={"labels": {"a": "1", "b": "1"}, "linux": {"cgroup_parent": "/x"}})
    before = requests.pod_of_run(fields_of(request))
    response = {"labels": {"b": "2"}, "annotations": {"c": "3"}, "cgroup_parent": "/y", "resources": {"cpu_quota": 5}}
    messages.change_pod(request, before, merge.pod_after_response(before, response))
    assert fields_of(request.config) == {
        "labels": {"a": "1", "b": "2"},
        "annotations": {"c": "3"},
        "linux": {"cgroup_parent": "/y"},
    }


def test_an_empty_response_adds_no_linux_message() -> None:
    request = cri.RunPodSandboxRequest(config={"labels": {"a": "1"}})
    before = requests.pod_of_run(fields_of(request))
    messages.change_pod(request, before, merge.pod_after_response(before, {}))
    assert not request.config.HasField("linux")


def test_an_update_has_stored_values_and_the_servers() -> None:
    request = cri.UpdateContainerResourcesRequest(container_id="c", linux={"cpuset_cpus": "0", "oom_score_adj": 9})
    stored = {"container_resources": {"cpu_quota": 50_000, "memory_limit_in_bytes": 1 << 20, "oom_score_adj": 7}}
    before = requests.container_of_update(fields_of(request), stored)
    response = {"container_resources": {**before["container_resources"], "cpuset_cpus": "", "cpu_shares": 3}}
    messages.change_update(request, before, merge.container_after_response(before, response))
    assert fields_of(request.linux) == {
        "cpu_quota": 50_000,
        "cpu_shares": 3,
        "memory_limit_in_bytes": 1 << 20,
        "oom_score_adj": 7,
    }
