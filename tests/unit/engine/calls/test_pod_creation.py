"""The calls on pods, on a dry engine."""

from __future__ import annotations

from typing import Any

import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from nri.engine.state import PodState
from nri.engine.support.errors import AlreadyExists, EngineError, NotFound
from nri.errors import NriError, RequestError

WHOLE = ["run_pod_sandbox", "stop_pod_sandbox", "remove_pod_sandbox"]


def test_a_whole_life_has_each_event_once(dry: Any) -> None:
    with dry.engine.events.subscribe() as listener:
        pod = dry.pod()
        assert dry.engine.pods.get(pod).state is PodState.READY
        for _ in range(2):
            dry.engine.pods.stop(pod)
        for _ in range(2):
            dry.engine.pods.remove(pod)
        kinds = [listener.get(1).container_event_type for _ in range(4)]
    assert dry.told.of("pod") == WHOLE
    assert kinds == [0, 1, 2, 3]
    with pytest.raises(NotFound):
        dry.engine.pods.get(pod)


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_a_pod_without_a_name_is_refused(dry: Any, field: str) -> None:
    config = dry.pod_config()
    config.metadata.ClearField(field)
    with pytest.raises(RequestError, match=f"metadata.{field}"):
        dry.engine.pods.run(config)


def test_what_a_pod_cannot_have_is_refused_before_anything_is_made(dry: Any) -> None:
    config = dry.pod_config()
    with pytest.raises(RequestError, match="runtime_handler"):
        dry.engine.pods.run(config, "kata")
    options = config.linux.security_context.namespace_options
    options.userns_options.mode = pb.POD
    ids = [pb.IDMapping(host_id=100_000, container_id=0, length=65_536)]
    options.userns_options.uids.extend(ids)
    options.userns_options.gids.extend(ids)
    options.network = pb.NODE
    with pytest.raises(RequestError, match=r'network: "NODE": cannot be shared by a pod whose ids are mapped'):
        dry.engine.pods.run(config)
    options.network = pb.POD
    options.ClearField("userns_options")
    options.ipc = pb.TARGET
    with pytest.raises(RequestError, match="ipc"):
        dry.engine.pods.run(config)
    options.ipc = pb.POD
    config.linux.sysctls["vm.swappiness"] = "1"
    with pytest.raises(RequestError, match="sysctls"):
        dry.engine.pods.run(config)
    config.linux.ClearField("sysctls")
    config.log_directory = "logs/of/pods"  # of the engine's own working folder
    with pytest.raises(RequestError, match="log_directory"):
        dry.engine.pods.run(config)
    assert dry.told.events == [] and not [*(dry.config.root / "records/pods").iterdir()]


def test_a_name_is_free_after_the_removal_and_not_before(dry: Any) -> None:
    pod = dry.pod()
    with pytest.raises(AlreadyExists):
        dry.pod()
    assert dry.engine.pods.get(pod).state is PodState.READY
    dry.engine.pods.stop(pod)
    with pytest.raises(AlreadyExists):
        dry.pod()
    dry.engine.pods.remove(pod)
    dry.pod()


def test_a_refusal_undoes_the_pod_and_is_told(dry: Any) -> None:
    def refuse(_: Any) -> None:
        raise nri.Reject("not here")

    dry.told.on["run_pod_sandbox"] = refuse
    with pytest.raises(NriError, match="not here"):
        dry.pod()
    assert dry.told.of("pod") == WHOLE and dry.engine.pods.list() == []
    assert not [*(dry.config.state / "pods").iterdir()]


def test_an_undo_that_fails_leaves_the_pod_to_be_stopped_again(dry: Any) -> None:
    pod = dry.pod()
    network = dry.engine.machinery.cni
    network.delete, usual = lambda _: (_ for _ in ()).throw(EngineError("busy")), network.delete
    with pytest.raises(EngineError, match="network: busy"):
        dry.engine.pods.stop(pod)
    assert dry.engine.pods.get(pod).state is PodState.STOPPING
    network.delete = usual
    dry.engine.pods.remove(pod)
    assert dry.told.of("pod") == WHOLE


def test_a_pod_whose_removal_came_to_no_end_may_be_stopped_again_and_removed(
    dry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = dry.pod()
    made = dry.run(pod)
    with monkeypatch.context() as patch:
        patch.setattr(
            "nri.engine.calls.container_creation.remove_bundle", lambda _: (_ for _ in ()).throw(OSError("busy"))
        )
        with pytest.raises(EngineError, match="busy"):
            dry.engine.pods.remove(pod)
    assert dry.engine.pods.get(pod).state is PodState.REMOVING
    # As a kubelet does before each removal: refused that, it would never come to the removal.
    dry.engine.containers.stop(made)
    dry.engine.pods.stop(pod)
    dry.engine.pods.remove(pod)
    assert dry.told.of("pod") == WHOLE and dry.engine.pods.list() == []


def test_new_resources_are_asked_for_kept_and_told(dry: Any) -> None:
    pod = dry.pod()
    overhead, wanted = pb.LinuxContainerResources(cpu_shares=7), pb.LinuxContainerResources(cpu_shares=9)
    dry.engine.pods.update_resources(pod, overhead, wanted)
    assert dry.engine.pods.get(pod).resources == {"overhead": {"cpu_shares": "7"}, "resources": {"cpu_shares": "9"}}
    assert dry.told.of("pod")[1:] == ["update_pod_sandbox", "post_update_pod_sandbox"]
    assert dry.engine.pods.attached(pod) is None
