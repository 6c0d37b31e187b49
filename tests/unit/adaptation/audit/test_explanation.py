"""The history of a container, computed from the records of its events."""

import json

import pytest

from nri.adaptation.audit.explanation import REQUEST
from nri.adaptation.audit.record import TAKEN_BACK
from nri.adaptation.containers.answer_order import OVERTAKEN, SequenceNumbers
from nri.api import messages as m
from nri.rules import Rules
from tests.support.histories import create, env, shares, steps, update


def test_the_history_shows_which_plugin_set_a_value_over_another(provenance):
    first, second = env(A="1", B="2"), env(remove_A="", A="3")
    create(provenance, ("00-first", first), ("10-second", second), env=["A=0"])
    assert steps(provenance) == [
        ("CreateContainer", "00-first", "Env", "A", "0", "1"),
        ("CreateContainer", "00-first", "Env", "B", None, "2"),
        ("CreateContainer", "10-second", "Env", "A", "1", "3"),
    ]


def test_a_removal_has_no_value_after_it(provenance):
    create(provenance, ("00-first", env(remove_A="")), env=["A=0"])
    assert steps(provenance) == [("CreateContainer", "00-first", "Env", "A", "0", None)]


@pytest.mark.parametrize("rules", [Rules.DEFAULT, Rules.REFERENCE])
def test_fields_outside_the_container_message_have_a_history(provenance, rules):
    def nodes(text):
        policy = m.LinuxMemoryPolicy(nodes=text)
        return m.CreateContainerResponse(
            adjust=m.ContainerAdjustment(linux=m.LinuxContainerAdjustment(memory_policy=policy))
        )

    create(provenance, ("00-first", nodes("0")))
    assert steps(provenance, rules=rules) == [("CreateContainer", "00-first", "MemoryPolicy", "", None, {"nodes": "0"})]


def test_an_update_starts_with_the_runtimes_request(provenance):
    create(provenance)
    update(provenance, ("10-qos", shares(300)), value=200)
    assert steps(provenance) == [
        ("UpdateContainer", REQUEST, "CPUShares", "", None, 200),
        ("UpdateContainer", "10-qos", "CPUShares", "", 200, 300),
    ]


def test_later_events_continue_from_earlier_values(provenance):
    create(provenance)
    update(provenance, value=100)
    update(provenance, value=200)
    assert [step[4:] for step in steps(provenance)] == [(None, 100), (100, 200)]


def test_updates_from_another_containers_event_are_in_the_history(provenance):
    create(provenance)
    other = shares(64, "c1", m.CreateContainerResponse)
    create(provenance, ("20-balance", other), container="c2", touched=["c1"])
    assert steps(provenance) == [("CreateContainer", "20-balance", "CPUShares", "", None, 64)]
    assert steps(provenance, "c2") == [], "the update of c1 is in the history of c2"


def test_an_update_of_another_container_is_not_in_this_history(provenance):
    create(provenance)
    update(provenance, ("20-balance", shares(64, "c2")), value=200)
    assert steps(provenance) == [("UpdateContainer", REQUEST, "CPUShares", "", None, 200)]


@pytest.mark.parametrize("numbers", [{}, {"20-balance": 5}])
def test_an_update_sent_before_the_end_of_the_creation_comes_after_it(provenance, numbers):
    request = shares(64, "c1", m.UpdateContainersRequest).SerializeToString()
    provenance.record("UpdateContainers", "", b"", [("20-balance", request)], ["c1"], numbers=numbers)
    adjust = m.ContainerAdjustment()
    adjust.linux.resources.cpu.shares.value = 300
    create(provenance, ("00-first", m.CreateContainerResponse(adjust=adjust)))
    update(provenance, value=100)
    assert [step[1:] for step in steps(provenance)] == [
        ("00-first", "CPUShares", "", None, 300),
        ("20-balance", "CPUShares", "", 300, 64),
        (REQUEST, "CPUShares", "", 64, 100),
    ]


def test_unsolicited_updates_are_in_the_history(provenance):
    create(provenance)
    request = shares(64, "c1", m.UpdateContainersRequest).SerializeToString()
    provenance.record("UpdateContainers", "", b"", [("20-balance", request)], ["c1"])
    assert steps(provenance) == [("UpdateContainers", "20-balance", "CPUShares", "", None, 64)]


