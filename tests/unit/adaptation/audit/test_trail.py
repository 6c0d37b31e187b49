"""Records of events in an adaptation with real plugins."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

import nri
from nri.adaptation import OrderedUpdates, SequenceNumbers
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.audit.trail import AuditTrail
from nri.adaptation.containers.update_result import UpdateResult
from nri.adaptation.merge.side_updates import UNKNOWN_CONTAINER, Eviction, IgnoredRequest
from nri.adaptation.registration.deferred_updates import DeferredUpdates
from nri.api import messages as m
from nri.errors import ConflictError
from nri.testing import FakeRuntime, make_container, make_pod


class Inject(nri.Plugin):
    def create_container(self, pod, container):
        return nri.Adjustment().add_env("A", "1")


class Balance(nri.Plugin):
    """Takes from the first container whenever another one is created, stopped or updated."""

    def create_container(self, pod, container):
        return None if container.id == "first" else nri.Update("first").set_cpu_shares(100)

    def update_container(self, pod, container, resources):
        return nri.Update(container.id).set_cpu_shares(300)

    def stop_container(self, pod, container):
        return nri.Update("first").set_cpu_shares(200)


@pytest.fixture
def node():
    with FakeRuntime() as runtime:
        yield runtime


def create(node: FakeRuntime, name: str):
    pod = make_pod(name="web", namespace="prod")
    return pod, node.create_container(pod, make_container(name=name, pod=pod, id=name)).container


def chain(node: FakeRuntime, container: str) -> list[tuple[object, ...]]:
    explanation = node.adaptation.provenance.explain(container)
    return [
        (step.event, step.plugin, step.change.field, step.change.before, step.change.after)
        for step in explanation.steps
    ]


def test_an_adjustment_is_in_the_history(node):
    node.add(Inject())
    create(node, "first")
    assert chain(node, "first") == [("CreateContainer", "10-inject", "Env", None, "1")]


def test_the_whole_life_of_a_container_is_one_history(node):
    node.add(Balance())
    pod, first = create(node, "first")
    create(node, "second")
    node.update_container(pod, first, nri.Update("first").set_cpu_shares(150))
    _, third = create(node, "third")
    node.stop_container(pod, third)
    assert [step[:2] + step[3:] for step in chain(node, "first")] == [
        ("CreateContainer", "10-balance", None, 100),
        ("UpdateContainer", "(request)", 100, 150),
        ("UpdateContainer", "10-balance", 150, 300),
        ("CreateContainer", "10-balance", 300, 100),
        ("StopContainer", "10-balance", 100, 200),
    ]


def test_changes_by_the_runtime_are_in_the_history(node):
    pod, first = create(node, "first")
    node.update_container(pod, first, nri.Update("first").set_cpu_shares(150))
    assert chain(node, "first") == [("UpdateContainer", "(request)", "CPUShares", None, 150)]


def test_a_failed_creation_is_in_the_history_with_its_reason(node):
    node.add(Inject()).add(Inject(), idx="20")
    with pytest.raises(ConflictError) as caught:
        create(node, "first")
    steps = node.adaptation.provenance.explain("first").steps
    assert [(step.plugin, step.note) for step in steps] == [
        ("10-inject", f"not applied: {caught.value}"),
        ("20-inject", f"not applied: {caught.value}"),
    ]


def test_unsolicited_updates_are_in_the_history(node):
    plugin = Inject()
    node.add(plugin)
    create(node, "first")
    plugin.runtime.update(nri.Update("first").set_cpu_shares(64)).result(timeout=20)
    assert chain(node, "first")[-1] == ("UpdateContainers", "10-inject", "CPUShares", None, 64)


def test_a_removed_container_has_no_history(node):
    node.add(Inject())
    pod, first = create(node, "first")
    node.remove_container(pod, first)
    assert node.adaptation.provenance.explain("first") is None


def test_the_containers_of_a_removed_pod_have_no_history(node):
    node.add(Inject())
    pod, _ = create(node, "first")
    node.remove_pod_sandbox(pod)
    assert node.adaptation.provenance.explain("first") is None


def test_answers_of_shadow_plugins_are_not_in_the_history():
    with FakeRuntime(policy='["10-inject"]\nshadow = true') as node:
        node.add(Inject())
        create(node, "first")
        assert chain(node, "first") == []
        assert node.health("10-inject").latency_s > 0, "it was not asked"


def test_a_runtime_without_provenance_has_no_history():
    with FakeRuntime(provenance=False) as node:
        node.add(Inject())
        create(node, "first")
        assert node.adaptation.provenance is None


def shares(container: str, value: int) -> m.ContainerUpdate:
    update = m.ContainerUpdate(container_id=container)
    update.linux.resources.cpu.shares.value = value
    return update


class Runtime:
    """A trail over a runtime with the container `c`, whose share is 1; `updates` has what its callback applied."""

    def __init__(self, provenance: Provenance | None) -> None:
        self.updates: list[tuple[str, int]] = []
        self.refuses = False
        self.trail = AuditTrail(self.update, provenance)
        pod, container = make_pod(id="p"), make_container(id="c", cpu_shares=1)
        container.pod_sandbox_id = pod.id
        self.trail.inventory.seed(self.trail.inventory.begin(), [pod], [container])

    def update(self, updates: list[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
        self.updates += [(update.container_id, update.linux.resources.cpu.shares.value) for update in updates]
        return updates[:1] if self.refuses else []

    def ask(self, request: m.UpdateContainersRequest, number: int = 1) -> list[m.ContainerUpdate]:
        encoded = request.SerializeToString()
        return self.trail.apply("UpdateContainers", "10-a", encoded, list(request.update), SequenceNumbers(number))

    @property
    def present(self) -> int:
        resources = self.trail.inventory.resources_of("c")
        assert resources is not None
        return resources.cpu.shares.value


@pytest.fixture(params=[True, False], ids=["with history", "without"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return Runtime(Provenance() if request.param else None)


def test_a_plugins_update_counts_unless_it_failed(runtime: Runtime) -> None:
    request, runtime.refuses = m.UpdateContainersRequest(update=[shares("c", 5)]), True
    assert runtime.ask(request) == list(request.update)
    assert runtime.present == 1
    runtime.refuses = False
    assert runtime.ask(request) == []
    assert runtime.present == 5


def test_an_update_whose_callback_raises_does_not_count(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "updates", None)
    with pytest.raises(TypeError):
        runtime.ask(m.UpdateContainersRequest(update=[shares("c", 5)]))
    assert runtime.present == 1


def test_unsolicited_requests_are_kept_as_bytes() -> None:
    """Messages use far more memory than their bytes: 500 unsorted requests used 300 MiB."""

    def count_resources() -> int:
        gc.collect()
        return sum(type(entry) is m.LinuxResources for entry in gc.get_objects())

    runtime, before = Runtime(Provenance()), count_resources()
    for value in range(1, 10):
        request = m.UpdateContainersRequest(update=[shares("c", value)] * 10)
        runtime.ask(request, value)
    del request
    assert count_resources() == before


def test_an_update_refused_by_policy_changes_nothing_and_is_in_the_history(runtime: Runtime) -> None:
    accepted, refused = (m.UpdateContainersRequest(update=[shares("c", value)]) for value in (5, 7))
    runtime.ask(accepted)
    runtime.trail.refused("UpdateContainers", "10-a", refused.SerializeToString(), refused.update, "not allowed")
    assert runtime.present == 5
    if runtime.trail.provenance is not None:
        explained = runtime.trail.provenance.explain("c")
        assert explained is not None
        assert [(step.change.after, step.note) for step in explained.steps] == [
            (5, ""),
            (7, "not applied: not allowed"),
        ]


def test_a_refused_update_of_an_unknown_container_creates_no_history(runtime: Runtime) -> None:
    """Otherwise refused updates of a plugin could evict the histories of real containers."""
    refused = m.UpdateContainersRequest(update=[shares("c", 5)])
    runtime.trail.refused("UpdateContainers", "10-a", refused.SerializeToString(), refused.update, "not allowed")
    assert runtime.present == 1
    if runtime.trail.provenance is not None:
        assert runtime.trail.provenance.explain("c") is None


@pytest.mark.parametrize("how", ["container_removed", "not_created", "pod_removed"])
def test_a_removed_container_is_forgotten_with_its_history(runtime: Runtime, how: str) -> None:
    runtime.ask(m.UpdateContainersRequest(update=[shares("c", 5)]))
    removed = {"container_removed": make_container(id="c"), "not_created": "c", "pod_removed": make_pod(id="p")}[how]
    getattr(runtime.trail, how)(removed)
    assert runtime.trail.inventory.resources_of("c") is None
    if runtime.trail.provenance is not None:
        assert runtime.trail.provenance.explain("c") is None


def test_an_update_can_be_undone_and_failed_restorations_are_reported(runtime: Runtime) -> None:
    updates, by, runtime.refuses = (
        OrderedUpdates([shares("c", 5), shares("nobody", 5)], SequenceNumbers(1)),
        object(),
        True,
    )
    runtime.trail.updated(updates, by)
    assert runtime.present == 5
    failed = runtime.trail.undo("CreateContainer", updates, by)
    assert (runtime.present, runtime.updates) == (1, [("c", 1)])
    assert [update.container_id for update in failed] == ["c"]


def test_a_runtime_can_undo_updates_by_itself(runtime: Runtime) -> None:
    updates, by, arguments = OrderedUpdates([shares("c", 5)], SequenceNumbers(1)), object(), []
    runtime.trail.updated(updates, by)
    assert runtime.trail.undo("CreateContainer", updates, by, arguments.extend) == []
    assert ([update.container_id for update in arguments], runtime.updates, runtime.present) == (["c"], [], 1)


def test_applied_outcomes_are_not_recorded(runtime: Runtime) -> None:
    runtime.trail.committed("UpdateContainer", [], object(), [UpdateResult(shares("c", 5))])
    if runtime.trail.provenance is not None:
        assert runtime.trail.provenance.explain("c") is None
    runtime.trail.committed(
        "UpdateContainer", [], object(), [UpdateResult(shares("c", 5)).mark_clamped("cpu.shares", 2, "its parent")]
    )
    if runtime.trail.provenance is not None:
        explained = runtime.trail.provenance.explain("c")
        assert [text for _, text in explained.notes] == ["UpdateContainer: cpu.shares clamped: its parent"]


@pytest.mark.pure
def test_an_eviction_of_a_meanwhile_created_container_reaches_the_runtime() -> None:
    trail = AuditTrail(lambda _: None, None)
    updates = DeferredUpdates(trail, None)
    trail.inventory.created("there", make_pod(), b"")
    requests = [("10-p", m.ContainerEviction(container_id=text, reason="why")) for text in ("there", "gone")]
    side = SimpleNamespace(deferred=[], deferred_evictions=requests, evictions=[], ignored=[])
    messages: list[tuple[str, str, str]] = []
    reporting = SimpleNamespace(left_out=lambda *words: messages.append(words))
    assert updates.defer_for_event(side, "StopContainer", {}, reporting) == []  # type: ignore[arg-type]
    assert side.evictions == [Eviction("10-p", "there", "why")]
    assert side.ignored == [IgnoredRequest("10-p", "gone", "evict", UNKNOWN_CONTAINER)]
    assert messages == [("10-p", "StopContainer", "gone")]
