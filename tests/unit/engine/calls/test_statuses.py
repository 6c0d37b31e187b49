"""Pods and containers in lists and verbose statuses."""

from __future__ import annotations

import json

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.statuses import container_info, container_item, pod_info, pod_item
from nri.engine.lifecycle.inventory import ContainerEntry, PodEntry
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState


def record(state: PodState = PodState.READY) -> PodRecord:
    return PodRecord(
        "p1", name="web_ns_uid_2", attempt=2, labels={"a": "b"}, annotations={"c": "d"}, namespace="ns", uid="uid",
        config={"metadata": {"name": "web"}, "hostname": "h"}, created_at_ns=5, state=state, runtime_handler="runc",
        network={"ips": []},
    )  # fmt: skip


@pytest.mark.parametrize("state", PodState)
def test_only_a_ready_pod_has_the_state_ready(state: PodState) -> None:
    expected = pb.SANDBOX_READY if state is PodState.READY else pb.SANDBOX_NOTREADY
    assert pod_item(record(state)).state == expected


def test_a_pod_in_a_list_has_its_metadata_labels_and_time() -> None:
    item = pod_item(record())
    assert item.metadata == pb.PodSandboxMetadata(name="web", uid="uid", namespace="ns", attempt=2)
    assert (item.id, item.created_at, item.runtime_handler) == ("p1", 5, "")
    assert (item.labels, item.annotations) == ({"a": "b"}, {"c": "d"})


def test_the_verbose_status_of_a_pod_is_json() -> None:
    document = json.loads(json.dumps(pod_info(PodEntry(record()))))
    assert (
        document["config"]["hostname"] == "h" and document["cniResult"] == {"ips": []} and document["state"] == "ready"
    )


def container_record(state: ContainerState = ContainerState.RUNNING) -> ContainerRecord:
    config = {"metadata": {"name": "c"}, "image": {"image": "a:1", "user_specified_image": "a"}}
    return ContainerRecord(
        "c1", name="c_x", attempt=1, labels={"a": "b"}, config=config, created_at_ns=5, pod_id="p1", state=state,
        image="a:1", image_id="sha256:1", image_ref="a@sha256:2", pid=7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (ContainerState.CREATED, pb.CONTAINER_CREATED),
        (ContainerState.STARTING, pb.CONTAINER_CREATED),
        (ContainerState.RUNNING, pb.CONTAINER_RUNNING),
        (ContainerState.EXITED, pb.CONTAINER_EXITED),
        (ContainerState.REMOVING, pb.CONTAINER_EXITED),
        (ContainerState.UNKNOWN, pb.CONTAINER_UNKNOWN),
    ],
)
def test_a_container_has_one_of_the_four_cri_states(
    state: ContainerState, expected: pb.ContainerState.ValueType
) -> None:
    assert container_item(container_record(state)).state == expected


def test_a_container_in_a_list_has_its_metadata_pod_and_image() -> None:
    item = container_item(container_record())
    assert item.metadata == pb.ContainerMetadata(name="c", attempt=1)
    assert (item.id, item.pod_sandbox_id, item.created_at, item.labels) == ("c1", "p1", 5, {"a": "b"})
    assert item.image == pb.ImageSpec(image="a:1", user_specified_image="a")
    assert (item.image_id, item.image_ref) == ("sha256:1", "a@sha256:2")


def test_the_verbose_status_of_a_container_is_json_with_its_spec() -> None:
    document = json.loads(json.dumps(container_info(ContainerEntry(container_record(), {"ociVersion": "1.0.2"}))))
    assert (document["sandboxID"], document["pid"], document["runtimeSpec"]) == ("p1", 7, {"ociVersion": "1.0.2"})
