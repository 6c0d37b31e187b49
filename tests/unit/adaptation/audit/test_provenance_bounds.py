"""Limits of provenance: memory stays bounded, and refusals do not evict real histories."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.audit import provenance as provenance_module
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.audit.record import Record, parts_of
from nri.adaptation.audit.trail import AuditTrail
from nri.api import messages as m
from nri.errors import PluginError, Reject
from nri.testing import make_container, make_pod
from tests.support.growing import big
from tests.support.histories import ids


@contextmanager
def allocated() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the bytes that Python has allocated since."""
    gc.collect()
    gc.freeze()  # later collections skip all objects that other tests have loaded
    tracemalloc.start()
    try:
        yield lambda: gc.collect() * 0 + tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.unfreeze()


def create(provenance: Provenance, container: str, failed: str = "") -> None:
    request = m.CreateContainerRequest(container=m.Container(id=container, name=container))
    provenance.record("CreateContainer", container, request.SerializeToString(), [], failed=failed)


def replies(*updates: m.ContainerUpdate) -> list[tuple[str, bytes]]:
    return [("10-p", m.UpdateContainersRequest(update=updates).SerializeToString())]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_refused_reply_never_evicts_real_histories() -> None:
    provenance = Provenance()
    real = [f"real{n}" for n in range(50)]
    for container in real:
        create(provenance, container)
    bogus = [f"bogus{n}" for n in range(2001)]
    updates = [big.update(entry) for entry in bogus]
    provenance.record("UpdateContainers", "", b"", replies(*updates), bogus, "10-p may not do that")
    trail = AuditTrail(lambda updates: None, provenance)
    trail.refused("UpdateContainers", "10-p", b"", updates, "10-p may not do that")
    assert ids(provenance, "real") == sorted(real)
    assert ids(provenance, "bogus") == []


@pytest.mark.parametrize("limit", [60, 300], ids=["few", "more than those that are compressed first"])
def test_refused_creations_are_evicted_before_existing_containers(limit: int) -> None:
    provenance = Provenance(max_containers=limit)
    for n in range(50):
        create(provenance, f"real{n}")
    for n in range(500):
        create(provenance, f"refused{n}", "10-p said no")
    assert len(ids(provenance, "real")) == 50
    assert ids(provenance, "refused")[-1:] == ["refused499"], "the last refusals can be asked for"


def test_large_refusals_are_evicted_before_applied_changes() -> None:
    provenance = Provenance(max_bytes=1 << 20)
    for n in range(50):
        create(provenance, f"real{n}")
    update = big.update("real0")
    update.linux.resources.unified["k"] = "x" * 300_000
    for _ in range(100):
        provenance.record("UpdateContainers", "", b"", replies(update), ["real0"], "10-p may not do that")
    assert len(ids(provenance, "real")) == 50
    assert provenance.stats()["bytes"] <= 1 << 20


def test_refusals_are_removed_from_a_long_history_before_applied_changes() -> None:
    provenance = Provenance(max_records=10)
    create(provenance, "c")
    for n in range(1, 9):
        provenance.record("UpdateContainers", "", b"", replies(big.update("c", n)), ["c"])
    for _ in range(50):
        provenance.record("UpdateContainers", "", b"", replies(big.update("c", 99)), ["c"], "no")
    explanation = provenance.explain("c")
    assert explanation is not None
    assert [step.change.after for step in explanation.steps if not step.note] == list(range(1, 9))
    assert explanation.forgotten == 49


def test_a_refusal_for_a_known_container_is_in_its_history() -> None:
    provenance = Provenance()
    create(provenance, "c")
    provenance.record("UpdateContainers", "", b"", replies(big.update("c", 99)), ["c"], "no")
    explanation = provenance.explain("c")
    assert explanation is not None
    assert [(step.change.after, step.note) for step in explanation.steps] == [(99, "not applied: no")]


# -- what is held -----------------------------------------------------------------------------------------------------


