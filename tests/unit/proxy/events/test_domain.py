"""What plugins are told, and what they are shown, where no call through the proxy comes to it."""

from __future__ import annotations

from nri.api import messages as m
from nri.proxy.events.domain import _present
from nri.proxy.state import ContainerRecord, PodRecord
from tests.engine.node import Recorder
from tests.support.proxied import Proxied


def test_a_pod_is_shown_without_namespaces_that_are_gone() -> None:
    pod = m.PodSandbox(id="p")
    for path in ("/proc/self/ns/net", "/no/such/namespace", ""):
        pod.linux.namespaces.add(type="network", path=path)
    assert [each.path for each in _present(pod).linux.namespaces] == ["/proc/self/ns/net", ""]
    assert len(pod.linux.namespaces) == 3, "the record is as it was"
    del pod.linux.namespaces[1]
    assert _present(pod) is pod


def test_what_plugins_were_never_told_of_ends_without_a_word(world: Proxied) -> None:
    plugin: Recorder = world.attach(Recorder())
    assert world.proxy is not None
    domain, book = world.proxy._domain, world.proxy.book
    pod, container = book.put(PodRecord(id="p")), book.put(ContainerRecord(id="c", runtime_id="r", pod_id="p"))
    domain.undo_create(container)
    domain.remove_pod(pod)
    assert (book.pods(), book.containers(), plugin.events) == ([], [], [])


def test_a_container_whose_pod_is_not_known_is_told_with_its_id(world: Proxied) -> None:
    plugin: Recorder = world.attach(Recorder())
    seen: list[str] = []
    plugin.on["stop"] = lambda pod, container: seen.append(pod.id)
    assert world.proxy is not None
    world.proxy._domain.stop(world.proxy.book.put(ContainerRecord(id="c", pod_id="lost", told="created")))
    assert seen == ["lost"]
