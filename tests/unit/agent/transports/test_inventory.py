"""The inventory of running pods and containers."""

from __future__ import annotations

from nri.agent.model import Container, Pod, Resources
from nri.agent.transports.inventory import InventoryEntry, RuntimeInventory


def filled() -> RuntimeInventory:
    inventory = RuntimeInventory()
    for number in ("1", "2"):
        pod = Pod(uid=f"uid{number}")
        inventory.put_pod(f"p{number}", pod)
        context = Container(pod, id=f"c{number}", env={"A": "b"}, resources=Resources(cfs_quota=7, cpu_shares=2))
        inventory.put(f"c{number}", InventoryEntry(f"p{number}", context))
    return inventory


def test_dropping_a_pod_drops_its_containers() -> None:
    stored = filled()
    assert [entry.context.id for entry in stored.drop_pod("p1")] == ["c1"]
    assert [number for number, _ in stored.containers()] == ["c2"]
    assert stored.pod("p1") is None
    assert stored.drop_pod("p1") == []


def test_pods_and_containers_missing_at_the_runtime_are_forgotten_and_returned() -> None:
    stored = filled()
    assert [pod.uid for pod in stored.keep_only({"p2"}, {"c1", "c2"})] == ["uid1"]
    assert [number for number, _ in stored.pods()] == ["p2"]
    stored.keep_only({"p2"}, set())
    assert stored.counts() == {"nri pods": 1, "nri containers": 0}


def test_two_transports_of_one_agent_have_separate_counts() -> None:
    assert RuntimeInventory("proxy").counts() == {"proxy pods": 0, "proxy containers": 0}
    assert not RuntimeInventory("proxy").counts().keys() & RuntimeInventory("nri").counts().keys()


def test_resources_missing_in_a_request_keep_their_earlier_values() -> None:
    stored = filled()
    known_entry = stored.container("c1")
    assert known_entry is not None
    stored.ask(known_entry, Container(Pod(uid="new"), env={"A": "b"}, resources=Resources(cfs_quota=9)))
    assert known_entry.context.resources == Resources(cfs_quota=9, cpu_shares=2)
    assert known_entry.request_count == 1
    assert (known_entry.context.pod.uid, known_entry.context.env) == ("new", {})


def test_subscribers_are_notified_of_every_change_and_problem() -> None:
    stored, calls = filled(), list[str]()
    stored.subscribe(lambda: calls.append(stored.problem))
    assert not stored.synced
    stored.note_problem("")
    stored.note_problem("gone")
    assert (stored.synced, stored.problem) == (True, "gone")
    known_entry = stored.container("c1")
    assert known_entry is not None
    stored.mark_created(known_entry, known_entry.context)
    assert known_entry.created
    stored.ask(known_entry, known_entry.context)
    stored.drop("c1")
    stored.drop_pod("p1")
    assert len(calls) == 6


def test_the_environment_is_not_stored() -> None:
    known_entry = filled().container("c1")
    assert known_entry is not None
    assert known_entry.context.env == {}


def test_a_container_is_dropped_once() -> None:
    stored = filled()
    assert stored.drop("c1") is not None
    assert stored.drop("c1") is None
