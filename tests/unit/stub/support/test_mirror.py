"""The mirror of the node is up to date after Synchronize and every event."""

from __future__ import annotations

from nri.api import messages as m
from nri.stub.support.mirror import Mirror
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import CONTAINER, CREATE, POD, Names


def test_the_mirror_follows_synchronize_and_events() -> None:
    class Mirrors(Names):
        mirror = True

    plugin = Mirrors()
    with plugin_thread(plugin) as running:
        runtime = running.runtime
        runtime.begin()
        assert plugin.state.pods == {} == plugin.state.containers
        runtime.call("RunPodSandbox", m.RunPodSandboxRequest(pod=POD))
        runtime.call("CreateContainer", CREATE)
        assert list(plugin.state.containers) == [], "a container that may still fail to be created is not there yet"
        runtime.call("PostCreateContainer", m.PostCreateContainerRequest(pod=POD, container=CONTAINER))
        assert plugin.state.pod_of(plugin.state.containers["c0"]).name == "web"
        stopped = m.Container(id="c0", pod_sandbox_id="p0", state=m.ContainerState.CONTAINER_STOPPED)
        runtime.call("StopContainer", m.StopContainerRequest(pod=POD, container=stopped))
        assert plugin.state.containers["c0"].state == m.ContainerState.CONTAINER_STOPPED
        runtime.call("RemovePodSandbox", m.RemovePodSandboxRequest(pod=POD))
        assert plugin.state.pods == {} == plugin.state.containers


def test_synchronize_replaces_the_mirror_before_the_handler_runs() -> None:
    observed = []

    class Mirrors(Names):
        mirror = True

        def synchronize(self, pods, containers):
            observed.append((list(self.state.pods), list(self.state.containers)))

    plugin = Mirrors()
    with plugin_thread(plugin) as running:
        running.runtime.register()
        running.runtime.configure()
        running.runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD], containers=[CONTAINER]))
        running.runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD]))
    assert observed == [(["p0"], ["c0"]), (["p0"], [])]


def mirror() -> Mirror:
    mirror = Mirror()
    mirror.replace([POD, m.PodSandbox(id="p1")], [CONTAINER, m.Container(id="c1", pod_sandbox_id="p1")])
    return mirror


def test_a_removed_container_leaves_the_mirror() -> None:
    full_mirror = mirror()
    full_mirror.apply_event("RemoveContainer", POD, CONTAINER)
    assert (list(full_mirror.pods), list(full_mirror.containers)) == (["p0", "p1"], ["c1"])


def test_a_removed_pod_leaves_the_mirror_with_its_containers() -> None:
    full_mirror = mirror()
    full_mirror.apply_event("RemovePodSandbox", POD, None)
    assert (list(full_mirror.pods), list(full_mirror.containers)) == (["p1"], ["c1"])


def test_an_event_without_a_pod_or_container_does_not_change_the_mirror() -> None:
    full_mirror = mirror()
    for event in ("RemovePodSandbox", "RemoveContainer", "StartContainer"):
        full_mirror.apply_event(event, None, None)
        if event != "RemovePodSandbox":
            full_mirror.apply_event(event, m.PodSandbox(), m.Container())
    assert (list(full_mirror.pods), list(full_mirror.containers)) == (["p0", "p1"], ["c0", "c1"])
