"""Decisions: the hooks asked with the rules of now, recorded and counted, and never stopped by one pod."""

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
def made(tmp_path: Path) -> Parts:
    return parts(v1(tmp_path, "kubepods", POD), rules={"NodeResourceTopology": TOPOLOGY})


def test_a_decision_is_made_by_the_rules_of_now_and_explained(made: Parts) -> None:
    outcome = made.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri")
    assert outcome.changes.knobs.get("cpuset.cpus") == "0-3"
    found = made.history.of("shop/web")
    assert found is not None
    (value,) = found["values"]
    assert (value["container"], value["field"], value["value"]) == ("app", "cpuset.cpus", "0-3")
    assert (value["hook"], value["transport"], value["stage"]) == ("CPUSetAllocator", "nri", "PreCreateContainer")
    assert value["reason"] == "all share pools, for LS pods"
    counted = 'nri_agent_hook_changes_total{hook="CPUSetAllocator",stage="PreCreateContainer",transport="nri"} 1.0\n'
    assert counted in scrape(made.observer)
    other = {
        "metadata": {"annotations": {"node.koordinator.sh/cpu-shared-pools": '[{"socket":0,"node":0,"cpuset":"1"}]'}}
    }
    made.store.put("NodeResourceTopology", other, "a test")
    assert (
        made.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri").changes.knobs.get("cpuset.cpus")
        == "1"
    )


def test_a_previewed_hook_says_what_it_would_set_and_the_others_set_theirs(made: Parts) -> None:
    pod = replace(LS, annotations={EXTENDED: json.dumps(SPEC)})
    plain = made.decisions.decide("PreCreateContainer", Container(pod, name="app"), "nri")
    decisions = Decisions(
        made.profile, made.store, made.executor, made.history, made.observer, preview=["CPUSetAllocator"]
    )
    outcome = decisions.decide("PreCreateContainer", Container(pod, name="app"), "nri")
    assert outcome.changes == plain.changes.without(["cpuset.cpus"]) != plain.changes
    told = made.history.of("shop/web")
    assert told is not None
    assert [row["stage"] for row in told["values"] if row["field"] == "cpuset.cpus"] == ["preview"]
    assert 'nri_agent_events_total{event="previewed value",transport="nri"} 1.0' in scrape(made.observer)


def test_of_labels_and_annotations_it_is_kept_which_ones_the_pod_has_that_a_hook_reads(made: Parts) -> None:
    def keys(key: str) -> list[str]:
        found = made.history.of(key)
        assert found is not None
        return list(found["keys"])

    made.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri")
    assert keys(UID) == ["koordinator.sh/qosClass"]
    pod = Pod("shop", "web", UID, {**LS.labels, "app": "x"}, {EXTENDED: "{", "other": "1"}, POD)
    made.decisions.decide("PreRunPodSandbox", pod, "nri")
    assert keys(UID) == ["koordinator.sh/qosClass", EXTENDED]
    made.decisions.decide("PreRunPodSandbox", Pod("shop", "other", "nothing-known"), "nri")
    assert made.history.of("nothing-known") is None
    made.decisions.record(
        KubeQosFolder("Burstable"), "standalone", made.executor.write([Write(POD, "cpu.shares", "2", "")])
    )
    assert keys("kube-qos/Burstable") == []