def test_a_reply_for_many_containers_is_stored_and_counted_once() -> None:
    ids = [f"c{n}" for n in range(1500)]
    reply = m.StopContainerResponse(update=[big.update(id_) for id_ in ids]).SerializeToString()
    provenance = Provenance()
    for container in ids:
        create(provenance, container)
    for _ in range(20):
        provenance.record("StopContainer", "c0", b"", [("10-p", reply)], ids)
    stats = provenance.stats()
    assert stats["containers"] == 1500, "some were forgotten, though there was room"
    assert stats["bytes"] < 25 << 20
    explanation = provenance.explain("c700")
    assert explanation is not None
    assert len(explanation.steps) == 1
    assert len(explanation.notes) == 0


@pytest.mark.parametrize("what", ["updates of many", "creations", "refused", "outcomes"])
def test_the_statistics_match_the_used_memory(what: str) -> None:
    def fill(provenance: Provenance) -> None:
        for n in range(400):
            ids = [f"c{n}-{number}" for number in range(5)]
            match what:
                case "updates of many":
                    reply = m.StopContainerResponse(update=[big.update(number) for number in ids]).SerializeToString()
                    provenance.record("StopContainer", ids[0], b"", [("10-p", reply)], ids)
                case "creations":
                    create(provenance, ids[0])
                case "refused":
                    create(provenance, ids[0], "no " * 300 + str(n))
                case _:
                    rows = [(ids[0], f"what{n}-{row}", "left out", f"why{n}-{row}") for row in range(10)]
                    provenance.record("StopContainer", ids[0], b"", [], outcomes=rows)
        provenance.stats()

    fill(Provenance())
    with allocated() as holder:
        provenance = Provenance()
        fill(provenance)
        really = holder()
    assert provenance.stats()["containers"] >= 400
    assert really / 2.5 <= provenance.stats()["bytes"] <= really * 2.5, f"{really} bytes are held"


def test_unsorted_records_are_limited_including_replies_and_reasons() -> None:
    provenance = Provenance()
    for n in range(500):
        provenance.record("StopContainer", f"c{n}", b"", [("10-p", b"\x0a" * 100_000)], failed="no" * 100_000)
    assert sum(size_bytes for *_, size_bytes in provenance.loose) < 5 << 20
    assert provenance.stats()["bytes"] <= 32 << 20


def test_large_records_do_not_pile_up_behind_many_small_ones() -> None:
    provenance = Provenance(max_bytes=1 << 20)
    for n in range(500):
        create(provenance, f"small{n}")
    with allocated() as holder:
        for n in range(100):
            provenance.record("CreateContainer", f"big{n}", b"", [("10-p", bytes(1 << 20))], failed="too large")
            assert holder() < 8 << 20, f"of {n + 1} records"


def test_adding_a_large_record_sorts_only_as_many_bytes() -> None:
    provenance = Provenance()
    for n in range(100):
        provenance.record("StopContainer", f"c{n}", b"", [("10-p", bytes(40 << 10))])
    assert len(provenance.loose) == 100, "they wait"
    provenance.record("StopContainer", "big", b"", [("10-p", bytes(1 << 20))])
    assert 100 + 1 - len(provenance.loose) in range(20, 30), f"{len(provenance.loose)} wait still"


def test_refusals_of_four_mebibytes_use_only_the_reported_memory() -> None:
    class Refuses:
        def create_container(self, pod: Any, container: Any) -> None:
            raise Reject(f"{container.id} " + "no " * (4 << 20 >> 2))

    runtime = Adaptation(
        "r", "1", synchronize=lambda: ([], []), update=lambda updates: None, plugin_path="/nonexistent",
        disable_connections=True, policy_path=None, builtin=[BuiltinPlugin("10", "p", Refuses())],
    )  # fmt: skip
    runtime.start()
    with allocated() as holder:
        for n in range(256):
            with pytest.raises(PluginError):
                runtime.create_container(make_pod(), make_container(id=f"c{n}"))
        assert holder() < 8 << 20
    assert len(runtime.plugins[0].last_error) <= 4096
    explanation = runtime.provenance.explain("c7")
    assert explanation is not None and explanation.refused is not None
    assert "(cut: " in explanation.refused[1]
    runtime.stop()


