"""Requests encoded from parts: the bytes must equal those of the message."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.merge import CreateMerge, UpdateMerge
from nri.adaptation.peers.event_request import CreateRequest, EventRequest, UpdateRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD, EVENTS
from nri.testing import make_container, make_pod

POD = make_pod(name="web", labels={"a": "b" * 300}, annotations={"c": "d"})
CONTAINER = make_container(env={"A": "1" * 5000}, cpu_shares=7)


def resources(shares: int) -> m.LinuxResources:
    resources = m.LinuxResources()
    resources.cpu.shares.value = shares
    return resources


@pytest.mark.parametrize("spec", [spec for spec in EVENTS if spec.relayed], ids=lambda spec: spec.rpc)
def test_the_bytes_equal_those_of_the_request_and_the_state_change(spec: Any) -> None:
    container = CONTAINER if spec.kind == "container" else None
    request = EventRequest(spec, POD, container)
    fields = {"pod": POD} if container is None else {"pod": POD, "container": container}
    kind = getattr(m, spec.request)
    assert kind.FromString(request.encoded()) == kind(**fields)
    expected = m.StateChangeEvent(event=spec.number, **fields)
    assert m.StateChangeEvent.FromString(request.state_change()) == expected


def test_an_update_of_a_pod_has_both_resources() -> None:
    request = EventRequest(BY_METHOD["update_pod_sandbox"], POD, None, resources(1), resources(2))
    expected = m.UpdatePodSandboxRequest(pod=POD, overhead_linux_resources=resources(2), linux_resources=resources(1))
    assert request.message(m.UpdatePodSandboxRequest) == expected


def test_an_update_request_has_the_changes_of_earlier_plugins() -> None:
    request = m.UpdateContainerRequest(pod=POD, container=CONTAINER, linux_resources=resources(1))
    merge = UpdateMerge(request)
    requests = UpdateRequest(BY_METHOD["update_container"], POD, CONTAINER, merge)
    assert requests.message(m.UpdateContainerRequest) == merge.request
    update = m.ContainerUpdate(container_id=CONTAINER.id, linux=m.LinuxContainerUpdate(resources=resources(9)))
    merge.apply("10-a", m.UpdateContainerResponse(update=[update]))
    requests.refresh()
    assert requests.message(m.UpdateContainerRequest) == merge.request
    assert requests.message(m.UpdateContainerRequest).linux_resources.cpu.shares.value == 9


REPLIES = {
    "adds": {"env": [{"key": "NEW", "value": "1"}]},
    "replaces": {"env": [{"key": "A", "value": "2"}]},
    "removes": {"env": [{"key": "-A"}]},
    "adds again": {"annotations": {"k": "v"}},
    "sets": {"linux": {"oom_score_adj": {"value": 5}}},
}


@pytest.mark.parametrize("looked_at", ["after each", "at the end"])
@pytest.mark.parametrize(
    "order",
    [
        ("adds",),
        ("adds", "adds again"),
        ("replaces", "adds"),
        ("adds", "removes", "adds again"),
        ("sets", "adds", "replaces"),
    ],
    ids=" ".join,
)
def test_a_creation_request_has_the_changes_of_earlier_plugins(order: tuple[str, ...], looked_at: str) -> None:
    merge = CreateMerge(m.CreateContainerRequest(pod=POD, container=CONTAINER))
    request = CreateRequest(BY_METHOD["create_container"], POD, CONTAINER, merge)
    assert request.message(m.CreateContainerRequest) == merge.request
    for number, name in enumerate(order):
        adjust: Any = REPLIES[name]
        merge.apply(f"{number:02}-p", m.CreateContainerResponse(adjust=m.ContainerAdjustment(**adjust)))
        request.refresh()
        if looked_at == "after each":
            assert request.message(m.CreateContainerRequest) == merge.request
    assert request.message(m.CreateContainerRequest) == merge.request
    assert request.container_seen() == merge.container
