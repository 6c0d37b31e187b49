"""Events of a test's runtime: what they keep of pods and containers, and what a test may leave out."""

from __future__ import annotations

import pytest

import nri
from nri.adaptation import OrderedUpdates
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.errors import PluginError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.testing.events import Contents


def test_an_update_changes_the_container_and_is_noted() -> None:
    container = make_container(cpu_shares=5)
    contents = Contents(containers=[container])
    update = nri.Update(container).set_cpu_shares(7)
    assert contents._update(OrderedUpdates([update.message])) == []
    assert container.linux.resources.cpu.shares.value == 7
    assert contents.updates == [update]


def test_an_update_that_is_refused_or_of_no_container_fails_and_changes_nothing() -> None:
    container = make_container(cpu_shares=5)
    contents = Contents(containers=[container])
    contents.refuse_updates.add(container.id)
    updates = [nri.Update(container).set_cpu_shares(7).message, nri.Update("nobody").message]
    assert contents._update(OrderedUpdates(updates)) == updates
    assert container.linux.resources.cpu.shares.value == 5
    assert contents.updates == []


def test_evictions_are_noted_in_order() -> None:
    contents = Contents()
    contents._evict([m.ContainerEviction(container_id="a"), m.ContainerEviction(container_id="b", reason="c")])
    assert contents.evictions == [nri.Eviction("a"), nri.Eviction("b", "c")]


def test_an_event_without_a_pod_is_of_the_last_pod_and_its_last_container() -> None:
    first, second = make_pod(), make_pod()
    inside = make_container(pod=first)
    contents = Contents([first, second], [inside])
    assert contents._pod(None) is second
    assert contents._container(first, None) is inside
    made = contents._container(second, None)
    assert made.pod_sandbox_id == second.id and contents.containers[made.id] is made


def test_a_pod_that_is_not_known_yet_is_from_now_on() -> None:
    contents, pod = Contents(), make_pod()
    assert contents._pod(pod) is pod and contents.pods == {pod.id: pod}
    made = Contents()._pod(None)
    assert made.id


def test_a_snapshot_is_a_copy_of_the_lists() -> None:
    contents = Contents([make_pod()], [make_container()])
    pods, containers = contents._snapshot()
    pods.clear()
    containers.clear()
    assert (len(contents.pods), len(contents.containers)) == (1, 1)


class Notes(nri.Plugin):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        if container.name == "stays":
            raise nri.Reject("no")

    def update_container(self, pod: nri.PodSandbox, container: nri.Container, resources: m.LinuxResources) -> None:
        self.seen.append(f"shares {resources.cpu.shares.value}")

    def update_pod_sandbox(
        self, pod: nri.PodSandbox, overhead: m.LinuxResources | None, resources: m.LinuxResources | None
    ) -> None:
        self.seen.append(f"pod {pod.name}")


def test_a_container_that_is_created_is_kept_as_plugins_made_it(nri_runtime: FakeRuntime) -> None:
    class Adds(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return nri.Adjustment().add_env("A", "1")

    nri_runtime.add(Adds())
    nri_runtime.create_container(None, make_container(id="c"))
    assert list(nri_runtime.containers["c"].env) == ["A=1"]


def test_a_container_without_a_pod_gets_that_of_the_event(nri_runtime: FakeRuntime) -> None:
    pod = make_pod()
    nri_runtime.create_container(pod, m.Container(id="c"))
    assert nri_runtime.containers["c"].pod_sandbox_id == pod.id


def test_a_removal_that_a_plugin_refuses_removes_nothing_here(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Notes())
    nri_runtime.create_container(None, make_container(id="c", name="stays"))
    with pytest.raises(PluginError):
        nri_runtime.remove_container()
    assert "c" in nri_runtime.containers


@pytest.mark.parametrize("given", ["message", "builder", "nothing"])
def test_resources_of_an_update_may_be_a_message_a_builder_or_left_out(nri_runtime: FakeRuntime, given: str) -> None:
    plugin = Notes()
    nri_runtime.add(plugin)
    nri_runtime.create_container(None, make_container(id="c", cpu_shares=3))
    update = nri.Update("c").set_cpu_shares(7)
    wanted = {"message": update.resources, "builder": update, "nothing": None}[given]
    nri_runtime.update_container(None, None, wanted)
    assert plugin.seen == ["shares 0" if given == "nothing" else "shares 7"]
    assert nri_runtime.containers["c"].linux.resources.cpu.shares.value == (3 if given == "nothing" else 7)


def test_a_pods_update_reaches_plugins(nri_runtime: FakeRuntime) -> None:
    plugin = Notes()
    nri_runtime.add(plugin)
    nri_runtime.update_pod_sandbox(make_pod(name="web"))
    assert plugin.seen == ["pod web"]


def test_every_event_of_the_table_is_a_method(nri_runtime: FakeRuntime) -> None:
    missing = [spec.method for spec in EVENTS if spec.relayed and not callable(getattr(nri_runtime, spec.method, None))]
    assert missing == []
