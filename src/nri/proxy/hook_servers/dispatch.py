"""Choose the hook server for a request: the first one that lists the stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

PRE, POST = "PreHook", "PostHook"

#: The call of the CRI that each stage belongs to; removal of a pod is never dispatched by the original.
STAGES: Final = {
    "PreRunPodSandbox": "RunPodSandbox",
    "PostStopPodSandbox": "StopPodSandbox",
    "PreCreateContainer": "CreateContainer",
    "PreStartContainer": "StartContainer",
    "PostStartContainer": "StartContainer",
    "PreUpdateContainerResources": "UpdateContainerResources",
    "PostStopContainer": "StopContainer",
}


class HookServer(NamedTuple):
    """A registered server. `failure_policy` is "Fail", "Ignore" or "", which counts as "Ignore"."""

    endpoint: str
    stages: tuple[str, ...]
    failure_policy: str = ""


def chosen(
    servers: Iterable[HookServer], call: str, moment: str = PRE, unreachable: Sequence[str] = ()
) -> tuple[HookServer, str] | None:
    """Return the server to ask, and the stage; None if no server listens. One that cannot be reached is passed over."""
    for server in servers:
        for stage in server.stages:
            if STAGES.get(stage) != call or not stage.startswith(moment.removesuffix("Hook")):
                continue
            if server.endpoint not in unreachable:
                return server, stage
    return None
