"""CreateContainer events: adjustments by plugins, validation, and the end of the creation."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import nri
from nri.adaptation import BuiltinPlugin, Restoration, SequenceNumbers
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.errors import ConflictError, PluginError, UpdateError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.wire import bytes_field
from tests.support.adapting import RawPlugin, response
from tests.support.made_plugins import Mode, Quiet, both, plugin


@both
def test_validators_see_the_names_of_answering_plugins(mode: Mode) -> None:
    calls: list[list[str]] = []

    class Validator:
        def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> None:
            calls.append([plugin.name for plugin in request.plugins])

    class Adjusts(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    with FakeRuntime(compat=mode, builtin=[BuiltinPlugin("99", "validator", Validator())]) as runtime:
        runtime.add(Quiet()).add(Adjusts())
        runtime.create_container()
    assert calls == [["adjusts"] if mode == "default" else ["quiet", "adjusts", "validator"]]


@both
def test_hooks_only_when_set(mode: Mode) -> None:
    calls: list[bool] = []

    class Validator:
        def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> None:
            calls.append(request.adjust.HasField("hooks"))

    hooks = {"plain": nri.Adjustment().add_env("A", "1"), "hooked": nri.Adjustment().add_hooks(_hooks())}

    class Adjusts(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return hooks[container.name]

    with FakeRuntime(compat=mode, builtin=[BuiltinPlugin("99", "validator", Validator())]) as runtime:
        runtime.add(Adjusts())
        for name in hooks:
            runtime.create_container(None, make_container(name=name))
    assert calls == ([False, True] if mode == "default" else [True, True])


def _hooks() -> m.Hooks:
    return m.Hooks(prestart=[m.Hook(path="/bin/true")])


def test_hooks_and_resources_of_one_plugin_both_apply(nri_runtime: FakeRuntime) -> None:
    hooks = m.Hooks(prestart=[m.Hook(path="/bin/true")])
    nri_runtime.add(plugin("a", create_container=lambda *_: nri.Adjustment().add_hooks(hooks).set_cpu_shares(7)))
    adjust = nri_runtime.create_container().adjust
    assert [hook.path for hook in adjust.message.hooks.prestart] == ["/bin/true"]
    assert adjust.cpu_shares == 7


def test_variables_are_added_replaced_and_removed(nri_runtime: FakeRuntime) -> None:
    change = nri.Adjustment().add_env("NEW", "1").add_env("OLD", "2").remove_env("GONE")
    nri_runtime.add(plugin("a", create_container=lambda *_: change))
    reply = nri_runtime.create_container(make_pod(), make_container(env={"OLD": "1", "GONE": "1", "KEPT": "1"}))
    assert reply.env == {"NEW": "1", "OLD": "2"}
    assert reply.removed()["env"] == ["GONE"]
    assert nri.env_of(reply.container) == {"KEPT": "1", "NEW": "1", "OLD": "2"}


def test_soft_and_hard_limits_are_not_swapped(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(plugin("a", create_container=lambda *_: nri.Adjustment().add_rlimit("RLIMIT_NOFILE", 4096, 1024)))
    (limit,) = nri_runtime.create_container().adjust.message.rlimits
    assert (limit.hard, limit.soft) == (4096, 1024)


def test_a_conflict_about_an_annotation_names_both_plugins_and_the_key(nri_runtime: FakeRuntime) -> None:
    for name in ("a", "b"):
        nri_runtime.add(plugin(name, create_container=lambda *_: nri.Adjustment().add_annotation("k", "v")), name=name)
    with pytest.raises(ConflictError, match='plugins "10-b" and "10-a" both tried to set Annotations k'):
        nri_runtime.create_container()


def test_a_plugin_cannot_update_the_container_in_creation(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime, events=8).join()

    from tests.support.adapting import response

    update = m.ContainerUpdate(container_id="c1")
    reply = m.CreateContainerResponse(update=[update])
    answering = threading.Thread(
        target=lambda: (raw.wait_for(b"CreateContainer"), raw.sock.sendall(response(5, reply)))
    )
    answering.start()
    with pytest.raises(UpdateError, match='plugin "10-raw" asked update of "c1" during creation'):
        nri_runtime.create_container(make_pod(), make_container(id="c1"))
    answering.join()
    raw.close()


def test_side_updates_are_reverted_if_the_creation_fails_later(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="other", cpu_shares=100, memory_limit=1000))
    nri_runtime.add(plugin("a", create_container=lambda *_: nri.Update("other").set_cpu_shares(5)))
    created = nri_runtime.create_container(make_pod(), make_container())
    assert created.updates["other"].cpu_shares == 5
    created.abort()
    (undo,) = nri_runtime.updates
    assert (undo.container_id, undo.cpu_shares, undo.memory_limit) == ("other", 100, None), "of this alone"
    created.abort()
    assert len(nri_runtime.updates) == 1, "a second abort does nothing"


def test_fields_without_an_earlier_value_are_unset_by_the_revert(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="other", cpu_shares=100))
    update = nri.Update("other").set_cpu_shares(5).set_memory_limit(1000).set_pids_limit(9).set_cpuset_cpus("0")
    nri_runtime.add(plugin("a", create_container=lambda *_: update))
    restored: list[Restoration] = []
    created = nri_runtime.adaptation.create_container(make_pod(), make_container())
    created.abort(restored.extend)
    assert nri_runtime.updates == []
    (back,) = restored
    assert (back.container_id, back.resources.cpu.shares.value) == ("other", 100)
    assert back.unset == ("memory.limit", "cpu.cpus", "pids")
    nri_runtime.adaptation.create_container(make_pod(), make_container()).abort()
    (undo,) = nri_runtime.updates
    assert (undo.cpu_shares, undo.memory_limit, undo.pids_limit) == (100, -1, -1)


def test_a_committed_creation_cannot_be_aborted(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="other", cpu_shares=100))
    nri_runtime.add(plugin("a", create_container=lambda *_: nri.Update("other").set_cpu_shares(5)))
    created = nri_runtime.create_container(make_pod(), make_container())
    created.commit()
    created.abort()
    assert nri_runtime.updates == []


def test_evictions_reach_the_runtime(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(None, make_container(id="noisy"))
    raw = RawPlugin(nri_runtime, events=8).join()

    from tests.support.adapting import response

    reply = m.CreateContainerResponse(evict=[m.ContainerEviction(container_id="noisy", reason="too loud")])
    answering = threading.Thread(
        target=lambda: (raw.wait_for(b"CreateContainer"), raw.sock.sendall(response(5, reply)))
    )
    answering.start()
    (eviction,) = nri_runtime.create_container().evictions
    answering.join()
    assert (eviction.container_id, eviction.reason) == ("noisy", "too loud")
    raw.close()


def test_without_answers_the_adjustment_is_present_and_empty(nri_runtime: FakeRuntime) -> None:
    reply = nri_runtime.create_container()
    assert isinstance(reply.reply.adjust, m.ContainerAdjustment)
    assert reply.env == {} and reply.annotations == {}


def test_a_failed_creation_leaves_no_container(nri_runtime: FakeRuntime) -> None:
    def refuse(*_: Any) -> None:
        raise nri.Reject("no")

    nri_runtime.add(plugin("a", create_container=refuse))
    with pytest.raises(PluginError):
        nri_runtime.adaptation.create_container(make_pod(), make_container(id="c"))
    names = parts_of(nri_runtime.adaptation).trail.inventory.known
    assert not names.is_creating("c") and "c" not in names


def test_an_aborted_creation_is_forgotten(nri_runtime: FakeRuntime) -> None:
    reply = nri_runtime.adaptation.create_container(make_pod(), make_container(id="c"))
    assert "c" in parts_of(nri_runtime.adaptation).trail.inventory.known
    reply.abort()
    assert "c" not in parts_of(nri_runtime.adaptation).trail.inventory.known
    assert nri_runtime.adaptation.provenance is not None
    assert nri_runtime.adaptation.provenance.explain("c") is None


def test_a_created_containers_resources_include_the_adjustment(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(plugin("a", create_container=lambda *_: nri.Adjustment().set_cpu_shares(7)))
    container = make_container(id="c", cpu_shares=3, memory_limit=9)
    nri_runtime.adaptation.create_container(make_pod(), container)
    resources = parts_of(nri_runtime.adaptation).trail.inventory.resources_of("c")
    assert resources is not None
    assert (resources.cpu.shares.value, resources.memory.limit.value) == (7, 9)


def test_the_reply_has_owners_and_the_adjusted_container(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(plugin("a", create_container=lambda *_: nri.Adjustment().add_env("A", "1")))
    reply = nri_runtime.adaptation.create_container(make_pod(), make_container(id="c"))
    assert list(reply.container.env) == ["A=1"]
    assert reply.owners.owners["c"].compound[m.Field.Env].owners["A"] == "10-a"
    assert (reply.updates, reply.evictions, reply.ignored) == ([], [], [])


def test_every_plugin_sees_the_changes_of_earlier_ones(nri_runtime: FakeRuntime) -> None:
    calls: list[list[str]] = []

    def see(pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        calls.append(list(container.env))
        return nri.Adjustment().add_env(f"A{len(calls)}", "1")

    for idx in ("10", "20", "30"):
        nri_runtime.add(plugin("a", create_container=see), idx=idx)
    nri_runtime.create_container()
    assert calls == [[], ["A1=1"], ["A1=1", "A2=1"]]


@pytest.mark.parametrize("plugins", [1, 2])
def test_a_created_container_records_answer_order_so_that_older_answers_change_nothing(plugins: int) -> None:
    answers = [nri.Adjustment().set_cpu_shares(5), nri.Adjustment().set_memory_limit(7)][:plugins]
    with FakeRuntime() as runtime:
        for number, answer in enumerate(answers):
            runtime.add(plugin(f"p{number}", create_container=lambda *_, arguments=answer: arguments), f"{number + 1}0")
        runtime.create_container(make_pod(), make_container(id="c1"))
        inventory = parts_of(runtime.adaptation).trail.inventory
        older = m.LinuxResources()
        older.cpu.shares.value = older.memory.limit.value = 1
        inventory.updated("c1", older, SequenceNumbers(0))
        resources = inventory.resources_of("c1")
    assert resources is not None
    assert (resources.cpu.shares.value, resources.memory.limit.value) == ((5, 1) if plugins == 1 else (5, 7))


class Encoded:
    """A message's bytes, whatever they are."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def SerializeToString(self) -> bytes:
        return self.data