# -- parts ------------------------------------------------------------------------------------------------------------


def test_every_container_has_its_own_part_of_an_answer() -> None:
    reply = m.CreateContainerResponse(update=[big.update("a", 1), big.update("b", 2), big.update("a", 3)])
    reply.adjust.annotations["k"] = "v"
    rows = [("a", "x", "stale", "why"), ("made", "y", "left out", "why")]
    record = Record(1.0, "CreateContainer", "made", b"request", [("10-p", reply.SerializeToString())], "", rows)
    parts = dict(parts_of(record, {"a", "b"}))
    assert set(parts) == {"made", "a", "b"}
    encoded = m.CreateContainerResponse.FromString(parts["made"].replies[0][1])
    assert (dict(encoded.adjust.annotations), len(encoded.update)) == ({"k": "v"}, 0)
    assert parts["made"].request == b"request"
    remote = m.CreateContainerResponse.FromString(parts["a"].replies[0][1])
    assert [entry.linux.resources.cpu.shares.value for entry in remote.update] == [1, 3]
    assert not remote.HasField("adjust")
    assert (list(parts["a"].outcomes), list(parts["made"].outcomes)) == ([rows[0]], [rows[1]])
    assert parts["b"].request == parts["a"].request == b""


def test_an_unreadable_reply_stays_with_its_event() -> None:
    record = Record(1.0, "StopContainer", "c", b"", [("10-bad", b"\xff\xff")])
    parts = dict(parts_of(record, {"a"}))
    assert list(parts["c"].replies) == [("10-bad", b"\xff\xff")]
    assert list(parts["a"].replies) == []


# -- a flood ----------------------------------------------------------------------------------------------------------


def flood(provenance: Provenance, containers: int = 3) -> None:
    """One more request of a plugin for updates of containers."""
    updates = [big.update(f"c{n}") for n in range(containers)]
    touched = tuple(update.container_id for update in updates)
    provenance.record("UpdateContainers", "", b"", replies(*updates), touched)


@pytest.mark.pure
def test_adding_one_record_too_many_sorts_only_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting all took seconds, and an event had to wait if a plugin requested updates without end."""
    sorted_now: list[Record] = []

    def parts(record: Record, other_entries: Any) -> Any:
        sorted_now.append(record)
        return parts_of(record, other_entries)

    monkeypatch.setattr(provenance_module, "parts_of", parts)
    provenance = Provenance()
    limit = total = 0
    for _ in range(1500):
        sorted_now.clear()
        flood(provenance)
        limit, total = max(limit, len(sorted_now)), total + len(sorted_now)
    assert limit == provenance_module.RECORDS_PER_STEP
    assert total >= 1500 - provenance_module.MAX_LOOSE_RECORDS, "what waits is bounded"


@pytest.mark.pure
def test_explain_answers_although_records_arrive_faster_than_they_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    provenance = Provenance()

    def parts(record: Record, other_entries: Any) -> Any:
        for _ in range(2):
            provenance.loose.append(((), (0.0, "UpdateContainers", "", b"", (), "", ()), 0))
        return parts_of(record, other_entries)

    monkeypatch.setattr(provenance_module, "parts_of", parts)
    for _ in range(100):
        flood(provenance)
    assert provenance.stats()["containers"] == 3
    assert ids(provenance, "c") == ["c0", "c1", "c2"]


def test_removed_containers_are_forgotten_while_records_wait() -> None:
    provenance = Provenance()
    for number in range(2000):
        create(provenance, f"gone{number}")
        flood(provenance)
        provenance.forget(f"gone{number}")
    assert len(provenance.loose) > 100, "they wait"
    assert len(provenance.gone) <= 2 * provenance_module.MAX_LOOSE_RECORDS
    assert len(provenance.histories) <= 3 + 2 * provenance_module.MAX_LOOSE_RECORDS
    assert ids(provenance, "gone") == []
    assert not provenance.gone
