"""Records that events keep, on a real runtime side with real plugins."""

import pytest

import nri
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
    with FakeRuntime() as made:
        yield made


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


def test_the_whole_life_of_a_container_is_one_chain(node):
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


def test_what_the_runtime_itself_changes_is_in_the_history_even_if_no_plugin_is_asked(node):
    pod, first = create(node, "first")
    node.update_container(pod, first, nri.Update("first").set_cpu_shares(150))
    assert chain(node, "first") == [("UpdateContainer", "(request)", "CPUShares", None, 150)]


def test_a_creation_that_failed_is_told_with_the_reason(node):
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


def test_the_answers_of_shadow_plugins_are_not_in_the_history():
    with FakeRuntime(policy='["10-inject"]\nshadow = true') as node:
        node.add(Inject())
        create(node, "first")
        assert chain(node, "first") == []


def test_a_runtime_that_wants_no_history_keeps_none():
    with FakeRuntime(provenance=False) as node:
        node.add(Inject())
        create(node, "first")
        assert node.adaptation.provenance is None