@pytest.mark.parametrize(
    "odd",
    [b"\x0a\x80\x80\x80\x80\x80\x00", bytes_field(1, b"\x0b" * 100 + b"\x0c" * 100)],
    ids=["a length with idle bytes", "groups as deep as the decoder takes"],
)
def test_an_unusual_accepted_answer_breaks_no_later_event_and_no_history(odd: bytes) -> None:
    with FakeRuntime() as runtime:
        runtime.add(plugin("p", create_container=lambda *_: nri.Adjustment().set_cpu_shares(5)), "20")
        raw = RawPlugin(runtime, events=1 << m.Event.Value("CREATE_CONTAINER") - 1).join()
        creation = threading.Thread(target=runtime.create_container, args=(make_pod(), make_container(id="c1")))
        creation.start()
        raw.wait_for(b"CreateContainer")
        raw.sock.sendall(response(5, Encoded(odd)))
        creation.join()
        older = m.LinuxResources()
        older.cpu.shares.value = 1
        inventory, provenance = parts_of(runtime.adaptation).trail.inventory, runtime.adaptation.provenance
        inventory.updated("c1", older, SequenceNumbers(0))
        resources = inventory.resources_of("c1")
        raw.close()
        assert resources is not None and resources.cpu.shares.value == 5
        assert provenance is not None and (story := provenance.explain("c1")) is not None
        assert [step.plugin for step in story.steps] == ["20-p"], story.notes
