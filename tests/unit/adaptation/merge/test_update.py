"""UpdateContainer and StopContainer merges: the container's resources and updates of others, all or nothing."""

from __future__ import annotations

from nri.api import messages as m
from tests.unit.adaptation.merge.build import as_json, fold, parse, stop_state, update, update_state

SHARES = {"cpu": {"shares": {"value": "5"}}}


def test_the_next_plugins_request_has_the_changes_of_earlier_ones() -> None:
    state = update_state({"memory": {"limit": {"value": "9"}}})
    fold(state, {"update": [update("ctr", **SHARES)]})
    request = state.request
    assert request.container.id == "ctr"
    resources = request.linux_resources
    assert (resources.cpu.shares.value, resources.memory.limit.value) == (5, 9)
    assert state.revision == 1


def test_the_runtimes_request_is_not_changed() -> None:
    request = parse({"container": {"id": "ctr"}, "linux_resources": SHARES}, m.UpdateContainerRequest())
    from nri.adaptation.merge import UpdateMerge

    state = UpdateMerge(request)
    fold(state, {"update": [update("ctr", cpu={"shares": {"value": "7"}})]})
    assert request.linux_resources.cpu.shares.value == 5


def test_the_requested_containers_update_is_last_and_has_all_its_resources() -> None:
    state = update_state({"memory": {"limit": {"value": "9"}}})
    fold(state, {"update": [update("ctr", **SHARES), update("other", **SHARES)]})
    reply = state.reply().update
    assert [entry.container_id for entry in reply] == ["other", "ctr"]
    assert reply[1].linux.resources.memory.limit.value == 9


def test_an_update_without_changes_by_plugins_has_an_empty_last_update() -> None:
    assert as_json(update_state(SHARES).reply()) == {"update": [{}]}


def test_a_reply_with_a_conflict_leaves_nothing() -> None:
    state = update_state()
    both = {"update": [update("new", **SHARES), update("held", **SHARES)], "evict": [{"container_id": "x"}]}
    error = fold(state, {"update": [update("held", **SHARES)]}, both)
    assert error == 'plugins "20-b" and "10-a" both tried to set CPUShares '
    assert [entry.container_id for entry in state.side.updates()] == ["held"]
    assert state.side.evictions == []
    assert not fold(state, {"update": [update("new", **SHARES)]}), "a claim of the refused reply is left"


def test_owners_are_grouped_by_container() -> None:
    state = update_state()
    fold(state, {"update": [update("ctr", **SHARES)]}, {"update": [update("other", **SHARES)]})
    owners = state.owners().owners
    assert owners["ctr"].simple[m.Field.CPUShares] == "10-a"
    assert owners["other"].simple[m.Field.CPUShares] == "20-b"


def test_a_stop_can_update_other_containers_and_its_own() -> None:
    state = stop_state()
    fold(state, {"update": [update("a", **SHARES), update("ctr", **SHARES)]})
    assert [entry.container_id for entry in state.reply().update] == ["a", "ctr"]
    assert state.owners().owners["a"].simple[m.Field.CPUShares] == "10-a"
    assert state.ignored == []


def test_a_refused_reply_to_a_stop_is_forgotten_with_its_ignored_fields() -> None:
    state = stop_state()
    ignored = update("a", devices=[{"type": "c"}])
    error = fold(state, {"update": [update("b", **SHARES)]}, {"update": [ignored, update("b", **SHARES)]})
    assert "both tried to set CPUShares" in error
    assert state.ignored == []
