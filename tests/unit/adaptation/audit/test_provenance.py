"""Who changed what in a container: what is kept, and what is worked out of it."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.adaptation.audit.explanation import REQUEST
from nri.adaptation.audit.provenance import Provenance
from nri.api import messages as m
from nri.rules import Rules


class Clock:
    def __init__(self):
        self.now = 1_000_000_000.0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def provenance():
    return Provenance(clock=Clock())


def env(**variables):
    pairs = [m.KeyValue(key=key.replace("remove_", "-"), value=value) for key, value in variables.items()]
    return m.CreateContainerResponse(adjust=m.ContainerAdjustment(env=pairs))


def shares(value, container="c1", kind=m.UpdateContainerResponse):
    reply = kind()
    update = reply.update.add(container_id=container)
    update.linux.resources.cpu.shares.value = value
    return reply


def create(provenance, *replies, container="c1", failed="", touched=(), **parts):
    request = m.CreateContainerRequest(
        pod=m.PodSandbox(namespace="prod", name="web-1"), container=m.Container(id=container, name="web", **parts)
    )
    encoded = [(plugin, reply.SerializeToString()) for plugin, reply in replies]
    provenance.record("CreateContainer", container, request.SerializeToString(), encoded, touched, failed=failed)


def update(provenance, *replies, value=None, container="c1", event="UpdateContainer"):
    request = m.UpdateContainerRequest(container=m.Container(id=container))
    if value is not None:
        request.linux_resources.cpu.shares.value = value
    encoded = [(plugin, reply.SerializeToString()) for plugin, reply in replies]
    provenance.record(event, container, request.SerializeToString(), encoded)


def steps(provenance, container="c1", rules=Rules.DEFAULT):
    made = provenance.explain(container, rules)
    return [(step.event, step.plugin, *step.change[1:]) for step in made.steps]


# --- the chain


def test_the_chain_tells_who_set_what_on_top_of_whom(provenance):
    first, second = env(A="1", B="2"), env(remove_A="", A="3")
    create(provenance, ("00-first", first), ("10-second", second), env=["A=0"])
    assert steps(provenance) == [
        ("CreateContainer", "00-first", "Env", "A", "0", "1"),
        ("CreateContainer", "00-first", "Env", "B", None, "2"),
        ("CreateContainer", "10-second", "Env", "A", "1", "3"),
    ]


def test_a_removal_ends_in_nothing(provenance):
    create(provenance, ("00-first", env(remove_A="")), env=["A=0"])
    assert steps(provenance) == [("CreateContainer", "00-first", "Env", "A", "0", None)]


@pytest.mark.parametrize("rules", [Rules.DEFAULT, Rules.REFERENCE])
def test_fields_that_no_container_shows_have_their_chain_too(provenance, rules):
    def nodes(text):
        policy = m.LinuxMemoryPolicy(nodes=text)
        return m.CreateContainerResponse(
            adjust=m.ContainerAdjustment(linux=m.LinuxContainerAdjustment(memory_policy=policy))
        )

    create(provenance, ("00-first", nodes("0")))
    assert steps(provenance, rules=rules) == [("CreateContainer", "00-first", "MemoryPolicy", "", None, {"nodes": "0"})]


def test_an_update_begins_with_what_the_runtime_asked_for(provenance):
    create(provenance)
    update(provenance, ("10-qos", shares(300)), value=200)
    assert steps(provenance) == [
        ("UpdateContainer", REQUEST, "CPUShares", "", None, 200),
        ("UpdateContainer", "10-qos", "CPUShares", "", 200, 300),
    ]


def test_later_events_go_on_from_what_earlier_ones_left(provenance):
    create(provenance)
    update(provenance, value=100)
    update(provenance, value=200)
    assert [step[4:] for step in steps(provenance)] == [(None, 100), (100, 200)]


def test_updates_from_another_containers_event_are_in_the_chain(provenance):
    create(provenance)
    other = shares(64, "c1", m.CreateContainerResponse)
    create(provenance, ("20-balance", other), container="c2", touched=["c1"])
    assert steps(provenance) == [("CreateContainer", "20-balance", "CPUShares", "", None, 64)]
    assert steps(provenance, "c2") == [], "the update of c1 is told as one of c2"


def test_unsolicited_updates_are_in_the_chain(provenance):
    create(provenance)
    request = shares(64, "c1", m.UpdateContainersRequest).SerializeToString()
    provenance.record("UpdateContainers", "", b"", [("20-balance", request)], ["c1"])
    assert steps(provenance) == [("UpdateContainers", "20-balance", "CPUShares", "", None, 64)]


def test_a_failed_event_is_told_and_changes_nothing(provenance):
    create(provenance)
    request = m.UpdateContainerRequest(container=m.Container(id="c1"))
    request.linux_resources.cpu.shares.value = 5
    provenance.record("UpdateContainer", "c1", request.SerializeToString(), [], failed="10-a said no")
    update(provenance, value=7)
    made = provenance.explain("c1")
    assert [(step.change.before, step.change.after, step.note) for step in made.steps] == [
        (None, 5, "not applied: 10-a said no"),
        (None, 7, ""),
    ]


def test_a_conflict_is_told_with_what_was_wanted(provenance):
    text = 'plugins "10-b" and "00-a" both tried to set Env A'
    create(provenance, ("00-a", env(A="1")), ("10-b", env(A="2")), failed=text)
    made = provenance.explain("c1")
    assert [(step.plugin, step.change.after, step.note) for step in made.steps] == [
        ("00-a", "1", f"not applied: {text}"),
        ("10-b", "2", f"not applied: {text}"),
    ]


def test_outcomes_other_than_applied_become_notes(provenance):
    create(provenance)
    outcomes = [("c1", "CPUShares", "clamped", "to 2"), ("c1", "PidsLimit", "applied", ""), ("c2", "X", "stale", "")]
    provenance.record("UpdateContainers", "", b"", [], ["c1"], outcomes=outcomes)
    assert [text for _, text in provenance.explain("c1").notes] == ["UpdateContainers: CPUShares clamped: to 2"]


def test_a_reply_that_cannot_be_read_becomes_a_note_and_the_rest_still_holds(provenance):
    create(provenance)
    provenance.record("UpdateContainer", "c1", b"", [("10-bad", b"\xff\xff")])
    update(provenance, value=7)
    made = provenance.explain("c1")
    assert len(made.notes) == 1
    assert made.steps[-1].change.after == 7


def test_a_container_that_is_older_than_the_records_starts_with_its_first_event(provenance):
    update(provenance, ("10-qos", shares(9)))
    assert steps(provenance) == [("UpdateContainer", "10-qos", "CPUShares", "", None, 9)]


def test_an_explanation_is_json_with_the_time_in_utc(provenance):
    create(provenance, ("00-first", env(A="1")))
    tree = json.loads(json.dumps(provenance.explain("c1").to_json()))
    assert (tree["name"], tree["pod"]) == ("web", "prod/web-1")
    assert tree["steps"] == [
        {
            "time": "2001-09-09T01:46:41.000Z",
            "event": "CreateContainer",
            "plugin": "00-first",
            "field": "Env",
            "key": "A",
            "before": None,
            "after": "1",
            "note": "",
        }
    ]


def test_rows_show_values_as_people_write_them(provenance):
    create(provenance, ("00-first", env(A="1")))
    row = ("2001-09-09T01:46:41.000Z", "CreateContainer", "00-first", "Env", "A", "-", '"1"', "")
    assert provenance.explain("c1").rows() == [row]


# --- what is kept


def test_of_a_container_that_was_never_seen_nothing_is_known(provenance):
    assert provenance.explain("c9") is None


def test_a_removed_container_is_forgotten(provenance):
    create(provenance)
    provenance.forget("c1")
    assert provenance.explain("c1") is None
    assert provenance.stats()["bytes"] == 0, "its bytes are still counted"


def test_the_container_that_was_touched_longest_ago_is_forgotten_first():
    provenance = Provenance(max_containers=2)
    for name in ("c1", "c2"):
        create(provenance, container=name)
    update(provenance, value=1, container="c1")
    create(provenance, container="c3")
    assert provenance.find("c") == ["c1", "c3"]


def test_bytes_are_bounded_too():
    provenance = Provenance(max_bytes=100_000)
    for number in range(50):
        create(provenance, container=f"c{number}", env=["A=" + "x" * 10_000])
    assert provenance.stats()["bytes"] <= 100_000
    assert provenance.explain("c49") is not None, "the newest was forgotten"


def test_a_container_with_endless_updates_keeps_its_creation_and_the_latest():
    provenance = Provenance(max_records=5)
    create(provenance, ("00-first", env(A="1")))
    for value in range(1, 21):
        update(provenance, value=value)
    made = provenance.explain("c1")
    assert made.steps[0].plugin == "00-first"
    assert made.steps[-1].change.after == 20
    assert (len(made.steps), made.forgotten) == (5, 16)


def test_containers_are_found_by_the_beginning_of_their_id(provenance):
    for name in ("abc", "abd", "ab", "x"):
        create(provenance, container=name)
    assert provenance.find("abc") == ["abc"]
    assert provenance.find("a") == ["ab", "abc", "abd"]
    assert provenance.find("ab") == ["ab"], "an exact id is not ambiguous"


@given(
    st.lists(st.tuples(st.sampled_from(["c1", "c2", "c3", "c4"]), st.integers(0, 3), st.integers(0, 5000)), max_size=60)
)
def test_the_bounds_hold_and_the_count_is_true_whatever_is_recorded(events):
    provenance = Provenance(max_containers=3, max_bytes=20_000, max_records=4)
    for container, what, size in events:
        if what == 0:
            provenance.forget(container)
        else:
            provenance.record("UpdateContainer", container, b"x" * size, [("10-a", b"y" * size)], ["c1"][: what - 1])
        stats = provenance.stats()
        assert stats["containers"] <= 3
        assert stats["bytes"] <= 20_000
    for container in provenance.find(""):
        provenance.forget(container)
    assert provenance.stats()["bytes"] == 0, "bytes are counted wrongly"


@given(st.lists(st.tuples(st.sampled_from(["c1", "c2", "c3"]), st.sampled_from(["record", "forget", "tidy"]))))
def test_sorting_a_little_now_and_then_changes_nothing_of_what_is_known(events):
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
    known = {name: steps(untouched, name) for name in untouched.find("c")}
    assert {name: steps(tidied, name) for name in tidied.find("c")} == known
    assert tidied.stats() == untouched.stats()


def test_sorting_in_between_waits_for_nobody(provenance):
    create(provenance)
    with provenance._lock:
        thread = threading.Thread(target=provenance.tidy, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), "an event waits for somebody who looks at the records"
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
    kept = {name: len(provenance.explain(name).notes) for name in provenance.find("c")}
    assert kept == {f"c{number}": 1000 for number in range(4)}, "records were lost, or sorted into the wrong chain"
