"""The containers that there are, as the merge asks for them."""

from nri.adaptation.audit.inventory import Inventory
from nri.testing import make_container, make_pod


def test_a_container_is_being_created_then_known_then_gone() -> None:
    inventory = Inventory()
    known = inventory.known
    inventory.creating("c", "web")
    assert (known.is_creating("c"), "c" in known, known.namespace_of("c")) == (True, False, "web")
    inventory.created("c", make_pod(namespace="web"), b"")
    assert (known.is_creating("c"), "c" in known, len(known), known.namespace_of("c")) == (False, True, 1, "web")
    inventory.removed("c")
    assert (known.is_creating("c"), "c" in known, len(known), known.namespace_of("c")) == (False, False, 0, None)


def test_a_container_whose_creation_was_refused_was_never_there() -> None:
    inventory = Inventory()
    known = inventory.known
    inventory.creating("c", "web")
    inventory.not_created("c")
    assert (known.is_creating("c"), "c" in known, known.namespace_of("c")) == (False, False, None)


def test_a_state_that_was_read_anew_is_seen_through_the_same_view() -> None:
    inventory = Inventory()
    known = inventory.known
    inventory.seed(
        inventory.begin(), [make_pod(id="p", namespace="db")], [make_container(id="old", pod_sandbox_id="p")]
    )
    assert ("old" in known, known.namespace_of("old")) == (True, "db")
