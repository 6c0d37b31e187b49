"""The runtime's result of an update reaches the reply, the caller and the history."""

from __future__ import annotations

import pytest

import nri
from nri.adaptation import UpdateResult
from nri.adaptation.containers.update_result import results_of
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod


def update(container_id: str = "c1", **attributes: bool) -> m.ContainerUpdate:
    built = nri.Update(container_id).set_cpu_shares(200_000).set_memory_limit(1 << 30).set_rdt_class("gold")
    built.message.linux.resources.unified["memory.high"] = "1G"
    built.message.linux.resources.hugepage_limits.add(page_size="2MB", limit=1)
    if attributes.get("ignore_failure"):
        built.set_ignore_failure()
    return built.message


def test_every_requested_field_counts_as_applied_by_default() -> None:
    result = UpdateResult(update())
    names = {"memory.limit", "cpu.shares", "hugepage_limits[2MB]", "rdt_class", "unified[memory.high]"}
    assert {row.field for row in result.fields} == names
    assert {row.outcome for row in result.fields} == {"applied"}
    assert not result.failed


def test_clamped_is_not_a_failure_and_has_the_value() -> None:
    result = UpdateResult(update()).mark_clamped("cpu.shares", 1024, "its parent's share")
    assert not result.failed
    assert "cpu.shares clamped to 1024: its parent's share" in repr(result)
    row = next(row for row in result.to_json()["fields"] if row["field"] == "cpu.shares")
    assert row == {"field": "cpu.shares", "outcome": "clamped", "reason": "its parent's share", "value": 1024}


def test_unsupported_and_stale_are_failures() -> None:
    assert UpdateResult(update()).mark_unsupported("rdt_class", "no resctrl").failed
    stale = UpdateResult.all_stale(update(), "the container has stopped")
    assert stale.failed
    assert {row.outcome for row in stale.fields} == {"stale"}


def test_a_refusal_by_the_oci_runtime_covers_all_fields_that_had_not_failed() -> None:
    result = UpdateResult(update()).mark_unsupported("rdt_class", "no resctrl").mark_clamped("cpu.shares", 2, "why")
    outcomes = {row.field: row.outcome for row in result.mark_refused("runc: busy").fields}
    assert outcomes.pop("rdt_class") == "unsupported"
    assert (set(outcomes.values()), result.failed) == ({"refused"}, True)
    alone = UpdateResult(update()).mark_refused("runc: busy", "cpu.shares")
    assert [row.field for row in alone.fields if row.outcome == "refused"] == ["cpu.shares"]


def test_an_exception_can_be_the_reason() -> None:
    assert UpdateResult(update(shares=True)).mark_stale(OSError("gone")).fields[0].reason == "gone"


def test_marking_a_field_that_was_not_requested_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"field cpu\.quota is not in the update of"):
        UpdateResult(update()).mark_unsupported("cpu.quota", "no")


def test_failed_results_become_failed_updates_of_the_reply() -> None:
    good, bad, ignored = update("good"), update("bad"), update("ignored", ignore_failure=True)
    answers = [UpdateResult(bad).mark_unsupported("rdt_class", "x"), UpdateResult.all_stale(ignored, "gone")]
    failed, results = results_of([good, bad, ignored], answers)
    assert [entry.container_id for entry in failed] == ["bad"]
    assert [result.failed for result in results] == [False, True, True]


def test_a_runtime_may_return_only_the_failed_updates() -> None:
    failed, results = results_of([update("a"), update("b")], [update("b")])
    assert [entry.container_id for entry in failed] == ["b"]
    assert {row.outcome for row in results[1].fields} == {"refused"}
    assert results_of([update("a")], None)[0] == []


class Asks(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> list[nri.Update]:
        return [nri.Update("other").set_cpu_shares(200_000)]


@pytest.fixture
def other() -> m.Container:
    return make_container(id="other", name="other")


def test_the_outcome_of_a_side_update_is_in_the_history(nri_runtime: FakeRuntime, other: m.Container) -> None:
    pod = make_pod()
    nri_runtime.create_container(pod, other)
    nri_runtime.add(Asks(), idx="10")
    reply = nri_runtime.adaptation.create_container(pod, make_container(id="new", name="new"))
    reply.commit([UpdateResult(reply.updates[0]).mark_clamped("cpu.shares", 1024, "its parent's share")])
    provenance = nri_runtime.adaptation.provenance
    assert provenance is not None
    explained = provenance.explain("other")
    assert explained is not None
    assert "cpu.shares clamped: its parent's share" in str(explained.to_json())


def test_a_failed_update_event_reverts_side_updates(nri_runtime: FakeRuntime, other: m.Container) -> None:
    class Takes(nri.Plugin):
        def update_container(self, pod, container, resources):
            return [nri.Update("other").set_cpu_shares(7)]

    pod, own_entry = make_pod(), make_container(id="mine", name="mine")
    other.linux.resources.cpu.shares.value = 512
    nri_runtime.create_container(pod, other)
    nri_runtime.create_container(pod, own_entry)
    nri_runtime.add(Takes(), idx="10")
    reply = nri_runtime.adaptation.update_container(pod, own_entry, m.LinuxResources())
    assert [update.linux.resources.cpu.shares.value for update in reply.updates] == [7]
    assert reply.abort() == []
    undone = nri_runtime.updates[-1]
    assert (undone.container_id, undone.message.linux.resources.cpu.shares.value) == ("other", 512)


@pytest.mark.parametrize(
    ("returned", "what"), [(5, "int"), (True, "bool"), (["c1"], "str in a list"), ("c1", "str in a list")]
)
def test_a_wrong_return_value_of_the_update_callback_is_an_error_with_advice(returned, what: str) -> None:
    with pytest.raises(
        TypeError, match=rf"the runtime's update callback returned {what}: it must return None for all applied"
    ):
        results_of([update()], returned)


def test_a_result_accepts_a_builder() -> None:
    built = nri.Update("c1").set_cpu_shares(7)
    result: UpdateResult = UpdateResult(built)
    assert (result.update, [row.field for row in result.fields]) == (built.message, ["cpu.shares"])


@pytest.mark.parametrize(("arguments", "what"), [("c1", "str"), (nri.Adjustment(), "Adjustment"), (None, "NoneType")])
def test_a_result_of_a_wrong_type_is_an_error_with_advice(arguments, what: str) -> None:
    with pytest.raises(TypeError, match=rf"UpdateResult\(\) requires a ContainerUpdate or nri\.Update, not {what}"):
        UpdateResult(arguments)


def test_a_commit_of_a_wrong_type_is_an_error_and_can_still_be_aborted(
    nri_runtime: FakeRuntime, other: m.Container
) -> None:
    nri_runtime.create_container(make_pod(), other)
    nri_runtime.add(Asks(), idx="10")
    reply = nri_runtime.adaptation.create_container(make_pod(), make_container(id="new", name="new"))
    wrong: list = [1]
    with pytest.raises(TypeError, match=r"commit\(\): each result must be an UpdateResult, not int"):
        reply.commit(wrong)
    reply.abort()
    assert nri_runtime.updates[-1].container_id == "other"
