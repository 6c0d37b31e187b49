"""State machines of pods and containers."""

import pytest

from nri.engine.state.tables import (
    CONTAINER_STEPS,
    POD_STEPS,
    ContainerState,
    PodState,
    next_container_state,
    next_pod_state,
)
from nri.engine.support.errors import WrongState


def test_a_pod_passes_all_states_from_creation_to_removal() -> None:
    state, states = PodState.CREATING, []
    for step in ("finish creation", "create a container", "stop", "finish stop", "stop", "remove", "remove"):
        state = next_pod_state("p", state, step)
        states.append(state.value)
    assert states == ["ready", "ready", "stopping", "stopped", "stopped", "removing", "removing"]


def test_a_container_passes_all_states_from_creation_to_removal() -> None:
    state, events = ContainerState.CREATING, []
    for step in ("finish creation", "update", "start", "finish start", "exec", "exit", "exit", "stop", "remove"):
        state = next_container_state("c", state, step)
        events.append(state.value)
    assert events == ["created", "created", "starting", "running", "running", "exited", "exited", "exited", "removing"]


@pytest.mark.parametrize(
    ("state", "step"),
    [("running", "start"), ("exited", "start"), ("running", "remove"), ("exited", "exec"), ("removing", "start")],
)
def test_an_impossible_step_is_an_error_with_its_name(state: str, step: str) -> None:
    with pytest.raises(WrongState, match=f"container c1 is {state}: {step} is not possible"):
        next_container_state("c1", ContainerState(state), step)


def test_a_ready_pod_cannot_be_removed_and_a_stopped_pod_gets_no_container() -> None:
    with pytest.raises(WrongState, match="pod p1 is ready: remove"):
        next_pod_state("p1", PodState.READY, "remove")
    with pytest.raises(WrongState):
        next_pod_state("p1", PodState.STOPPED, "create a container")


@pytest.mark.parametrize(("steps", "states"), [(POD_STEPS, PodState), (CONTAINER_STEPS, ContainerState)])
def test_every_state_leads_to_removal(
    steps: dict[str, dict[str, str]], states: type[PodState | ContainerState]
) -> None:
    def reachable(state: str, visited: frozenset[str] = frozenset()) -> bool:
        if state == "removing":
            return True
        targets = {rows[state] for rows in steps.values() if state in rows} - visited
        return any(reachable(target, visited | {state}) for target in targets)

    assert [state for state in states if not reachable(state)] == []
