"""Requests put together from parts: the bytes must be those of the message."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.merge import CreateState, UpdateState
from nri.adaptation.peers.event_request import CreateQuestion, Question, UpdateQuestion
from nri.api import messages as m
from nri.api.events import BY_METHOD, EVENTS
from nri.testing import make_container, make_pod

POD = make_pod(name="web", labels={"a": "b" * 300}, annotations={"c": "d"})
CONTAINER = make_container(env={"A": "1" * 5000}, cpu_shares=7)


def resources(shares: int) -> m.LinuxResources:
    made = m.LinuxResources()
    made.cpu.shares.value = shares
    return made


@pytest.mark.parametrize("spec", [spec for spec in EVENTS if spec.relayed], ids=lambda spec: spec.rpc)
def test_the_bytes_are_those_of_the_request_and_of_the_state_change(spec: Any) -> None:
    container = CONTAINER if spec.kind == "container" else None
    question = Question(spec, POD, container)
    fields = {"pod": POD} if container is None else {"pod": POD, "container": container}
    kind = getattr(m, spec.request)
    assert kind.FromString(question.payload) == kind(**fields)
    expected = m.StateChangeEvent(event=spec.number, **fields)
    assert m.StateChangeEvent.FromString(question.state_change) == expected


def test_a_pods_update_carries_both_resources() -> None:
    question = Question(BY_METHOD["update_pod_sandbox"], POD, None, resources(1), resources(2))
    expected = m.UpdatePodSandboxRequest(pod=POD, overhead_linux_resources=resources(2), linux_resources=resources(1))
    assert question.message(m.UpdatePodSandboxRequest) == expected


def test_an_update_shows_later_plugins_what_earlier_ones_made_of_it() -> None:
    request = m.UpdateContainerRequest(pod=POD, container=CONTAINER, linux_resources=resources(1))
    state = UpdateState(request)
    question = UpdateQuestion(BY_METHOD["update_container"], POD, CONTAINER, state)
    assert question.message(m.UpdateContainerRequest) == state.request
    update = m.ContainerUpdate(container_id=CONTAINER.id, linux=m.LinuxContainerUpdate(resources=resources(9)))
    state.apply("10-a", m.UpdateContainerResponse(update=[update]))
    question.follow(state)
    assert question.message(m.UpdateContainerRequest) == state.request
    assert question.message(m.UpdateContainerRequest).linux_resources.cpu.shares.value == 9


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
def test_a_creation_shows_later_plugins_the_container_as_it_is_by_then(order: tuple[str, ...], looked_at: str) -> None:
    state = CreateState(m.CreateContainerRequest(pod=POD, container=CONTAINER))
    question = CreateQuestion(BY_METHOD["create_container"], POD, CONTAINER, state)
    assert question.message(m.CreateContainerRequest) == state.request
    for number, name in enumerate(order):
        adjust: Any = REPLIES[name]
        state.apply(f"{number:02}-p", m.CreateContainerResponse(adjust=m.ContainerAdjustment(**adjust)))
        question.follow(state)
        if looked_at == "after each":
            assert question.message(m.CreateContainerRequest) == state.request
    assert question.message(m.CreateContainerRequest) == state.request
    assert question.shown() == state.container
