"""The inventory of existing containers."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation import SequenceNumbers
from nri.adaptation.containers.inventory import MAX_DEFERRED_BYTES, Inventory, Presence
from nri.api import messages as m
from nri.testing import make_container, make_pod


def inventory_of(*ids: str) -> Inventory:
    inventory = Inventory()
    pod = make_pod(namespace="web")
    inventory.seed(inventory.begin(), [pod], [make_container(id=id_, pod=pod, cpu_shares=7) for id_ in ids])
    return inventory


def are_known(inventory: Inventory, *ids: str) -> list[bool]:
    return [id_ in inventory.known for id_ in ids]


def created(inventory: Inventory, pod: Any, container: Any, adjust: Any) -> None:
    resources = container.linux.resources.SerializeToString() + adjust.linux.resources.SerializeToString()
    inventory.created(container.id, pod, resources)


def test_the_inventory_starts_with_the_state_of_the_runtime() -> None:
    inventory = inventory_of("a")
    assert are_known(inventory, "a", "b") == [True, False]
    assert inventory.known.namespace_of("a") == "web"
    resources = inventory.resources_of("a")
    assert resources is not None
    assert resources.cpu.shares.value == 7


def test_the_inventory_follows_creations_updates_and_removals() -> None:
    inventory = Inventory()
    adjust = m.ContainerAdjustment()
    adjust.linux.resources.memory.limit.value = 5
    created(inventory, make_pod(namespace="x"), make_container(id="a", cpu_shares=1), adjust)
    change = m.LinuxResources()
    change.cpu.shares.value = 2
    inventory.updated("a", change, SequenceNumbers(1))
    resources = inventory.resources_of("a")
    assert resources is not None
    assert (resources.cpu.shares.value, resources.memory.limit.value) == (2, 5)
    inventory.removed("a")
    assert are_known(inventory, "a") == [False]


def test_events_during_a_synchronization_override_its_state() -> None:
    """Also if two plugins join at the same time, and their states arrive in reverse order."""
    inventory = inventory_of("old", "going")
    first = inventory.begin()
    second = inventory.begin()
    created(inventory, make_pod(), make_container(id="new"), m.ContainerAdjustment())
    inventory.removed("going")
    state = [make_container(id="old"), make_container(id="going")]
    inventory.seed(second, [], state)
    assert are_known(inventory, "old", "going", "new") == [True, False, True]
    created(inventory, make_pod(), make_container(id="newer"), m.ContainerAdjustment())
    inventory.seed(first, [], state)
    assert are_known(inventory, "old", "going", "new", "newer") == [True, False, True, True]


def test_a_container_missing_in_a_state_is_kept_once() -> None:
    inventory = inventory_of("a")
    inventory.seed(inventory.begin(), [], [])
    assert are_known(inventory, "a") == [True], "its creation may be in progress"
    inventory.seed(inventory.begin(), [], [])
    assert are_known(inventory, "a") == [False], "it must not stay for ever"


def test_a_removed_pod_removes_its_containers() -> None:
    inventory = Inventory()
    pod = make_pod()
    for text in ("a", "b"):
        created(inventory, pod, make_container(id=text), m.ContainerAdjustment())
    created(inventory, make_pod(), make_container(id="c"), m.ContainerAdjustment())
    assert sorted(inventory.pod_removed(pod.id)) == ["a", "b"]
    assert are_known(inventory, "a", "b", "c") == [False, False, True]


def test_resources_do_not_grow_with_the_number_of_updates() -> None:
    inventory = inventory_of("a")
    for value in range(100):
        update = m.LinuxResources()
        update.hugepage_limits.add(page_size="2MB", limit=value)
        update.devices.add(allow=True, access="rwm")
        update.cpu.shares.value = value % 2
        inventory.updated("a", update, SequenceNumbers(value))
    resources = inventory.resources_of("a")
    assert resources is not None
    assert [hugepage_limit.limit for hugepage_limit in resources.hugepage_limits] == [99]
    assert len(resources.devices) == 0
    assert resources.cpu.shares.value == 1
    zero = m.LinuxResources()
    zero.cpu.shares.SetInParent()
    inventory.updated("a", zero, SequenceNumbers(100))
    resources = inventory.resources_of("a")
    assert resources is not None
    assert resources.cpu.shares.value == 0, "an update to zero is an update"


def test_deferred_updates_and_evictions_are_limited() -> None:
    inventory = Inventory()
    inventory.creating("a", "web")
    for number in range(100):
        update = m.ContainerUpdate(container_id="a")
        update.linux.resources.unified[f"k{number}"] = "x" * 10_000
        presence = inventory.defer_update("10-p", update, "StopContainer", number)
        eviction = m.ContainerEviction(container_id="a", reason=f"{number} " + "x" * 10_000)
        inventory.defer_eviction("10-p", eviction)
    assert presence is Presence.GONE
    inventory.created("a", make_pod(), b"")
    remaining = inventory.take_deferred("a")
    assert remaining is not None
    assert remaining.updates["10-p"][0].ByteSize() <= MAX_DEFERRED_BYTES
    assert list(remaining.evictions) == ["10-p"]
    assert remaining.evictions["10-p"].startswith("99 xxx")
    assert len(remaining.evictions["10-p"]) <= 1024


@pytest.mark.parametrize("first", [1, 2])
def test_of_deferred_updates_a_plugins_later_answer_wins(first: int) -> None:
    inventory = Inventory()
    inventory.creating("a", "web")
    for number in (first, 3 - first):
        update = m.ContainerUpdate(container_id="a")
        update.linux.resources.cpu.shares.value = number
        inventory.defer_update("10-p", update, "StopContainer", number)
    inventory.created("a", make_pod(), b"")
    remaining = inventory.take_deferred("a")
    assert remaining is not None
    assert remaining.updates["10-p"].update.linux.resources.cpu.shares.value == 2


def eviction(container_id: str) -> m.ContainerEviction:
    return m.ContainerEviction(container_id=container_id, reason="why")


def test_requests_for_a_container_in_creation_are_deferred_until_it_succeeds() -> None:
    inventory = inventory_of("old")
    inventory.creating("a", "web")
    requests = {text: m.ContainerUpdate(container_id=text) for text in ("a", "old", "gone")}
    assert inventory.defer_update("10-p", requests["a"], "StopContainer", 1) is Presence.CREATING
    assert inventory.defer_eviction("10-p", eviction("a")) is Presence.CREATING
    assert inventory.created("a", make_pod(), b"", uncommitted=True), "something waits"
    assert inventory.defer_update("10-p", requests["a"], "StopContainer", 2) is Presence.CREATED, (
        "it can be handed over"
    )
    assert inventory.defer_eviction("10-p", eviction("a")) is Presence.CREATED
    for text, presence in (("old", Presence.KNOWN), ("gone", Presence.GONE)):
        assert inventory.defer_update("10-p", requests[text], "StopContainer", 3) is presence
        assert inventory.defer_eviction("10-p", eviction(text)) is presence


def test_a_container_is_committed_after_its_deferred_requests() -> None:
    inventory = Inventory()
    for name in ("plain", "wanted", "unwanted"):
        inventory.creating(name, "web")
    inventory.defer_update("10-p", m.ContainerUpdate(container_id="wanted"), "StopContainer", 1)
    inventory.defer_eviction("10-p", eviction("unwanted"))
    for name, waits in (("plain", False), ("wanted", True), ("unwanted", True)):
        assert inventory.created(name, make_pod(), b"", uncommitted=True) is waits
        assert inventory.committed(name) is not waits
        assert inventory.known.is_creating(name) is waits
    accepted = inventory.take_deferred("wanted")
    assert accepted is not None and list(accepted.updates) == ["10-p"]
    assert not inventory.committed("wanted"), "it is being handed over"
    assert inventory.take_deferred("wanted", continued=True) is None
    assert inventory.committed("wanted")
    assert inventory.committed("never-heard-of")


def test_a_container_is_in_creation_then_known_then_removed() -> None:
    inventory = Inventory()
    names = inventory.known
    inventory.creating("c", "web")
    assert (names.is_creating("c"), "c" in names, names.namespace_of("c")) == (True, False, "web")
    inventory.created("c", make_pod(namespace="web"), b"")
    assert (names.is_creating("c"), "c" in names, len(names), names.namespace_of("c")) == (False, True, 1, "web")
    inventory.removed("c")
    assert (names.is_creating("c"), "c" in names, len(names), names.namespace_of("c")) == (False, False, 0, None)


def test_a_container_with_a_refused_creation_is_unknown() -> None:
    inventory = Inventory()
    names = inventory.known
    inventory.creating("c", "web")
    inventory.not_created("c")
    assert (names.is_creating("c"), "c" in names, names.namespace_of("c")) == (False, False, None)


def test_a_new_state_is_visible_through_the_same_view() -> None:
    inventory = Inventory()
    names = inventory.known
    inventory.seed(
        inventory.begin(), [make_pod(id="p", namespace="db")], [make_container(id="old", pod_sandbox_id="p")]
    )
    assert ("old" in names, names.namespace_of("old")) == (True, "db")


def test_a_creation_whose_block_raises_is_forgotten() -> None:
    inventory = Inventory()

    def refuse() -> None:
        with inventory.creating("c", "default"):
            assert inventory.known.is_creating("c")
            raise KeyError("refused")

    with pytest.raises(KeyError):
        refuse()
    assert not inventory.known.is_creating("c")


def test_an_uncommitted_creation_is_pending_until_its_commit() -> None:
    inventory = Inventory()
    with inventory.creating("c", "default"):
        assert not inventory.created("c", make_pod(), b"", uncommitted=True)
    assert inventory.known.is_creating("c")
    assert inventory.committed("c")
    assert not inventory.known.is_creating("c")