def test_what_nothing_reads_of_a_pod_is_noted_logged_once_and_counted_until_it_is_mended(
    made: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    spec = {"containers": {"app": {"requests": {"kubernetes.io/batch-cpuu": "500"}}}}
    pod = Pod("shop", "web", UID, {"koordinator.sh/qosClass": "BE"}, {EXTENDED: json.dumps(spec)}, POD)
    for stage in ("PreRunPodSandbox", "ReconcilePod"):
        made.decisions.decide(stage, pod, "nri")
    found = made.history.of(UID)
    assert found is not None and found["of"] == "BE"
    (note,) = found["notes"]
    assert note.endswith("batch-cpuu: nothing reads it; did you mean kubernetes.io/batch-cpu?")
    assert [each.getMessage() for each in caplog.records] == [f"shop/web: {note}"]
    assert 'nri_agent_pod_slips_total{transport="nri"} 1.0' in scrape(made.observer)
    assert made.history.slips() == [f"shop/web: {note}"]
    made.decisions.decide("ReconcilePod", replace(pod, annotations={}), "nri")
    mended = made.history.of(UID)
    assert mended is not None and mended["notes"] == made.history.slips() == []


def test_a_bad_annotation_is_an_error_of_its_hook_alone(made: Parts) -> None:
    pod = Pod("shop", "web", UID, {"koordinator.sh/qosClass": "BE"}, BAD, POD)
    outcome = made.decisions.decide("PreRunPodSandbox", pod, "nri")
    assert {error.hook for error in outcome.errors} >= {"CPUSetAllocator"}
    assert outcome.failed is None
    found = made.history.of(UID)
    assert found is not None
    assert found["errors"]
    counted = 'nri_agent_hook_errors_total{hook="CPUSetAllocator",stage="PreRunPodSandbox",transport="nri"} 1.0\n'
    assert counted in scrape(made.observer)
    assert {error.hook for error in outcome.errors} == {"BatchResource", "CPUSetAllocator"}


def test_the_error_of_a_bad_annotation_is_logged_once_until_it_is_over(
    made: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Pod("shop", "web", UID, {}, {STATUS: "{"}, POD)
    for stage in ("PreRunPodSandbox", "ReconcilePod", "ReconcilePod"):
        made.decisions.decide(stage, bad, "nri")
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith(f'shop/web: CPUSetAllocator: annotation {STATUS}: "{{" is not JSON: ')
    made.decisions.decide("ReconcilePod", Pod("shop", "web", UID, {}, {}, POD), "nri")
    made.decisions.decide("ReconcilePod", bad, "nri")
    made.decisions.decide("PreCreateContainer", Container(bad, name="app\n"), "nri")
    assert [each.getMessage()[:25] for each in caplog.records[1:]] == [
        "shop/web: CPUSetAllocator",
        "shop/web/app\\n: CPUSetAll",
    ]


def test_the_error_of_a_bad_annotation_is_over_when_it_was_mended(made: Parts) -> None:
    bad = Pod("shop", "web", UID, {"koordinator.sh/qosClass": "BE"}, BAD, POD)
    made.decisions.decide("PreRunPodSandbox", bad, "nri")
    mended = Pod("shop", "web", UID, bad.labels, {STATUS: "{"}, POD)
    made.decisions.decide("ReconcilePod", mended, "standalone")
    found = made.history.of(UID)
    assert found is not None
    assert [(row["hook"], row["transport"]) for row in found["errors"]] == [("CPUSetAllocator", "standalone")]


def test_a_bad_annotation_never_clears_what_was_applied(made: Parts) -> None:
    good = Pod(
        "shop", "web", UID, {"koordinator.sh/qosClass": "BE"}, {EXTENDED: json.dumps(SPEC)}, POD,
        extended=None,
    )  # fmt: skip
    from nri.agent.koordinator.batch_resource import annotated

    good = Pod(good.namespace, good.name, UID, good.labels, good.annotations, POD, extended=annotated(good.annotations))
    made.decisions.carry_out(good, made.decisions.decide("PreRunPodSandbox", good, "nri"), "nri")
    assert text(made.root, "cpu,cpuacct", POD, "cpu.cfs_quota_us") == "50000"
    bad = Pod("shop", "web", UID, good.labels, BAD, POD)
    made.decisions.carry_out(bad, made.decisions.decide("PreRunPodSandbox", bad, "nri"), "nri")
    assert text(made.root, "cpu,cpuacct", POD, "cpu.cfs_quota_us") == "50000"


def test_what_came_of_a_decision_is_recorded(made: Parts) -> None:
    pod = Pod("shop", "web", UID, folder=POD, annotations={STATUS: '{"cpuset": "0-1"}'})
    results = made.decisions.carry_out(pod, made.decisions.decide("PreRunPodSandbox", pod, "nri"), "nri")
    assert [result.name for result in results] == ["cpu.cfs_quota"]
    found = made.history.of(UID)
    assert found is not None
    assert [(row["name"], row["outcome"]) for row in found["writes"]] == [("cpu.cfs_quota", "unchanged")]


def test_a_hook_that_breaks_stops_no_other_and_is_named(made: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Decision:
        raise RecursionError("deep\nannotation")

    (row,) = (row for row in HOOKS if row.name == "BatchResource")
    monkeypatch.setitem(row.stages, "PreCreateContainer", breaks)
    outcome = made.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri")
    assert outcome.changes.knobs.get("cpuset.cpus") == "0-3"
    assert [(error.hook, error.reason) for error in outcome.errors] == [
        ("BatchResource", "RecursionError: deep\\nannotation")
    ]
    assert outcome.failed is None


def test_a_hook_that_breaks_fails_the_request_where_errors_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Decision:
        raise TypeError("no")

    made = parts(v1(tmp_path, POD), node=Node(fail=True), rules={"NodeResourceTopology": TOPOLOGY})
    (row,) = (row for row in HOOKS if row.name == "BatchResource")
    monkeypatch.setitem(row.stages, "PreCreateContainer", breaks)
    outcome = made.decisions.decide("PreCreateContainer", Container(LS, name="app"), "nri")
    assert outcome.failed is not None
    assert outcome.failed.hook == "BatchResource"
    assert not outcome.changes


def test_a_stage_that_is_none_is_a_mistake_of_the_caller(made: Parts) -> None:
    with pytest.raises(KeyError):
        made.decisions.decide("PreLunch", LS, "nri")


def test_every_kind_of_value_has_its_name(tmp_path: Path) -> None:
    made = parts(v1(tmp_path, POD), node=Node(gates=frozenset({"GPUEnvInject"})))
    words = {"gpu-memory-ratio": "50", "gpu-core": "50", "gpu-memory": "8Gi"}
    devices = {"gpu": [{"minor": 0, "resources": {f"koordinator.sh/{name}": text for name, text in words.items()}}]}
    pod = Pod(
        "shop", "gpu", UID, {"koordinator.sh/gpu-isolation-provider": "HAMi-core"},
        {"scheduling.koordinator.sh/device-allocated": json.dumps(devices)}, POD,
    )  # fmt: skip
    made.decisions.decide("PreCreateContainer", Container(pod, name="app"), "nri")
    found = made.history.of(UID)
    assert found is not None
    fields = {row["field"] for row in found["values"]}
    assert "env.NVIDIA_VISIBLE_DEVICES" in fields
    assert any(field.startswith("mounts./") for field in fields)


def test_subjects_are_named_by_what_they_are() -> None:
    assert subject_of(Container(LS, name="app")).container == "app"
    assert subject_of(KubeQosFolder("besteffort")).key == "kube-qos/besteffort"
    assert subject_of(HostApplication("db")).key == "host-application/db"


def test_a_removed_pod_is_forgotten_but_for_its_history(made: Parts) -> None:
    pod = Pod("shop", "web", UID, folder=POD, annotations={STATUS: '{"cpuset": "0-1"}'})
    made.decisions.carry_out(pod, made.decisions.decide("PreRunPodSandbox", pod, "nri"), "nri")
    made.decisions.removed(pod)
    assert made.executor.counts() == {"waiting writes": 0, "written values": 0}
    found = made.history.of(UID)
    assert found is not None
    assert found["ended"]
    assert made.decisions.node.cpus is not None
