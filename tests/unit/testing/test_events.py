"""Events of the test runtime: its pods and containers, and optional arguments."""

from __future__ import annotations

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.errors import PluginError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc.waiters import ARRIVALS


def test_an_update_changes_the_container_and_is_recorded(nri_runtime: FakeRuntime) -> None:
    plugin = Notes()
    nri_runtime.add(plugin).create_container(None, make_container(id="c", cpu_shares=5))
    update = nri.Update("c").set_cpu_shares(7)
    assert plugin.runtime.update(update).result(timeout=20) == []
    assert nri_runtime.containers["c"].linux.resources.cpu.shares.value == 7
    assert nri_runtime.updates == [update]


def test_a_refused_update_fails_and_changes_no_container(nri_runtime: FakeRuntime) -> None:
    plugin = Notes()
    nri_runtime.add(plugin).create_container(None, make_container(id="c", cpu_shares=5))
    nri_runtime.refuse_updates.add("c")
    updates = [nri.Update("c").set_cpu_shares(7), nri.Update("nobody")]
    failed = plugin.runtime.update(updates).result(timeout=20)
    assert [entry.container_id for entry in failed] == ["c", "nobody"]
    may_fail = nri.Update("c").set_cpu_shares(7).set_ignore_failure()
    assert plugin.runtime.update(may_fail).result(timeout=20) == [], "as runtimes answer"
    assert nri_runtime.containers["c"].linux.resources.cpu.shares.value == 5
    assert nri_runtime.updates == []


@pytest.mark.parametrize("by", ["its creation", "an update of it", "a plugin by itself"])
def test_an_earlier_answer_applied_late_keeps_later_values(nri_runtime: FakeRuntime, by: str) -> None:
    nri_runtime.add(Sets800(by))
    parts = parts_of(nri_runtime.adaptation)
    peer = parts.registry.find("10-sets800")
    assert peer is not None
    requested = [nri.Update("c").set_cpu_shares(700).set_cpu_quota(5000).message]
    earlier = next(ARRIVALS)
    nri_runtime.create_container(None, make_container(id="c", cpu_shares=5))
    if by == "an update of it":
        nri_runtime.update_container(resources=nri.Update("c").set_cpu_period(9000))
    elif by == "a plugin by itself":
        itself = m.UpdateContainersRequest(update=[nri.Update("c").set_cpu_shares(800).message])
        parts.handshake.updates.unsolicited(peer, itself, next(ARRIVALS))
    failed = parts.handshake.updates.unsolicited(peer, m.UpdateContainersRequest(update=requested), earlier)
    cpu = nri_runtime.containers["c"].linux.resources.cpu
    assert (cpu.shares.value, cpu.quota.value) == (800, 5000)
    assert [entry.container_id for entry in failed] == ["c"], "the reply lists the failed update"


def test_evictions_are_recorded_in_order(nri_runtime: FakeRuntime) -> None:
    plugin = Notes()
    nri_runtime.add(plugin)
    for name, reason in (("a", ""), ("b", "too loud")):
        nri_runtime.create_container(None, make_container(id=name))
        plugin.runtime.evict(name, reason).result(timeout=20)
    assert nri_runtime.evictions == [nri.Eviction("a"), nri.Eviction("b", "too loud")]


def test_by_default_an_event_uses_the_last_pod_and_container() -> None:
    first, second, plugin = make_pod(), make_pod(), Notes()
    inside = make_container(pod=first)
    with FakeRuntime(pods=[first, second], containers=[inside]) as runtime:
        runtime.add(plugin)
        runtime.start_container(first)
        runtime.start_container()
        runtime.start_container()
        assert len(runtime.containers) == 2
    assert plugin.seen == [f"{first.id} {inside.id}", *[f"{second.id} {[*runtime.containers][-1]}"] * 2]


def test_an_unknown_pod_is_added(nri_runtime: FakeRuntime) -> None:
    nri_runtime.run_pod_sandbox()
    (created,) = nri_runtime.pods
    pod = make_pod()
    nri_runtime.run_pod_sandbox(pod)
    assert created and [*nri_runtime.pods] == [created, pod.id]


