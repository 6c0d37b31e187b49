"""What runs, as it is kept."""

from __future__ import annotations

from nri.agent.model import Container, Pod, Resources
from nri.agent.transports.inventory import InventoryEntry, RuntimeInventory


def filled() -> RuntimeInventory:
    held = RuntimeInventory()
    for number in ("1", "2"):
        pod = Pod(uid=f"uid{number}")
        held.put_pod(f"p{number}", pod)
        context = Container(pod, id=f"c{number}", env={"A": "b"}, resources=Resources(cfs_quota=7, cpu_shares=2))
        held.put(f"c{number}", InventoryEntry(f"p{number}", context))
    return held


def test_a_pod_that_goes_takes_its_containers_along() -> None:
    held = filled()
    assert [each.context.id for each in held.drop_pod("p1")] == ["c1"]
    assert [number for number, _ in held.containers()] == ["c2"]
    assert held.pod("p1") is None
    assert held.drop_pod("p1") == []


def test_what_a_runtime_no_longer_has_is_forgotten_and_its_pods_told() -> None:
    held = filled()
    assert [pod.uid for pod in held.keep_only({"p2"}, {"c1", "c2"})] == ["uid1"]
    assert [number for number, _ in held.pods()] == ["p2"]
    held.keep_only({"p2"}, set())
    assert held.counts() == {"nri pods": 1, "nri containers": 0}


def test_two_transports_of_one_agent_are_counted_beside_each_other() -> None:
    assert RuntimeInventory("proxy").counts() == {"proxy pods": 0, "proxy containers": 0}
    assert not RuntimeInventory("proxy").counts().keys() & RuntimeInventory("nri").counts().keys()


def test_what_the_kubelet_does_not_mention_stays_as_it_asked_before() -> None:
    held = filled()
    known = held.container("c1")
    assert known is not None
    held.ask(known, Container(Pod(uid="new"), env={"A": "b"}, resources=Resources(cfs_quota=9)))
    assert known.context.resources == Resources(cfs_quota=9, cpu_shares=2)
    assert known.request_count == 1
    assert (known.context.pod.uid, known.context.env) == ("new", {})


def test_each_change_is_told_and_what_is_wrong_is_over_when_the_runtime_has_told_all() -> None:
    held, calls = filled(), list[str]()
    held.subscribe(lambda: calls.append(held.problem))
    assert not held.synced
    held.note_problem("")
    held.note_problem("gone")
    assert (held.synced, held.problem) == (True, "gone")
    known = held.container("c1")
    assert known is not None
    held.mark_created(known, known.context)
    assert known.created
    held.ask(known, known.context)
    held.drop("c1")
    held.drop_pod("p1")
    assert len(calls) == 6


def test_the_environment_is_not_kept() -> None:
    known = filled().container("c1")
    assert known is not None
    assert known.context.env == {}


def test_a_container_is_dropped_once() -> None:
    held = filled()
    assert held.drop("c1") is not None
    assert held.drop("c1") is None
