"""Records of changes to a container: bounded, and without delaying events."""

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.adaptation.audit import provenance as provenance_module
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.audit.record import parts_of
from tests.support.histories import Clock, create, env, ids, shares, steps, update


def test_an_unknown_container_has_no_history(provenance):
    assert provenance.explain("c9") is None


def test_a_removed_container_is_forgotten(provenance):
    create(provenance)
    provenance.forget("c1")
    assert provenance.explain("c1") is None
    assert provenance.stats()["bytes"] == 0, "its bytes are still counted"


def test_a_failed_creation_keeps_its_history_until_space_is_required():
    provenance = Provenance(max_containers=2)
    create(provenance, ("10-a", env(A="1")))
    provenance.not_created("c1", "runc: \x1b" + "x" * 10_000)
    provenance.forget("c1")
    explanation = provenance.explain("c1")
    assert [(step.plugin, step.change.key, step.note) for step in explanation.steps] == [
        ("10-a", "A", "not applied: the container was not created")
    ]
    assert explanation.refused[1].startswith(r"the runtime failed after the plugins' answers: runc: \x1bxxx")
    assert len(explanation.refused[1]) < 5000
    for name in ("c2", "c3"):
        create(provenance, container=name)
    assert ids(provenance, "c") == ["c2", "c3"], "it goes as a whole, and before those that are there"


def test_refused_requests_for_another_container_are_forgotten_without_its_history():
    provenance = Provenance(max_containers=3)
    create(provenance)
    create(provenance, ("10-a", shares(9)), container="c2", touched=["c1"], failed="refused")
    for name in ("c3", "c4", "c5"):
        create(provenance, container=name)
        update(provenance, value=7)
    assert ids(provenance, "c") == ["c1", "c4", "c5"]


def test_a_retried_creation_that_succeeds_is_forgotten_at_its_removal():
    provenance = Provenance()
    create(provenance, failed="refused")
    create(provenance)
    assert provenance.explain("c1").refused is None
    provenance.forget("c1")
    assert provenance.explain("c1") is None


def test_a_retried_creation_with_the_same_id_keeps_its_history():
    provenance = Provenance(max_containers=3, clock=Clock())
    create(provenance, ("10-a", env(A="1")))
    provenance.not_created("c1", "runc failed")
    create(provenance, ("10-a", env(A="2")))
    for name in ("c2", "c3", "c4"):
        create(provenance, container=name)
        update(provenance, value=7)
    assert ids(provenance, "c") == ["c1", "c3", "c4"]
    assert [step.change.after for step in provenance.explain("c1").steps if step.change.key == "A"][-1] == "2"


@pytest.mark.parametrize("what", ["many updates", "a clock that is set back"])
def test_a_retried_creation_keeps_its_history_after_further_changes(what):
    clock = Clock()
    provenance = Provenance(max_containers=3, max_records=4, clock=clock)
    create(provenance, ("10-a", env(A="1")))
    provenance.not_created("c1", "runc failed")
    if what == "a clock that is set back":
        clock.now -= 1000
    create(provenance, ("10-a", env(A="2")))
    for name in ("c2", "c3"):
        create(provenance, container=name)
    for value in range(6 if what == "many updates" else 1):
        update(provenance, value=value + 1)
    create(provenance, container="c4")
    assert ids(provenance, "c") == ["c1", "c3", "c4"]


def test_the_latest_thousand_refused_creations_are_kept():
    provenance = Provenance()
    for number in range(1001):
        create(provenance, container=f"c{number}", failed="refused")
    for number in range(1001):
        provenance.forget(f"c{number}")
    assert "c0" not in ids(provenance) and len(ids(provenance)) == 1000


def test_a_removal_concurrent_with_failing_creations_raises_nothing(monkeypatch):
    """Each event has its own thread, so that an exception here would fail the event."""
    monkeypatch.setattr(provenance_module, "MAX_REMOVED", 0)
    provenance, over = Provenance(), threading.Event()

    def remove():
        while not over.is_set():
            provenance.forget("c1")

    interval_s, thread = sys.getswitchinterval(), threading.Thread(target=remove)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(3000):
            provenance.record("CreateContainer", "c1", b"", (), failed="refused")
    finally:
        sys.setswitchinterval(interval_s)
        over.set()
        thread.join()


def test_the_least_recently_changed_container_is_forgotten_first():
    provenance = Provenance(max_containers=2)
    for name in ("c1", "c2"):
        create(provenance, container=name)
    update(provenance, value=1, container="c1")
    create(provenance, container="c3")
    assert ids(provenance, "c") == ["c1", "c3"]


def test_the_number_of_bytes_is_limited():
    provenance = Provenance(max_bytes=100_000)
    for number in range(50):
        create(provenance, container=f"c{number}", env=["A=" + "x" * 10_000])
    assert provenance.stats()["bytes"] <= 100_000
    assert provenance.explain("c49") is not None, "the newest was forgotten"


def test_a_container_with_endless_updates_keeps_its_creation_and_the_latest_updates():
    provenance = Provenance(max_records=5)
    create(provenance, ("00-first", env(A="1")))
    for value in range(1, 21):
        update(provenance, value=value)
    explanation = provenance.explain("c1")
    assert explanation.steps[0].plugin == "00-first"
    assert explanation.steps[-1].change.after == 20
    assert (len(explanation.steps), explanation.forgotten) == (5, 16)