class Sets800(nri.Plugin):
    """Gives containers 800 shares, in one kind of event."""

    def __init__(self, event: str) -> None:
        self.event = event

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        return nri.Adjustment().set_cpu_shares(800) if self.event == "its creation" else None

    def update_container(
        self, pod: nri.PodSandbox, container: nri.Container, resources: m.LinuxResources
    ) -> list[nri.Update]:
        return [nri.Update(container.id).set_cpu_shares(800)]


class Notes(nri.Plugin):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        if container.name == "stays":
            raise nri.Reject("no")

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen.append(f"{pod.id} {container.id}")

    def update_container(self, pod: nri.PodSandbox, container: nri.Container, resources: m.LinuxResources) -> None:
        self.seen.append(f"shares {resources.cpu.shares.value}")

    def update_pod_sandbox(
        self, pod: nri.PodSandbox, overhead: m.LinuxResources | None, resources: m.LinuxResources | None
    ) -> None:
        self.seen.append(f"pod {pod.name}")


def test_a_created_container_has_the_plugins_changes(nri_runtime: FakeRuntime) -> None:
    class Adds(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return nri.Adjustment().add_env("A", "1")

    nri_runtime.add(Adds())
    nri_runtime.create_container(None, make_container(id="c"))
    assert list(nri_runtime.containers["c"].env) == ["A=1"]


def test_a_container_without_a_pod_gets_the_events_pod(nri_runtime: FakeRuntime) -> None:
    pod = make_pod()
    nri_runtime.create_container(pod, m.Container(id="c"))
    assert nri_runtime.containers["c"].pod_sandbox_id == pod.id


def test_a_refused_removal_keeps_the_container(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Notes())
    nri_runtime.create_container(None, make_container(id="c", name="stays"))
    with pytest.raises(PluginError):
        nri_runtime.remove_container()
    assert "c" in nri_runtime.containers


@pytest.mark.parametrize("argument", ["message", "builder", "nothing"])
def test_resources_of_an_update_can_be_a_message_a_builder_or_omitted(nri_runtime: FakeRuntime, argument: str) -> None:
    plugin = Notes()
    nri_runtime.add(plugin)
    nri_runtime.create_container(None, make_container(id="c", cpu_shares=3))
    update = nri.Update("c").set_cpu_shares(7)
    expected = {"message": update.resources, "builder": update, "nothing": None}[argument]
    nri_runtime.update_container(None, None, expected)
    assert plugin.seen == ["shares 0" if argument == "nothing" else "shares 7"]
    assert nri_runtime.containers["c"].linux.resources.cpu.shares.value == (3 if argument == "nothing" else 7)


def test_a_pods_update_reaches_plugins(nri_runtime: FakeRuntime) -> None:
    plugin = Notes()
    nri_runtime.add(plugin)
    nri_runtime.update_pod_sandbox(make_pod(name="web"))
    assert plugin.seen == ["pod web"]


def test_every_event_of_the_table_is_a_method(nri_runtime: FakeRuntime) -> None:
    missing = [spec.method for spec in EVENTS if spec.relayed and not callable(getattr(nri_runtime, spec.method, None))]
    assert missing == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.create_container("web"), r"a pod first, not str: write make_pod\(\)"),
        (lambda r: r.run_pod_sandbox(make_container()), "a pod first, not Container"),
        (
            lambda r: r.create_container(make_pod(), make_pod()),
            r"a container after the pod, not PodSandbox: .*container=",
        ),
        (lambda r: r.start_container(None, "app"), "a container after the pod, not str"),
        (
            lambda r: r.update_container(resources=nri.resources_of(make_container())),
            r"resources last, not ReceivedResources: write nri.Update\(container\)",
        ),
    ],
)
def test_an_argument_of_a_wrong_type_is_an_error_with_the_right_form(call, words: str) -> None:
    with FakeRuntime() as runtime, pytest.raises(nri.NriError, match=words):
        call(runtime)