def test_a_failed_event_is_reported_and_changes_nothing(provenance):
    create(provenance)
    request = m.UpdateContainerRequest(container=m.Container(id="c1"))
    request.linux_resources.cpu.shares.value = 5
    provenance.record("UpdateContainer", "c1", request.SerializeToString(), [], failed="10-a said no")
    update(provenance, value=7)
    explanation = provenance.explain("c1")
    assert [(step.change.before, step.change.after, step.note) for step in explanation.steps] == [
        (None, 5, "not applied: 10-a said no"),
        (None, 7, ""),
    ]


@pytest.mark.parametrize(("failed", "before"), [("no", None), ("", 300)])
def test_an_update_continues_from_the_creation_unless_it_was_refused(provenance, failed, before):
    adjust = m.ContainerAdjustment()
    adjust.linux.resources.cpu.shares.value = 300
    create(provenance, ("00-first", m.CreateContainerResponse(adjust=adjust)), failed=failed)
    update(provenance, value=200)
    assert steps(provenance)[-1] == ("UpdateContainer", REQUEST, "CPUShares", "", before, 200)


@pytest.mark.parametrize(("rules", "before"), [(Rules.DEFAULT, {"clos_id": "a"}), (Rules.REFERENCE, None)])
def test_values_shown_to_later_plugins_by_rule_keep_the_containers_value_before(provenance, rules, before):
    rdt = m.LinuxRdt(clos_id=m.OptionalString(value="b"))
    reply = m.CreateContainerResponse(adjust=m.ContainerAdjustment(linux=m.LinuxContainerAdjustment(rdt=rdt)))
    container = m.LinuxContainer(rdt=m.LinuxRdt(clos_id=m.OptionalString(value="a")))
    create(provenance, ("00-first", reply), linux=container)
    (step,) = steps(provenance, rules=rules)
    assert step[2:] == ("RdtClosID", "", "a" if before else None, "b")


def test_a_conflict_is_reported_with_the_requested_values(provenance):
    text = 'plugins "10-b" and "00-a" both tried to set Env A'
    create(provenance, ("00-a", env(A="1")), ("10-b", env(A="2")), failed=text)
    explanation = provenance.explain("c1")
    assert [(step.plugin, step.change.after, step.note) for step in explanation.steps] == [
        ("00-a", "1", f"not applied: {text}"),
        ("10-b", "2", f"not applied: {text}"),
    ]


def test_outcomes_other_than_applied_are_notes(provenance):
    create(provenance)
    outcomes = [("c1", "CPUShares", "clamped", "to 2"), ("c1", "PidsLimit", "applied", ""), ("c2", "X", "stale", "")]
    provenance.record("UpdateContainers", "", b"", [], ["c1"], outcomes=outcomes)
    assert [text for _, text in provenance.explain("c1").notes] == ["UpdateContainers: CPUShares clamped: to 2"]


@pytest.mark.parametrize(
    ("outcome", "reason", "accepted", "note"),
    [
        ("stale", "the container has ended", 99, "not applied: stale: the container has ended"),
        ("unsupported", "no such cgroup", 99, "not applied: unsupported: no such cgroup"),
        ("refused", "runc: busy", 99, "not applied: refused: runc: busy"),
        ("applied", "", 5, "undone, because CreateContainer has failed"),
    ],
)
def test_a_field_that_is_not_in_force_is_reported_with_its_reason(provenance, outcome, reason, accepted, note):
    create(provenance)
    reply = shares(64, "c1", m.UpdateContainersRequest)
    reply.update[0].linux.resources.cpu.quota.value = 1000
    provenance.record(
        "UpdateContainers",
        "",
        b"",
        [("20-balance", reply.SerializeToString())],
        ["c1"],
        outcomes=[("c1", "cpu.shares", outcome, reason)],
        numbers={"20-balance": 5},
    )
    back = {TAKEN_BACK: SequenceNumbers(0, over={"cpu.shares": accepted})}
    provenance.record("CreateContainer", "", b"", (), ("c1",), numbers=back)
    update(provenance, value=7)
    messages = [(*step.change[1::2], step.change.after, step.note) for step in provenance.explain("c1").steps]
    assert messages == [
        ("CPUShares", None, 64, note),
        ("CPUQuota", None, 1000, ""),
        ("CPUShares", None, 7, ""),
    ]


