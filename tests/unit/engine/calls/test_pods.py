"""Pods as lists and people have them, from their records alone."""

from __future__ import annotations

import json

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.pods import pod_info, pod_item
from nri.engine.lifecycle.inventory import PodEntry
from nri.engine.state import PodRecord, PodState


def record(state: PodState = PodState.READY) -> PodRecord:
    return PodRecord(
        "p1", name="web_ns_uid_2", attempt=2, labels={"a": "b"}, annotations={"c": "d"}, namespace="ns", uid="uid",
        config={"metadata": {"name": "web"}, "hostname": "h"}, created_at_ns=5, state=state, runtime_handler="runc",
        network={"ips": []},
    )  # fmt: skip


@pytest.mark.parametrize("state", PodState)
def test_only_a_ready_pod_is_ready(state: PodState) -> None:
    expected = pb.SANDBOX_READY if state is PodState.READY else pb.SANDBOX_NOTREADY
    assert pod_item(record(state)).state == expected


def test_a_pod_in_a_list_has_its_metadata_labels_and_time() -> None:
    item = pod_item(record())
    assert item.metadata == pb.PodSandboxMetadata(name="web", uid="uid", namespace="ns", attempt=2)
    assert (item.id, item.created_at, item.runtime_handler) == ("p1", 5, "runc")
    assert (item.labels, item.annotations) == ({"a": "b"}, {"c": "d"})


def test_more_of_a_pod_is_json() -> None:
    found = json.loads(json.dumps(pod_info(PodEntry(record()))))
    assert found["config"]["hostname"] == "h" and found["cniResult"] == {"ips": []} and found["state"] == "ready"
