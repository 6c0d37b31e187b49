"""The nine CRI calls of a pod with one container, each timed by its client.

Every runtime gets the same requests, one after the other, by gRPC from this process.
"""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from nri.cri.pb import api_pb2 as pb
from tools.runtimes.cri import CALL_TIMEOUT_S, Cri

#: In the order in which they are made.
CALLS = (
    "RunPodSandbox", "CreateContainer", "StartContainer", "ExecSync", "UpdateContainerResources", "StopContainer",
    "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
)  # fmt: skip
#: What the whole life is called in tables.
CYCLE = "whole cycle"
#: As many plugins as are ever attached; each has an annotation that says what it adjusts (`fieldplugin` of the tests).
PLUGINS = 5
_numbers = itertools.count()


def adjustment(number: int) -> dict[str, Any]:
    """What a plugin of this number wants of every container, as the protocol's JSON."""
    env = [{"key": f"BENCH_{number}_{key}", "value": "a value that the plugin adds"} for key in ("FIRST", "SECOND")]
    return {"env": env, "annotations": {f"bench.example.com/{number}": "the annotation's value"}}


ANNOTATIONS = {f"b{n}.test/CreateContainer": json.dumps({"adjust": adjustment(n)}) for n in range(PLUGINS)}


class TimedCri(Cri):
    """A client that keeps the time of every call in `took`, in milliseconds, and its moments in `windows`."""

    def __init__(self, socket: Path, cgroup_parent: str) -> None:
        super().__init__(socket, cgroup_parent)
        self.took: dict[str, float] = {}
        self.windows: list[tuple[str, int, int]] = []

    def call(self, method: str, request: Message, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Call a method of the RuntimeService; raises `grpc.RpcError`."""
        began = time.monotonic_ns()
        try:
            return super().call(method, request, timeout_s)
        finally:
            ended = time.monotonic_ns()
            self.took[method] = (ended - began) / 1e6
            self.windows.append((method, began, ended))


def cycle(cri: TimedCri, **kind: bool) -> dict[str, float]:
    """Run one pod from creation to removal; milliseconds by call and in total. `kind`: arguments of `Cri.run_pod`."""
    cri.took = {}
    pod = cri.run_pod(f"p{next(_numbers)}", annotations=ANNOTATIONS, **kind)  # type: ignore[arg-type]
    container = cri.create(pod, "main")
    cri.start(container)
    cri.exec(container, "/bin/true")
    cri.update(container, cpu_shares=300)
    cri.stop(container)
    cri.remove(container)
    cri.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod.id))
    cri.call("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=pod.id))
    return {**{name: cri.took[name] for name in CALLS}, CYCLE: sum(cri.took.values())}
