"""Messages as dicts."""

from nri.cri.pb import api_pb2 as cri
from nri.policies.koordinator.hook_protocol.dispatch import STAGES
from nri.proxy.hook_servers.messages import METHODS, SERVICE, fields_of


def test_each_stage_has_the_call_that_koordinator_publishes() -> None:
    assert SERVICE == "runtime.v1alpha1.RuntimeHookService"
    assert {stage: method.name for stage, method in METHODS.items()} == {stage: f"{stage}Hook" for stage in STAGES}
    assert METHODS["PreRunPodSandbox"].request.DESCRIPTOR.full_name == "runtime.v1alpha1.PodSandboxHookRequest"
    container = "runtime.v1alpha1.ContainerResourceHookResponse"
    assert METHODS["PostStopContainer"].response.DESCRIPTOR.full_name == container


def test_a_dict_has_what_is_set_and_becomes_the_same_message_again() -> None:
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
