"""The life cycles of pods and containers as tables: which step is allowed in which state, and the next state.

A repeated stop or removal leads to the same state, because clients repeat these calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from nri.engine.support.errors import WrongState


class PodState(StrEnum):
    """The states of a pod. Clients receive `ready` as ready, and all other states as not ready."""

    CREATING = "creating"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    REMOVING = "removing"


class ContainerState(StrEnum):
    """The states of a container. `inventory.STATES` has the CRI's state for each."""

    CREATING = "creating"
    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    REMOVING = "removing"
    UNKNOWN = "unknown"


_P, _C = PodState, ContainerState

#: Step of a pod: for each state in which it is allowed, the next state.
POD_STEPS: Mapping[str, Mapping[PodState, PodState]] = {
    "finish creation": {_P.CREATING: _P.READY},
    "create a container": {_P.READY: _P.READY},
    "update": {_P.READY: _P.READY},
    "stop": {_P.CREATING: _P.STOPPING, _P.READY: _P.STOPPING, _P.STOPPING: _P.STOPPING, _P.STOPPED: _P.STOPPED},
    "finish stop": {_P.STOPPING: _P.STOPPED, _P.STOPPED: _P.STOPPED},
    "remove": {_P.CREATING: _P.REMOVING, _P.STOPPED: _P.REMOVING, _P.REMOVING: _P.REMOVING},
}

#: Step of a container: for each state in which it is allowed, the next state.
CONTAINER_STEPS: Mapping[str, Mapping[ContainerState, ContainerState]] = {
    "finish creation": {_C.CREATING: _C.CREATED},
    "start": {_C.CREATED: _C.STARTING},
    "finish start": {_C.STARTING: _C.RUNNING, _C.EXITED: _C.EXITED},
    "exec": {_C.RUNNING: _C.RUNNING},
    "update": {_C.CREATED: _C.CREATED, _C.STARTING: _C.STARTING, _C.RUNNING: _C.RUNNING},
    "exit": {
        _C.CREATED: _C.EXITED, _C.STARTING: _C.EXITED, _C.RUNNING: _C.EXITED, _C.UNKNOWN: _C.EXITED,
        _C.EXITED: _C.EXITED,
    },
    "lose": {_C.CREATED: _C.UNKNOWN, _C.STARTING: _C.UNKNOWN, _C.RUNNING: _C.UNKNOWN, _C.UNKNOWN: _C.UNKNOWN},
    "stop": {
        _C.CREATED: _C.CREATED, _C.STARTING: _C.STARTING, _C.RUNNING: _C.RUNNING, _C.EXITED: _C.EXITED,
        _C.UNKNOWN: _C.UNKNOWN,
    },
    "remove": {
        _C.CREATING: _C.REMOVING, _C.CREATED: _C.REMOVING, _C.EXITED: _C.REMOVING, _C.UNKNOWN: _C.REMOVING,
        _C.REMOVING: _C.REMOVING,
    },
}  # fmt: skip


def next_pod_state(pod: str, state: PodState, step: str) -> PodState:
    """The state after a step. WrongState if the step is not allowed."""
    try:
        return POD_STEPS[step][state]
    except KeyError:
        raise WrongState(f"pod {pod}", state, step) from None


def next_container_state(container: str, state: ContainerState, step: str) -> ContainerState:
    """The state after a step. WrongState if the step is not allowed."""
    try:
        return CONTAINER_STEPS[step][state]
    except KeyError:
        raise WrongState(f"container {container}", state, step) from None
