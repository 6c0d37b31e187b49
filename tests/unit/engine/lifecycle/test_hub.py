"""Several domains behind one adaptation."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation import OrderedUpdates, UpdateResult
from nri.api import messages as m
from nri.engine.config import NriConfig
from nri.engine.lifecycle.hub import NriHub
from nri.engine.support.errors import EngineError
from nri.testing.plugin_connection import Attached
from tests.support.waiting import wait_for


class Domain:
    """A domain that only remembers."""

    def __init__(self, name: str, *containers: str) -> None:
        self.name, self.ids = name, containers
        self.updated: list[str] = []
        self.evicted: list[str] = []

    def snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        pod = m.PodSandbox(id=f"pod-{self.name}", namespace=self.name)
        return [pod], [m.Container(id=entry, pod_sandbox_id=pod.id) for entry in self.ids]

    def has(self, container_id: str) -> bool:
        return container_id in self.ids

    def update(
        self, updates: list[m.ContainerUpdate], order: Callable[[m.ContainerUpdate], int] | None = None
    ) -> list[UpdateResult]:
        self.updated += [event.container_id for event in updates]
        return [UpdateResult(event) for event in updates]

    def evict(self, evictions: list[m.ContainerEviction]) -> None:
        self.evicted += [event.container_id for event in evictions]


def hub(folder: Path, *domains: Domain, **changes: Any) -> NriHub:
    paths = {key: str(folder / key) for key in ("socket_path", "plugin_path", "plugin_config_path")}
    config = NriConfig(**{**paths, "policy_path": "", "admin_socket": "", "disable_connections": True, **changes})
    nri_hub = NriHub(config, "1", folder / "plugins.json")
    for domain in domains:
        nri_hub.register(domain)
    return nri_hub


def await_text(path: Path, text: str) -> None:
    """Wait until a file has this text."""
    wait_for(lambda: path.exists() and path.read_text() == text, lambda: f"{path} never was {text}")


def update(container_id: str) -> m.ContainerUpdate:
    container_update = m.ContainerUpdate(container_id=container_id)
    container_update.linux.resources.cpu.shares.value = 5
    return container_update


def test_an_update_goes_to_the_domain_that_has_the_container(tmp_path: Path) -> None:
    one, two = Domain("k8s.io", "a"), Domain("moby", "b")
    results = hub(tmp_path, one, two).update(OrderedUpdates([update("b"), update("a"), update("c")]))
    assert (one.updated, two.updated) == (["a"], ["b"])
    assert [result.failed for result in results] == [False, False, True]
    assert "no container 'c'" in results[2].fields[0].reason


def test_an_id_of_two_domains_is_refused(tmp_path: Path) -> None:
    one, two = Domain("k8s.io", "same"), Domain("moby", "same")
    both = hub(tmp_path, one, two)
    (result,) = both.update(OrderedUpdates([update("same")]))
    both.evict([m.ContainerEviction(container_id="same")])
    assert result.failed and "several domains: k8s.io, moby" in result.fields[0].reason
    assert one.updated == two.updated == one.evicted == two.evicted == []


def test_an_eviction_goes_to_the_domain_that_has_the_container(tmp_path: Path) -> None:
    one, two = Domain("k8s.io", "a"), Domain("moby", "b")
    hub(tmp_path, one, two).evict([m.ContainerEviction(container_id="b")])
    assert (one.evicted, two.evicted) == ([], ["b"])


def test_two_domains_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="moby"):
        hub(tmp_path, Domain("moby"), Domain("moby"))


def test_plugins_receive_all_domains_and_are_remembered_for_the_next_start(tmp_path: Path) -> None:
    class Plugin(nri.Plugin):
        names: list[str]

        def synchronize(self, pods: Any, containers: Any) -> None:
            self.names = [*(pod.namespace for pod in pods), *(container.id for container in containers)]

    hub_ = hub(tmp_path, Domain("k8s.io", "a"), Domain("moby", "b"))
    hub_.start()
    plugin = Plugin()
    attached = Attached(plugin, "10", "p", "")
    try:
        assert hub_.adaptation is not None
        attached.connect(hub_.adaptation)
        attached.wait(hub_.adaptation)
        assert plugin.names == ["k8s.io", "moby", "a", "b"]
        hub_.stop()
    finally:
        attached.stop()
    assert (tmp_path / "plugins.json").read_text() == '["10-p"]'


def test_a_slowly_synchronizing_plugin_is_remembered_after_joining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    class Plugin(nri.Plugin):
        def synchronize(self, pods: Any, containers: Any) -> None:
            assert go_on.wait(20)

    monkeypatch.setattr("nri.engine.lifecycle.hub.RECORD_DELAY_S", 0.01)
    hub_ = hub(tmp_path, Domain("k8s.io"))
    hub_.start()
    attached = Attached(Plugin(), "10", "slow", "")
    try:
        assert hub_.adaptation is not None
        attached.connect(hub_.adaptation)
        await_text(tmp_path / "plugins.json", "[]")
        go_on.set()
        attached.wait(hub_.adaptation)
        await_text(tmp_path / "plugins.json", '["10-slow"]')  # as an engine that is killed now leaves it
    finally:
        attached.stop()
        hub_.stop()


def test_without_nri_there_is_no_adaptation_and_no_socket(tmp_path: Path) -> None:
    hub_ = hub(tmp_path, Domain("k8s.io"), disable=True)
    hub_.start()
    hub_.await_return()
    hub_.stop()
    assert hub_.adaptation is None and [*tmp_path.iterdir()] == []


def test_a_socket_that_cannot_be_created_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as connection_:
        connection_.bind(str(tmp_path / "held"))
        connection_.listen()
        hub_ = hub(tmp_path, disable_connections=False, socket_path=str(tmp_path / "held"))
        with pytest.raises(EngineError, match=r"NRI cannot listen"):
            hub_.start()
