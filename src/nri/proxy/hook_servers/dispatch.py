"""Choose the hook server for a request: the first that lists the stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

PRE, POST = "PreHook", "PostHook"

#: The CRI call of each stage. As in Koordinator's proxy, no hook server is called for the removal of a pod.
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
    """A registered server. `failure_policy` is "Fail", "Ignore", or "", which counts as "Ignore"."""

    endpoint: str
    stages: tuple[str, ...]
    failure_policy: str = ""


def chosen(
    servers: Iterable[HookServer], call: str, moment: str = PRE, unreachable: Sequence[str] = ()
) -> tuple[HookServer, str] | None:
    """Return the server to call, and the stage.

    Returns None if no server lists it. `unreachable` servers are skipped.
    """
    for server in servers:
        for stage in server.stages:
            if STAGES.get(stage) != call or not stage.startswith(moment.removesuffix("Hook")):
                continue
            if server.endpoint not in unreachable:
                return server, stage
    return None
