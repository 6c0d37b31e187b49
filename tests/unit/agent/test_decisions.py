"""Decisions of hooks by the current rules: recorded, counted, and not stopped by one pod."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nri.agent.decisions import Decisions, subject_of
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import HOOKS
from nri.agent.model import Container, Decision, HostApplication, KubeQosFolder, Pod, Write
from nri.agent.parts import Parts
from tests.support.agents import POD, TOPOLOGY, UID, parts, text
from tests.support.host_trees import v1
from tests.support.scrape import scrape

EXTENDED = "node.koordinator.sh/extended-resource-spec"
STATUS = "scheduling.koordinator.sh/resource-status"
SPEC = {"containers": {"app": {"limits": {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}}}}
LS = Pod(UID and "shop", "web", UID, {"koordinator.sh/qosClass": "LS"}, folder=POD)
BAD = {EXTENDED: "{", STATUS: "{"}


@pytest.fixture
def agent_parts(tmp_path: Path) -> Parts:
    return parts(v1(tmp_path, "kubepods", POD), rules={"NodeResourceTopology": TOPOLOGY})


def test_a_decision_follows_the_current_rules_and_is_explained(agent_parts: Parts) -> None:
    outcome = agent_parts.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri")
    assert outcome.changes.knobs.get("cpuset.cpus") == "0-3"
    account = agent_parts.history.account("shop/web")
    assert account is not None
    (value,) = account["values"]
    assert (value["container"], value["field"], value["value"]) == ("app", "cpuset.cpus", "0-3")
    assert (value["hook"], value["transport"], value["stage"]) == ("CPUSetAllocator", "nri", "PreCreateContainer")
    assert value["reason"] == "all share pools, for LS pods"
    counted = 'nri_agent_hook_changes_total{hook="CPUSetAllocator",stage="PreCreateContainer",transport="nri"} 1.0\n'
    assert counted in scrape(agent_parts.observer)
    other = {
        "metadata": {"annotations": {"node.koordinator.sh/cpu-shared-pools": '[{"socket":0,"node":0,"cpuset":"1"}]'}}
    }
    agent_parts.store.put("NodeResourceTopology", other, "a test")
    assert (
        agent_parts.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri").changes.knobs.get(
            "cpuset.cpus"
        )
        == "1"
    )


def test_a_previewed_hook_reports_its_value_and_other_hooks_set_theirs(agent_parts: Parts) -> None:
    pod = replace(LS, annotations={EXTENDED: json.dumps(SPEC)})
    plain = agent_parts.decisions.decide("PreCreateContainer", Container(pod, name="app"), "nri")
    decisions = Decisions(
        agent_parts.profile,
        agent_parts.store,
        agent_parts.executor,
        agent_parts.history,
        agent_parts.observer,
        preview=["CPUSetAllocator"],
    )
    outcome = decisions.decide("PreCreateContainer", Container(pod, name="app"), "nri")
    assert outcome.changes == plain.changes.without(["cpuset.cpus"]) != plain.changes
    account = agent_parts.history.account("shop/web")
    assert account is not None
    assert [row["stage"] for row in account["values"] if row["field"] == "cpuset.cpus"] == ["preview"]
    assert 'nri_agent_events_total{event="previewed value",transport="nri"} 1.0' in scrape(agent_parts.observer)


def test_only_labels_and_annotations_read_by_a_hook_are_stored(agent_parts: Parts) -> None:
    def keys(key: str) -> list[str]:
        account = agent_parts.history.account(key)
        assert account is not None
        return list(account["keys"])

    agent_parts.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri")
    assert keys(UID) == ["koordinator.sh/qosClass"]
    pod = Pod("shop", "web", UID, {**LS.labels, "app": "x"}, {EXTENDED: "{", "other": "1"}, POD)
    agent_parts.decisions.decide("PreRunPodSandbox", pod, "nri")
    assert keys(UID) == ["koordinator.sh/qosClass", EXTENDED]
    agent_parts.decisions.decide("PreRunPodSandbox", Pod("shop", "other", "nothing-known"), "nri")
    assert agent_parts.history.account("nothing-known") is None
    agent_parts.decisions.record(
        KubeQosFolder("Burstable"), "standalone", agent_parts.executor.write([Write(POD, "cpu.shares", "2", "")])
    )
    assert keys("kube-qos/Burstable") == []


def test_unread_keys_of_a_pod_are_noted_logged_once_and_counted_until_fixed(
    agent_parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    spec = {"containers": {"app": {"requests": {"kubernetes.io/batch-cpuu": "500"}}}}
    pod = Pod("shop", "web", UID, {"koordinator.sh/qosClass": "BE"}, {EXTENDED: json.dumps(spec)}, POD)
    for stage in ("PreRunPodSandbox", "ReconcilePod"):
        agent_parts.decisions.decide(stage, pod, "nri")
    account = agent_parts.history.account(UID)
    assert account is not None and account["of"] == "BE"
    (note,) = account["notes"]
    assert note.endswith("batch-cpuu: nothing reads it; did you mean kubernetes.io/batch-cpu?")
    assert [record.getMessage() for record in caplog.records] == [f"shop/web: {note}"]
    assert 'nri_agent_pod_slips_total{transport="nri"} 1.0' in scrape(agent_parts.observer)
    assert agent_parts.history.pod_notes() == [f"shop/web: {note}"]
    agent_parts.decisions.decide("ReconcilePod", replace(pod, annotations={}), "nri")
    account = agent_parts.history.account(UID)
    assert account is not None and account["notes"] == agent_parts.history.pod_notes() == []


def test_an_invalid_annotation_is_an_error_of_its_hook_only(agent_parts: Parts) -> None:
    pod = Pod("shop", "web", UID, {"koordinator.sh/qosClass": "BE"}, BAD, POD)
    outcome = agent_parts.decisions.decide("PreRunPodSandbox", pod, "nri")
    assert {error.hook for error in outcome.errors} >= {"CPUSetAllocator"}
    assert outcome.failed is None
    account = agent_parts.history.account(UID)
    assert account is not None
    assert account["errors"]
    counted = 'nri_agent_hook_errors_total{hook="CPUSetAllocator",stage="PreRunPodSandbox",transport="nri"} 1.0\n'
    assert counted in scrape(agent_parts.observer)
    assert {error.hook for error in outcome.errors} == {"BatchResource", "CPUSetAllocator"}


def test_the_error_of_an_invalid_annotation_is_logged_once_until_fixed(
    agent_parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Pod("shop", "web", UID, {}, {STATUS: "{"}, POD)
    for stage in ("PreRunPodSandbox", "ReconcilePod", "ReconcilePod"):
        agent_parts.decisions.decide(stage, bad, "nri")
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f'shop/web: CPUSetAllocator: annotation {STATUS}: "{{" is not JSON: ')
    agent_parts.decisions.decide("ReconcilePod", Pod("shop", "web", UID, {}, {}, POD), "nri")
    agent_parts.decisions.decide("ReconcilePod", bad, "nri")
    agent_parts.decisions.decide("PreCreateContainer", Container(bad, name="app\n"), "nri")
    assert [record.getMessage()[:25] for record in caplog.records[1:]] == [
        "shop/web: CPUSetAllocator",
        "shop/web/app\\n: CPUSetAll",
    ]


def test_the_error_of_an_invalid_annotation_ends_when_it_is_fixed(agent_parts: Parts) -> None:
    bad = Pod("shop", "web", UID, {"koordinator.sh/qosClass": "BE"}, BAD, POD)
    agent_parts.decisions.decide("PreRunPodSandbox", bad, "nri")
    partly_fixed = Pod("shop", "web", UID, bad.labels, {STATUS: "{"}, POD)
    agent_parts.decisions.decide("ReconcilePod", partly_fixed, "standalone")
    account = agent_parts.history.account(UID)
    assert account is not None
    assert [(row["hook"], row["transport"]) for row in account["errors"]] == [("CPUSetAllocator", "standalone")]


def test_an_invalid_annotation_never_clears_applied_values(agent_parts: Parts) -> None:
    good = Pod(
        "shop", "web", UID, {"koordinator.sh/qosClass": "BE"}, {EXTENDED: json.dumps(SPEC)}, POD,
        extended=None,
    )  # fmt: skip
    from nri.agent.koordinator.batch_resource import annotated

    good = Pod(good.namespace, good.name, UID, good.labels, good.annotations, POD, extended=annotated(good.annotations))
    agent_parts.decisions.carry_out(good, agent_parts.decisions.decide("PreRunPodSandbox", good, "nri"), "nri")
    assert text(agent_parts.root, "cpu,cpuacct", POD, "cpu.cfs_quota_us") == "50000"
    bad = Pod("shop", "web", UID, good.labels, BAD, POD)
    agent_parts.decisions.carry_out(bad, agent_parts.decisions.decide("PreRunPodSandbox", bad, "nri"), "nri")
    assert text(agent_parts.root, "cpu,cpuacct", POD, "cpu.cfs_quota_us") == "50000"


def test_the_outcome_of_a_decision_is_recorded(agent_parts: Parts) -> None:
    pod = Pod("shop", "web", UID, folder=POD, annotations={STATUS: '{"cpuset": "0-1"}'})
    results = agent_parts.decisions.carry_out(pod, agent_parts.decisions.decide("PreRunPodSandbox", pod, "nri"), "nri")
    assert [result.name for result in results] == ["cpu.cfs_quota"]
    account = agent_parts.history.account(UID)
    assert account is not None
    assert [(row["name"], row["outcome"]) for row in account["writes"]] == [("cpu.cfs_quota", "unchanged")]


def test_a_failed_hook_is_named_and_does_not_affect_others(agent_parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Decision:
        raise RecursionError("deep\nannotation")

    (row,) = (row for row in HOOKS if row.name == "BatchResource")
    monkeypatch.setitem(row.stages, "PreCreateContainer", breaks)
    outcome = agent_parts.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri")
    assert outcome.changes.knobs.get("cpuset.cpus") == "0-3"
    assert [(error.hook, error.reason) for error in outcome.errors] == [
        ("BatchResource", "RecursionError: deep\\nannotation")
    ]
    assert outcome.failed is None


def test_a_failed_hook_fails_the_request_under_the_policy_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Decision:
        raise TypeError("no")

    created = parts(v1(tmp_path, POD), node=Node(fail=True), rules={"NodeResourceTopology": TOPOLOGY})
    (row,) = (row for row in HOOKS if row.name == "BatchResource")
    monkeypatch.setitem(row.stages, "PreCreateContainer", breaks)
    outcome = created.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri")
    assert outcome.failed is not None
    assert outcome.failed.hook == "BatchResource"
    assert not outcome.changes


def test_an_unknown_stage_is_a_key_error(agent_parts: Parts) -> None:
    with pytest.raises(KeyError):
        agent_parts.decisions.decide("PreLunch", LS, "nri")


def test_every_kind_of_value_is_recorded_with_a_name(tmp_path: Path) -> None:
    created = parts(v1(tmp_path, POD), node=Node(gates=frozenset({"GPUEnvInject"})))
    words = {"gpu-memory-ratio": "50", "gpu-core": "50", "gpu-memory": "8Gi"}
    devices = {"gpu": [{"minor": 0, "resources": {f"koordinator.sh/{name}": text for name, text in words.items()}}]}
    pod = Pod(
        "shop", "gpu", UID, {"koordinator.sh/gpu-isolation-provider": "HAMi-core"},
        {"scheduling.koordinator.sh/device-allocated": json.dumps(devices)}, POD,
    )  # fmt: skip
    created.decisions.decide("PreCreateContainer", Container(pod, name="app"), "nri")
    account = created.history.account(UID)
    assert account is not None
    fields = {row["field"] for row in account["values"]}
    assert "env.NVIDIA_VISIBLE_DEVICES" in fields
    assert any(field.startswith("mounts./") for field in fields)


def test_subjects_are_named_by_their_kind() -> None:
    assert subject_of(Container(LS, name="app")).container == "app"
    assert subject_of(KubeQosFolder("besteffort")).key == "kube-qos/besteffort"
    assert subject_of(HostApplication("db")).key == "host-application/db"


def test_a_removed_pod_is_forgotten_except_for_its_history(agent_parts: Parts) -> None:
    pod = Pod("shop", "web", UID, folder=POD, annotations={STATUS: '{"cpuset": "0-1"}'})
    agent_parts.decisions.carry_out(pod, agent_parts.decisions.decide("PreRunPodSandbox", pod, "nri"), "nri")
    agent_parts.decisions.removed(pod)
    assert agent_parts.executor.counts() == {"waiting writes": 0, "written values": 0}
    account = agent_parts.history.account(UID)
    assert account is not None
    assert account["ended"]
    assert agent_parts.decisions.node.cpus is not None