def test_containers_are_listed_with_their_names_from_the_newest() -> None:
    provenance = Provenance(clock=Clock())
    create(provenance, container="older")
    update(provenance, value=1, container="before")
    create(provenance, container="newer")
    update(provenance, value=1, container="older")
    names = "web", "web-1", "prod"
    assert [one.id for one in provenance.containers()] == ["newer", "before", "older"]
    assert [one[1:4] for one in provenance.containers()] == [names, ("", "", ""), names]


def test_old_creations_are_packed_and_explained_like_new_ones() -> None:
    provenance = Provenance(clock=Clock())
    sizes = []
    for number in range(1000):
        variables = [f"VARIABLE_{n}=value" for n in range(100)]
        create(provenance, ("10-a", env(VARIABLE_1="1")), ("20-b", env(B="2")), container=f"c{number}", env=variables)
        sizes.append(provenance.stats()["bytes"])
    assert sizes[999] < 5 * sizes[99], "ten times as many containers"
    assert steps(provenance, "c0") == steps(provenance, "c999") != []
    oldest = provenance.containers()[-1]
    assert (oldest.id, *oldest[1:4]) == ("c0", "web", "web-1", "prod")
    update(provenance, value=7, container="c0")
    assert steps(provenance, "c0")[-1][-1] == 7
    for number in range(1000):
        provenance.forget(f"c{number}")
    assert provenance.stats()["bytes"] == 0, "bytes are counted wrongly"


def test_containers_removed_before_packing_are_harmless() -> None:
    provenance = Provenance(clock=Clock())
    for number in range(400):
        create(provenance, ("10-a", env(A="1")), container=f"c{number}", failed="" if number % 3 else "refused")
        if number % 2:
            provenance.forget(f"c{number}")
    stay = [number for number in range(400) if not number % 2 or not number % 3]
    assert ids(provenance) == sorted(f"c{number}" for number in stay), "why one was refused can be asked for after it"
    assert steps(provenance, "c2") == steps(provenance, "c398")


def test_a_reused_id_starts_a_new_history_even_before_packing() -> None:
    provenance = Provenance(clock=Clock())
    for number in range(300):
        create(provenance, ("10-a", env(A=str(number))), container="c")
        assert steps(provenance, "c")[-1][-1] == str(number)
        provenance.forget("c")
        assert ids(provenance) == []


@given(
    st.lists(st.tuples(st.sampled_from(["c1", "c2", "c3", "c4"]), st.integers(0, 3), st.integers(0, 5000)), max_size=60)
)
def test_limits_and_counts_are_correct_for_any_records(events):
    provenance = Provenance(max_containers=3, max_bytes=20_000, max_records=4)
    for container, what, size in events:
        if what == 0:
            provenance.forget(container)
        else:
            provenance.record("UpdateContainer", container, b"x" * size, [("10-a", b"y" * size)], ["c1"][: what - 1])
        stats = provenance.stats()
        assert stats["containers"] <= 3
        assert stats["bytes"] <= 20_000
    for container in ids(provenance, ""):
        provenance.forget(container)
    assert provenance.stats()["bytes"] == 0, "bytes are counted wrongly"


@given(st.lists(st.tuples(st.sampled_from(["c1", "c2", "c3"]), st.sampled_from(["record", "forget", "tidy"]))))
def test_tidying_does_not_change_the_histories(events):
    tidied, untouched = Provenance(clock=Clock()), Provenance(clock=Clock())
    removed = set()
    for container, what in events:
        if what == "tidy":
            tidied.tidy()
            continue
        if container in removed:  # ids are not used twice
            continue
        for provenance in (tidied, untouched):
            if what == "forget":
                provenance.forget(container)
            else:
                update(provenance, value=1, container=container)
        if what == "forget":
            removed.add(container)
    names = {name: steps(untouched, name) for name in ids(untouched, "c")}
    assert {name: steps(tidied, name) for name in ids(tidied, "c")} == names
    assert tidied.stats() == untouched.stats()


@pytest.mark.pure
def test_sorting_blocks_no_other_thread(provenance, monkeypatch):
    sorting, go = threading.Event(), threading.Event()

    def parts(*arguments):
        sorting.set()
        go.wait(20)
        return parts_of(*arguments)

    monkeypatch.setattr(provenance_module, "parts_of", parts)
    create(provenance, touched=("c2",))
    create(provenance, container="c3")
    looks = threading.Thread(target=provenance.containers)
    looks.start()
    assert sorting.wait(10)
    thread = threading.Thread(target=provenance.tidy, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "an event waits for somebody who looks at the records"
    go.set()
    looks.join()
    assert provenance.explain("c1") is not None


def test_records_of_many_threads_are_all_kept():
    provenance = Provenance(max_records=10_000)

    def work(name):
        for _ in range(1000):
            provenance.record("UpdateContainer", name, b"\xff", [])
            provenance.tidy()

    threads = [threading.Thread(target=work, args=(f"c{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    remaining = {name: len(provenance.explain(name).notes) for name in ids(provenance, "c")}
    assert remaining == {f"c{number}": 1000 for number in range(4)}, "records were lost, or sorted into the wrong chain"


def test_outcomes_are_included_in_the_byte_count(provenance):
    create(provenance)
    before = provenance.stats()["bytes"]
    outcomes = [("c1", "x" * 3000, "clamped", "y" * 2000)]
    provenance.record("UpdateContainer", "c1", b"", (), ["c1"], outcomes=outcomes)
    assert provenance.stats()["bytes"] - before >= 5000
