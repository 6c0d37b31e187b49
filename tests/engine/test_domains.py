"""Two clients of one engine have separate pods and the same plugins."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import DomainConfig, NriConfig
from nri.engine.daemon import Daemon
from nri.engine.engine import Engine
from nri.testing.plugin_connection import Attached
from tests.engine.live import IMAGE, Live
from tests.engine.machine import Machine
from tests.engine.node import CGROUPS, V2, Recorder
from tests.engine.registry import busybox
from tests.support.cri_client import CriClient

MEMORY = "{}/memory.max" if V2 else "memory{}/memory.limit_in_bytes"


@pytest.fixture
def domains(machine: Machine) -> Iterator[tuple[Live, Live]]:
    """An engine with two domains: the calls of the kubelet's, and those of the other one."""
    folder = machine.folder
    places = {"socket_path": "nri.sock", "plugin_path": "plugins", "plugin_config_path": "conf.d"}
    settings = NriConfig(policy_path="", admin_socket="", **{key: str(folder / name) for key, name in places.items()})
    further = {"moby": DomainConfig(socket=str(folder / "docker/cri.sock"))}
    with Live(machine, nri=settings, domains=further) as k8s:
        moby = copy.copy(k8s)
        moby.engine = k8s.engine.domains["moby"]
        moby.engine.images.load(busybox(folder), IMAGE)
        moby.cri = CriClient(moby.engine.config.socket)
        yield k8s, moby
        moby.remove_all()
        moby.cri.close()


@contextmanager
def attached(engine: Engine, plugin: Recorder) -> Iterator[Recorder]:
    """A plugin that takes part."""
    assert engine.nri.adaptation is not None
    session = Attached(plugin, "10", "recorder", "")
    session.connect(engine.nri.adaptation)
    session.wait(engine.nri.adaptation)
    yield plugin
    session.stop()


def memory(live: Live, container: str) -> int:
    """The limit that is in force in the kernel."""
    path = live.engine.inventory.container(container).record.cgroup_path
    return int((CGROUPS / MEMORY.format(path).lstrip("/")).read_text())


def names(live: Live) -> list[str]:
    return [container.metadata.name for container in live.cri.call("ListContainers").containers]


def test_two_clients_have_separate_pods_and_the_same_plugins(domains: tuple[Live, Live]) -> None:
    k8s, moby = domains
    plugin = Recorder()
    plugin.on["create"] = lambda pod, container: nri.Adjustment().add_env("BY", f"plugin-{container.name}")
    with attached(k8s.engine, plugin):
        config = k8s.pod_config("web", network=pb.POD)
        pods = [domain.cri.call("RunPodSandbox", config=config).pod_sandbox_id for domain in domains]
        first, second = k8s.run(pods[0], "a"), moby.run(pods[1], "b")
        assert (names(k8s), names(moby)) == (["a"], ["b"]), "a name, namespace and uid are one pod in each domain"
        for live, name, own_id, foreign in ((k8s, "a", first, second), (moby, "b", second, first)):
            output = live.cri.call("ExecSync", container_id=own_id, cmd=["sh", "-c", "echo $BY"], timeout=20).stdout
            assert output.decode() == f"plugin-{name}\n"
            assert live.cri.refused("ExecSync", container_id=foreign, cmd=["true"])[0] is grpc.StatusCode.NOT_FOUND
            live.cri.call("StopContainer", container_id=foreign)
        assert {k8s.status(first).state, moby.status(second).state} == {pb.CONTAINER_RUNNING}, (
            "none stopped the other's"
        )

        # What plugins want of a container is done in the domain that has it, whichever event they say it at.
        assert plugin.runtime.update(nri.Update(second).set_memory_limit(96 << 20)).result(20) == []
        assert memory(moby, second) == 96 << 20
        plugin.on["stop"] = lambda pod, container: [nri.Update(second).set_memory_limit(64 << 20)]
        k8s.cri.call("StopContainer", container_id=first)
        assert memory(moby, second) == 64 << 20
        del plugin.on["stop"]
        moby.cri.call("RemovePodSandbox", pod_sandbox_id=pods[1])
        assert k8s.cri.call("ListPodSandbox").items and not moby.cri.call("ListPodSandbox").items
        assert plugin.of("b") == ["create", "post_create", "start", "post_start", "stop", "remove"]


def test_after_a_restart_plugins_receive_the_pods_of_both_clients_in_one_request(domains: tuple[Live, Live]) -> None:
    k8s, moby = domains
    container_id = [live.run(live.pod(name), name) for live, name in zip(domains, "ab", strict=True)]
    k8s.daemon.stop()
    k8s.daemon = Daemon(k8s.config)
    k8s.engine, moby.engine = k8s.daemon.engine, k8s.daemon.engine.domains["moby"]
    k8s.daemon.start()
    with attached(k8s.engine, Recorder()) as plugin:
        assert [sorted(entry) for entry in plugin.synchronized[0]] == [["a", "b"], ["a", "b"]]
        for live, container in zip(domains, container_id, strict=True):
            assert live.status(container).state == pb.CONTAINER_RUNNING
            live.cri.call("StopContainer", container_id=container)
        assert [name for event, name in plugin.events if event == "stop"] == ["a", "b"]
