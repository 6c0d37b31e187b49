"""Plugins built into the runtime."""

from __future__ import annotations

from typing import Any

import pytest

import nri
from nri.adaptation import BuiltinPlugin, ValidatorConfig
from nri.api import messages as m
from nri.errors import NriError, PluginError, ValidationRejected
from nri.testing import FakeRuntime, make_container, make_pod


def runtime_with(*handlers: object, **options: Any) -> FakeRuntime:
    builtin = [BuiltinPlugin(f"{number + 10}", f"b{number}", entry) for number, entry in enumerate(handlers)]
    return FakeRuntime(builtin=builtin, **options)


class Handlers:
    """Anything that a test puts on it."""

    def __init__(self, **handlers: Any) -> None:
        self.__dict__.update(handlers)


@pytest.mark.parametrize(
    ("result", "env", "updated"),
    [
        (None, {}, []),
        (nri.Adjustment().add_env("A", "1"), {"A": "1"}, []),
        (m.ContainerAdjustment(env=[m.KeyValue(key="A", value="1")]), {"A": "1"}, []),
        (nri.Update("c0").set_cpu_shares(5), {}, ["c0"]),
        ([nri.Update("c0").set_cpu_shares(5)], {}, ["c0"]),
        ((nri.Adjustment().add_env("A", "1"), [nri.Update("c0").set_cpu_shares(5)]), {"A": "1"}, ["c0"]),
        (m.CreateContainerResponse(adjust={"env": [{"key": "A", "value": "1"}]}), {"A": "1"}, []),
    ],
    ids=["nothing", "builder", "message", "update", "updates", "both", "whole reply"],
)
def test_a_builtin_plugin_adjusts_and_updates_containers(result: Any, env: dict[str, str], updated: list[str]) -> None:
    handlers = Handlers(create_container=lambda pod, container: result)
    pod = make_pod()
    with runtime_with(handlers, pods=[pod], containers=[make_container(id="c0", pod=pod)]) as runtime:
        reply = runtime.create_container()
    assert reply.env == env
    assert list(reply.updates) == updated


def test_a_builtin_plugin_subscribes_to_its_methods() -> None:
    calls: list[str] = []
    handlers = Handlers(
        start_container=lambda pod, container: calls.append("start"),
        update_pod_sandbox=lambda pod, overhead, resources: calls.append(f"update {overhead.cpu.shares.value}"),
        run_pod_sandbox=lambda pod: calls.append("run"),
        update_container=lambda pod, container, resources: calls.append("resources"),
    )
    with runtime_with(handlers) as runtime:
        runtime.run_pod_sandbox()
        overhead = m.LinuxResources()
        overhead.cpu.shares.value = 7
        runtime.update_pod_sandbox(None, overhead)
        runtime.create_container()
        runtime.start_container()
        runtime.update_container()
        assert runtime.health("10-b0").events == "RunPodSandbox,StartContainer,UpdateContainer,UpdatePodSandbox"
    assert calls == ["run", "update 7", "start", "resources"]


def test_a_builtin_plugin_is_configured_synchronized_and_shut_down() -> None:
    calls: list[Any] = []

    def configure(config: str, runtime: str, version: str) -> None:
        calls.append((runtime, version))

    handlers = Handlers(
        configure=configure,
        synchronize=lambda pods, containers: calls.append((len(pods), len(containers))),
        shutdown=lambda: calls.append("shutdown"),
    )
    pod = make_pod()
    with runtime_with(handlers, pods=[pod], containers=[make_container(pod=pod)]):
        pass
    assert calls == [("fake", "v1.0.0"), (1, 1), "shutdown"]


