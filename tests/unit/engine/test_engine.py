"""The engine put together, without anything that runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import DomainConfig, EngineConfig, NetworkConfig, NriConfig
from nri.engine.engine import Engine
from nri.engine.support.errors import EngineError
from nri.errors import NriError


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    nri = NriConfig(disable_connections=True, plugin_path=str(tmp_path / "none"), policy_path="", admin_socket="")
    network = NetworkConfig(config_dir=tmp_path / "net.d")
    return EngineConfig(
        dry=True, socket=tmp_path / "s", root=tmp_path / "root", state=tmp_path / "state", nri=nri, network=network
    )


def test_two_engines_do_not_share_a_folder_and_the_first_one_goes_on(config: EngineConfig) -> None:
    with Engine(config) as first:
        with pytest.raises(EngineError):
            Engine(config)
        assert first.inventory.pods() == []
    with Engine(config):
        pass


def test_a_second_stop_does_nothing_and_one_that_never_started_can_be_stopped(config: EngineConfig) -> None:
    engine = Engine(config)
    engine.stop()
    engine.stop()
    with Engine(config) as second_engine:
        second_engine.stop()
        with Engine(config) as third:
            assert third.inventory.pods() == [], "its folders are free once it has stopped"


def test_a_start_that_fails_lets_go_of_everything(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(config)

    def refuse() -> None:
        raise NriError("no socket")

    monkeypatch.setattr(engine.nri, "start", refuse)
    with pytest.raises(NriError, match="no socket"):
        engine.start()
    with Engine(config):
        pass


def test_a_further_domain_that_cannot_be_made_lets_go_of_everything(config: EngineConfig) -> None:
    config_ = replace(config, domains={"moby": DomainConfig(), "other": DomainConfig()})
    with Engine(config_.of_domain("other")), pytest.raises(EngineError):
        Engine(config_)
    with Engine(config_) as engine:
        assert [*engine.domains] == ["moby", "other"]


def test_without_a_network_the_engine_is_ready_and_its_network_is_not(config: EngineConfig) -> None:
    with Engine(config) as engine:
        runtime, network = engine.conditions
        assert (runtime.kind, runtime.holds) == ("RuntimeReady", True)
        assert (network.kind, network.holds, network.reason) == ("NetworkReady", False, "NetworkPluginNotReady")
        assert str(config.network.config_dir) in network.message
    config.network.config_dir.mkdir()
    (config.network.config_dir / "10-a.conflist").write_text(
        '{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge"}]}'
    )
    with Engine(config) as engine:
        assert engine.conditions[1].holds


def test_an_event_has_the_statuses_of_its_pod_and_containers_and_a_removal_has_the_pods_last(
    config: EngineConfig,
) -> None:
    with Engine(replace(config)) as engine:
        metadata = pb.PodSandboxMetadata(name="web", namespace="n", uid="u")
        pod = engine.pod_creation.run(pb.PodSandboxConfig(metadata=metadata))
        container_id = engine.container_creation.create(
            pod, pb.ContainerConfig(metadata={"name": "c"}, image={"image": "busybox"}, command=["sh"])
        )
        with engine.events.subscribe() as listener:
            engine.container_start.start(container_id)
            event = listener.get(20)
            assert event is not None and event.pod_sandbox_status.metadata.name == "web"
            assert [status.id for status in event.containers_statuses] == [container_id]
            engine.pod_removal.remove(pod)
            while event.container_id != pod or event.container_event_type != pb.CONTAINER_DELETED_EVENT:
                event = listener.get(20)
                assert event is not None, "the pod's end was not told"
            assert event.pod_sandbox_status.metadata.uid == "u" and not event.containers_statuses
            assert event.pod_sandbox_status.state == pb.SANDBOX_NOTREADY
