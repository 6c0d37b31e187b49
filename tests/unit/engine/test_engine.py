"""The engine without containers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import DomainConfig, EngineConfig, ImageConfig, NetworkConfig, NriConfig
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


def test_a_second_engine_in_the_same_folder_is_refused(config: EngineConfig) -> None:
    with Engine(config) as first:
        with pytest.raises(EngineError):
            Engine(config)
        assert first.inventory.pods() == []
    with Engine(config):
        pass


def test_stop_can_be_called_twice_and_without_a_start(config: EngineConfig) -> None:
    engine = Engine(config)
    engine.stop()
    engine.stop()
    with Engine(config) as second_engine:
        second_engine.stop()
        with Engine(config) as third:
            assert third.inventory.pods() == [], "its folders are free once it has stopped"


def test_a_failed_start_releases_all_resources(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(config)

    def refuse() -> None:
        raise NriError("no socket")

    monkeypatch.setattr(engine.nri, "start", refuse)
    with pytest.raises(NriError, match="no socket"):
        engine.start()
    with Engine(config):
        pass


def test_a_failed_further_domain_releases_all_resources(config: EngineConfig) -> None:
    config_ = replace(config, domains={"moby": DomainConfig(), "other": DomainConfig()})
    with Engine(config_.of_domain("other")), pytest.raises(EngineError):
        Engine(config_)
    with Engine(config_) as engine:
        assert [*engine.domains] == ["moby", "other"]


def test_without_a_network_only_the_network_is_not_ready(config: EngineConfig) -> None:
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


def test_events_have_the_statuses_of_pod_and_containers(
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
                assert event is not None, "the end of the pod was not reported"
            assert event.pod_sandbox_status.metadata.uid == "u" and not event.containers_statuses
            assert event.pod_sandbox_status.state == pb.SANDBOX_NOTREADY


def test_new_settings_count_in_all_domains_even_if_a_folder_of_the_engine_is_damaged(config: EngineConfig) -> None:
    config = replace(config, domains={"moby": DomainConfig()})
    with Engine(config) as engine:
        networks = engine.machinery.places.networks
        networks.rmdir()
        networks.touch()
        engine.configure(replace(config, images=ImageConfig(entries_limit=5)))
        domains = [engine, *engine.domains.values()]
        assert [(domain.config.images.entries_limit, domain.images.limits.entries) for domain in domains] == [
            (5, 5)
        ] * 2