def test_builtin_and_external_plugins_see_each_others_changes() -> None:
    calls: list[dict[str, str]] = []

    def create(pod: m.PodSandbox, container: m.Container) -> nri.Adjustment:
        calls.append(nri.env_of(container))
        return nri.Adjustment().add_env(f"V{len(calls)}", "1")

    class External(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return create(pod, container)

    with runtime_with(Handlers(create_container=create), Handlers(create_container=create)) as runtime:
        runtime.add(External(), idx="05").add(External(), idx="99", name="last")
        reply = runtime.create_container(None, make_container(env={"OWN": "1"}))
    assert calls == [{"OWN": "1"} | {f"V{n}": "1" for n in range(1, count + 1)} for count in range(4)]
    assert set(reply.env) == {"V1", "V2", "V3", "V4"}


def test_an_exception_fails_the_request_with_the_plugins_name() -> None:
    def create(pod: m.PodSandbox, container: m.Container) -> None:
        raise ValueError("no such zone")

    with (
        runtime_with(Handlers(create_container=create)) as runtime,
        pytest.raises(PluginError, match="plugin 10-b0: ValueError: no such zone"),
    ):
        runtime.create_container()


def test_a_reject_of_a_handler_is_a_rejection() -> None:
    def create(pod: m.PodSandbox, container: m.Container) -> None:
        raise nri.Reject("no")

    with (
        runtime_with(Handlers(create_container=create)) as runtime,
        pytest.raises(nri.PluginRejected, match=r"^plugin 10-b0 refused: no$"),
    ):
        runtime.create_container()


def test_an_exception_in_configure_fails_the_start_of_nri() -> None:
    def configure(config: str, runtime: str, version: str) -> None:
        raise nri.Reject("not on this machine")

    with pytest.raises(NriError, match="failed to start builtin plugin 10-b0"):
        runtime_with(Handlers(configure=configure))


@pytest.mark.parametrize(("index", "name"), [("", "x"), ("10", ""), ("1", "x"), ("10", "a b")])
def test_a_builtin_plugin_requires_an_index_and_a_name(index: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"index|name"):
        BuiltinPlugin(index, name, Handlers())


@pytest.mark.parametrize("verdict", ["not that", m.ValidateContainerAdjustmentResponse(reject=True, reason="not that")])
def test_a_validator_refuses_with_a_reason(verdict: Any) -> None:
    handlers = Handlers(validate_container_adjustment=lambda request: verdict)
    with (
        runtime_with(handlers) as runtime,
        pytest.raises(ValidationRejected, match='validator "10-b0" rejected container adjustment, reason: not that'),
    ):
        runtime.create_container()


def test_an_exception_of_a_validator_is_a_refusal() -> None:
    def validate(request: m.ValidateContainerAdjustmentRequest) -> None:
        raise RuntimeError("broken")

    with (
        runtime_with(Handlers(validate_container_adjustment=validate)) as runtime,
        pytest.raises(ValidationRejected, match="reason: RuntimeError: broken"),
    ):
        runtime.create_container()


def test_all_validators_are_called_concurrently() -> None:
    import threading

    meeting = threading.Barrier(3, timeout=10)
    validators = [Handlers(validate_container_adjustment=lambda request: meeting.wait() and None) for _ in range(3)]
    with runtime_with(*validators) as runtime:
        runtime.create_container()
    assert not meeting.broken


def test_the_default_validator_is_active_when_enabled() -> None:
    hooks = m.Hooks(prestart=[m.Hook(path="/bin/true")])
    adjusting = Handlers(create_container=lambda pod, container: nri.Adjustment().add_hooks(hooks))
    config = ValidatorConfig(enable=True, reject_oci_hook_adjustment=True)
    with (
        runtime_with(adjusting, default_validator=config) as runtime,
        pytest.raises(ValidationRejected, match='plugin "10-b0" attempted restricted OCI hook injection'),
    ):
        runtime.create_container()
    with runtime_with(adjusting, default_validator=ValidatorConfig(enable=False)) as runtime:
        runtime.create_container()


def test_a_handler_that_modifies_its_arguments_affects_no_other_plugin() -> None:
    """Even reading a missing label adds the label to a message."""
    calls: list[m.PodSandbox] = []

    def meddle(pod: m.PodSandbox, container: m.Container, *more: m.LinuxResources) -> None:
        pod.labels["absent"] + container.labels["absent"]
        container.args.append("--more")
        for resources in more:
            resources.cpu.shares.value = 5

    def synchronize(pods: list[m.PodSandbox], containers: list[m.Container]) -> None:
        for entry in (*pods, *containers):
            entry.labels["absent"]

    pod, container, resources = make_pod(id="p"), make_container(id="c", pod_sandbox_id="p"), m.LinuxResources()
    before = [entry_.SerializeToString() for entry_ in (pod, container, resources)]
    events = ("create_container", "update_container", "start_container")
    meddler = Handlers(**dict.fromkeys(events, meddle), synchronize=synchronize)
    notes = Handlers(start_container=lambda pod, container: calls.extend((pod, container)))
    with runtime_with(meddler, notes, pods=[pod], containers=[container]) as runtime:
        runtime.adaptation.create_container(pod, container)
        runtime.adaptation.update_container(pod, container, resources)
        runtime.adaptation.start_container(pod, container)
    assert [entry_.SerializeToString() for entry_ in (pod, container, resources)] == before
    assert [entry_.SerializeToString() for entry_ in calls] == before[:2]
