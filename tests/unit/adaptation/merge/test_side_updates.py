"""The merged updates of one event: claims, merges, and ignored or deferred updates with their reason."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.merge.ledger import Ledger
from nri.adaptation.merge.side_updates import NO_CONTAINER, UNKNOWN_CONTAINER, SideUpdates
from nri.api import messages as m
from nri.errors import ConflictError, UpdateError
from nri.rules import Rules
from tests.unit.adaptation.merge.build import Containers, parse, update

SHARES = {"cpu": {"shares": {"value": "5"}}}


def messages(*updates: dict[str, Any]) -> list[m.ContainerUpdate]:
    return [parse(update, m.ContainerUpdate()) for update in updates]


def side(rules: Rules = Rules.DEFAULT, **options: Any) -> SideUpdates:
    return SideUpdates(Ledger(rules), rules, **options)


def take(created: SideUpdates, plugin: str, *updates: dict[str, Any]) -> None:
    created.commit(created.plan(messages(*updates), plugin))


def containers_with(*ids: str, creating: tuple[str, ...] = ()) -> Containers:
    containers = Containers(ids)
    containers.creating = creating
    return containers


def test_updates_of_one_container_by_several_plugins_are_merged() -> None:
    created = side()
    take(created, "10-a", update("x", **SHARES))
    take(created, "20-b", update("x", memory={"limit": {"value": "9"}}))
    (merged,) = created.updates()
    assert (merged.linux.resources.cpu.shares.value, merged.linux.resources.memory.limit.value) == (5, 9)


def test_a_plan_does_not_change_the_updates() -> None:
    created = side()
    created.plan(messages(update("x", **SHARES)), "10-a")
    assert created.updates() == []


@pytest.mark.parametrize(
    ("first", "second", "merged"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_failure_is_ignored_only_if_all_requests_allow_it(first: bool, second: bool, merged: bool) -> None:
    created = side()
    take(created, "10-a", update("x", first, **SHARES))
    take(created, "20-b", update("x", second, memory={"limit": {"value": "9"}}))
    assert created.updates()[0].ignore_failure is merged


def test_a_conflict_with_ignored_failure_is_reported_and_other_updates_apply() -> None:
    created = side()
    take(created, "10-a", update("x", **SHARES))
    take(created, "20-b", update("x", True, **SHARES), update("y", **SHARES))
    assert [entry.container_id for entry in created.updates()] == ["x", "y"]
    (ignored,) = created.ignored
    assert (ignored.plugin, ignored.container_id) == ("20-b", "x")
    assert "both tried to set CPUShares" in ignored.reason


def test_other_conflicts_fail_the_plan() -> None:
    created = side()
    take(created, "10-a", update("x", **SHARES))
    with pytest.raises(ConflictError):
        created.plan(messages(update("x", **SHARES)), "20-b")


def test_updating_the_container_created_by_this_event_is_an_error() -> None:
    created = side(created="new")
    with pytest.raises(UpdateError, match='plugin "10-a" asked update of "new" during creation') as caught:
        created.plan(messages(update("new", **SHARES)), "10-a")
    assert (caught.value.plugin, caught.value.container_id) == ("10-a", "new")


def test_an_update_without_resources_changes_nothing() -> None:
    created = side(requested="ctr", resources=m.LinuxResources())
    take(created, "10-a", {"container_id": "x"}, {"container_id": "ctr"})
    assert (created.updates(), created.revision) == ([], 0)
    assert created.requested() == m.ContainerUpdate()


def test_an_update_of_a_missing_container_is_ignored_with_the_reason() -> None:
    created = side(containers=containers_with("here"))
    take(created, "10-a", update("", **SHARES), update("gone", **SHARES), update("here", **SHARES))
    assert [entry.container_id for entry in created.updates()] == ["here"]
    assert [(entry.container_id, entry.reason) for entry in created.ignored] == [
        ("", NO_CONTAINER),
        ("gone", UNKNOWN_CONTAINER),
    ]


def test_the_requested_container_may_be_unknown() -> None:
    created = side(containers=containers_with(), requested="ctr", resources=m.LinuxResources())
    take(created, "10-a", update("ctr", **SHARES))
    assert created.requested().linux.resources.cpu.shares.value == 5


def test_an_update_of_a_container_in_creation_is_deferred() -> None:
    created = side(containers=containers_with(creating=("soon",)))
    take(created, "10-a", update("soon", **SHARES))
    assert created.updates() == []
    assert [(plugin, entry.container_id) for plugin, entry in created.deferred] == [("10-a", "soon")]


def test_evictions_are_kept_ignored_or_deferred_like_updates() -> None:
    created = side(containers=containers_with("here", creating=("soon",)), created="new")
    evict = [m.ContainerEviction(container_id=name, reason="r") for name in ("here", "gone", "soon", "new", "")]
    created.evict(evict, "10-a")
    assert [eviction.container_id for eviction in created.evictions] == ["here", "new"]
    assert [eviction.container_id for _, eviction in created.deferred_evictions] == ["soon"]
    assert [(entry.container_id, entry.field) for entry in created.ignored] == [
        ("gone", "evict"),
        ("", "evict"),
    ]


def test_in_the_reference_evictions_of_replies_are_dropped() -> None:
    created = side(Rules.REFERENCE)
    created.evict([m.ContainerEviction(container_id="x")], "10-a")
    assert created.evictions == []


def test_evictions_are_added_to_a_reply() -> None:
    created = side()
    created.evict([m.ContainerEviction(container_id="x", reason="why")], "10-a")
    reply = m.CreateContainerResponse()
    created.fill_evictions(reply.evict)
    assert [(update.container_id, update.reason) for update in reply.evict] == [("x", "why")]
