"""Which containers there are."""

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


def known(inventory: Inventory, *ids: str) -> list[bool]:
    return [id_ in inventory.known for id_ in ids]


def created(inventory: Inventory, pod: Any, container: Any, adjust: Any) -> None:
    resources = container.linux.resources.SerializeToString() + adjust.linux.resources.SerializeToString()
    inventory.created(container.id, pod, resources)


def test_takes_over_the_state_of_the_runtime() -> None:
    inventory = inventory_of("a")
    assert known(inventory, "a", "b") == [True, False]
    assert inventory.known.namespace_of("a") == "web"
    resources = inventory.resources_of("a")
    assert resources is not None
    assert resources.cpu.shares.value == 7


def test_follows_creation_update_and_removal() -> None:
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
    assert known(inventory, "a") == [False]


def test_what_events_tell_while_a_state_is_on_its_way_is_newer() -> None:
    """Also if two plugins join at the same time, and their states arrive in another order."""
    inventory = inventory_of("old", "going")
    first = inventory.begin()
    second = inventory.begin()
    created(inventory, make_pod(), make_container(id="new"), m.ContainerAdjustment())
    inventory.removed("going")
    state = [make_container(id="old"), make_container(id="going")]
    inventory.seed(second, [], state)
    assert known(inventory, "old", "going", "new") == [True, False, True]
    created(inventory, make_pod(), make_container(id="newer"), m.ContainerAdjustment())
    inventory.seed(first, [], state)
    assert known(inventory, "old", "going", "new", "newer") == [True, False, True, True]


def test_a_container_that_the_state_does_not_have_is_kept_once() -> None:
    inventory = inventory_of("a")
    inventory.seed(inventory.begin(), [], [])
    assert known(inventory, "a") == [True], "it may be just in the making"
    inventory.seed(inventory.begin(), [], [])
    assert known(inventory, "a") == [False], "it must not stay for ever"


def test_a_pod_goes_with_its_containers() -> None:
    inventory = Inventory()
    pod = make_pod()
    for text in ("a", "b"):
        created(inventory, pod, make_container(id=text), m.ContainerAdjustment())
    created(inventory, make_pod(), make_container(id="c"), m.ContainerAdjustment())
    assert sorted(inventory.pod_removed(pod.id)) == ["a", "b"]
    assert known(inventory, "a", "b", "c") == [False, False, True]


def test_resources_of_a_container_do_not_grow_with_the_number_of_its_updates() -> None:
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


def test_what_waits_for_a_creation_is_bounded() -> None:
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
def test_of_what_waits_for_a_creation_a_plugins_later_answer_counts_whichever_comes_first(first: int) -> None:
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


def test_what_is_asked_of_a_container_is_kept_while_it_is_created_and_told_once_that_has_succeeded() -> None:
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


def test_a_container_for_which_something_waits_is_not_committed_before_that_is_handed_over() -> None:
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


def test_a_container_is_being_created_then_known_then_gone() -> None:
    inventory = Inventory()
    names = inventory.known
    inventory.creating("c", "web")
    assert (names.is_creating("c"), "c" in names, names.namespace_of("c")) == (True, False, "web")
    inventory.created("c", make_pod(namespace="web"), b"")
    assert (names.is_creating("c"), "c" in names, len(names), names.namespace_of("c")) == (False, True, 1, "web")
    inventory.removed("c")
    assert (names.is_creating("c"), "c" in names, len(names), names.namespace_of("c")) == (False, False, 0, None)


def test_a_container_whose_creation_was_refused_was_never_there() -> None:
    inventory = Inventory()
    names = inventory.known
    inventory.creating("c", "web")
    inventory.not_created("c")
    assert (names.is_creating("c"), "c" in names, names.namespace_of("c")) == (False, False, None)


def test_a_state_that_was_read_anew_is_seen_through_the_same_view() -> None:
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


def test_a_creation_whose_block_ends_well_is_there_until_it_is_committed() -> None:
    inventory = Inventory()
    with inventory.creating("c", "default"):
        assert not inventory.created("c", make_pod(), b"", uncommitted=True)
    assert inventory.known.is_creating("c")
    assert inventory.committed("c")
    assert not inventory.known.is_creating("c")