def test_the_later_answer_wins_although_it_was_reported_first(provenance):
    create(provenance)
    for plugin, number in (("20-late", 9), ("10-early", 5)):
        request = shares(number, "c1", m.UpdateContainersRequest).SerializeToString()
        provenance.record("UpdateContainers", "", b"", [(plugin, request)], ["c1"], numbers={plugin: number})
    messages = [
        (step.plugin, step.change.before, step.change.after, step.note) for step in provenance.explain("c1").steps
    ]
    assert messages == [("20-late", None, 9, ""), ("10-early", 9, 5, f"not applied: {OVERTAKEN}")]


def test_an_unreadable_reply_is_a_note_and_other_records_are_used(provenance):
    create(provenance)
    provenance.record("UpdateContainer", "c1", b"", [("10-bad", b"\xff\xff")])
    update(provenance, value=7)
    explanation = provenance.explain("c1")
    assert len(explanation.notes) == 1
    assert explanation.steps[-1].change.after == 7


def test_a_container_older_than_the_records_starts_with_its_first_event(provenance):
    update(provenance, ("10-qos", shares(9)))
    assert steps(provenance) == [("UpdateContainer", "10-qos", "CPUShares", "", None, 9)]


def test_an_explanation_is_json_with_utc_times(provenance):
    create(provenance, ("00-first", env(A="1")))
    tree = json.loads(json.dumps(provenance.explain("c1").to_json()))
    assert (tree["name"], tree["pod"]) == ("web", "prod/web-1")
    assert tree["steps"] == [
        {
            "time": "2001-09-09T01:46:42.000Z",
            "event": "CreateContainer",
            "plugin": "00-first",
            "field": "Env",
            "key": "A",
            "before": None,
            "after": "1",
            "note": "",
        }
    ]


def test_rows_show_readable_values(provenance):
    create(provenance, ("00-first", env(A="1")))
    row = ("2001-09-09T01:46:42.000Z", "CreateContainer", "00-first", "Env", "A", "-", '"1"', "")
    assert provenance.explain("c1").rows() == [row]


def values(provenance, rules=Rules.DEFAULT):
    """The values in force: value and plugin by field and key."""
    rows = provenance.explain("c1", rules).to_json_with_values()["values"]
    return {(row["field"], row["key"]): (row["value"], row["plugin"]) for row in rows}


def test_the_values_in_force_name_the_last_plugin_that_set_each(provenance):
    create(provenance, ("00-first", env(A="1", B="2")), ("10-second", env(remove_A="", A="3")), env=["A=0", "C=4"])
    update(provenance, ("10-qos", shares(300)), value=200)
    assert values(provenance) == {
        ("Env", "A"): ("3", "10-second"),
        ("Env", "B"): ("2", "00-first"),
        ("Env", "C"): ("4", REQUEST),
        ("CPUShares", ""): (300, "10-qos"),
    }


def test_a_value_that_was_not_applied_is_not_in_force(provenance):
    create(provenance, ("00-first", env(A="1")))
    provenance.record("UpdateContainer", "c1", b"", [("10-qos", shares(300).SerializeToString())], failed="no")
    assert values(provenance) == {("Env", "A"): ("1", "00-first")}


@pytest.mark.parametrize("rules", [Rules.DEFAULT, Rules.REFERENCE])
def test_a_field_that_no_container_shows_is_in_force_too(provenance, rules):
    policy = m.LinuxMemoryPolicy(nodes="0")
    adjust = m.ContainerAdjustment(linux=m.LinuxContainerAdjustment(memory_policy=policy))
    create(provenance, ("00-first", m.CreateContainerResponse(adjust=adjust)))
    assert values(provenance, rules) == {("MemoryPolicy", ""): ({"nodes": "0"}, "00-first")}


def test_values_above_a_limit_in_bytes_are_counted(provenance):
    create(provenance, env=[f"A{number}={'x' * 100_000}" for number in range(20)])
    document = provenance.explain("c1").to_json_with_values()
    assert 5 < len(document["values"]) < 12 and document["values_left_out"] == 20 - len(document["values"])


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], "created"),
        (["PostStartContainer", "UpdateContainer"], "running"),
        (["StopContainer"], "stopped"),
        (["StopContainer", "RemoveContainer"], "removed"),
    ],
)
def test_the_state_is_that_after_the_last_recorded_event(provenance, events, state):
    create(provenance)
    for event in events:
        provenance.record(event, "c1", b"", [])
    assert provenance.explain("c1").to_json_with_values()["state"] == state


def test_a_refused_container_is_not_created(provenance):
    create(provenance, ("00-first", env(A="1")), failed="no")
    assert provenance.explain("c1").to_json_with_values()["state"] == "not created"
