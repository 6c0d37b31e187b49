"""Programs in containers, and ports of pods: ExecSync answers itself, the others with an address for the streams.

Rules: a client that waits no longer ends its program; Exec, Attach and PortForward check what can be checked before an
address is given out, because its client sees errors badly. A dry engine has nothing to stream, and says so there.
Next: `nri.engine.calls.stats`.
"""

from __future__ import annotations

from typing import Protocol

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, ended
from nri.engine.calls.container_removal import Containers
from nri.engine.calls.pod_creation import Pods
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import WrongState
from nri.errors import RequestError

__all__ = ["ExecutionCalls", "Streaming"]


#: The room in a message of 16 MiB, the longest that clients take, beside its other fields.
OUTPUT_BYTES = (16 << 20) - 4096
#: For a client that is just going; 0 would mean no limit.
_LEAST_S = 0.1


class Streaming(Protocol):
    """The streaming server: addresses that can be used once."""

    def exec_url(
        self, container_id: str, argv: list[str], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """The address at which a program can be run."""

    def attach_url(self, container_id: str, *, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str:
        """The address at which a container can be watched and typed to."""

    def port_forward_url(self, pod_id: str, ports: list[int]) -> str:
        """The address at which ports of a pod can be reached."""


class ExecutionCalls:
    """The calls that run or reach something inside. `dry`: nothing runs there, so there is nothing to stream."""

    def __init__(self, pods: Pods, containers: Containers, streaming: Streaming, *, dry: bool = False) -> None:
        self._pods, self._containers, self._streaming, self._dry = pods, containers, streaming, dry

    def exec_sync(self, request: pb.ExecSyncRequest, call: Call) -> pb.ExecSyncResponse:
        """Run a program to its end, or its client's."""
        _check_words(request.cmd)
        if request.timeout < 0:
            raise RequestError("timeout", request.timeout, "it is negative")
        left = call.time_left()
        limits = [float(request.timeout)] if request.timeout else []
        limits += [] if left is None else [max(left, _LEAST_S)]
        limit = min(limits, default=None)
        found = self._containers.exec_sync(request.container_id, list(request.cmd), limit, ended(call))
        stdout, stderr = fitting(found.stdout, found.stderr)
        return pb.ExecSyncResponse(stdout=stdout, stderr=stderr, exit_code=found.code)

    def exec(self, request: pb.ExecRequest, call: Call) -> pb.ExecResponse:
        """Give out an address at which a program can be run with its streams."""
        _check_words(request.cmd)
        _check_streams(request)
        streams = {"tty": request.tty, "stdin": request.stdin, "stdout": request.stdout, "stderr": request.stderr}
        container_id = self._running(request.container_id, "exec")
        return pb.ExecResponse(url=self._streaming.exec_url(container_id, list(request.cmd), **streams))

    def attach(self, request: pb.AttachRequest, call: Call) -> pb.AttachResponse:
        """Give out an address for the streams of a container's own program."""
        _check_streams(request)
        streams = {"tty": request.tty, "stdin": request.stdin, "stdout": request.stdout, "stderr": request.stderr}
        container_id = self._running(request.container_id, "attach")
        return pb.AttachResponse(url=self._streaming.attach_url(container_id, **streams))

    def port_forward(self, request: pb.PortForwardRequest, call: Call) -> pb.PortForwardResponse:
        """The address at which ports of a pod can be reached."""
        pod = self._pods.get(request.pod_sandbox_id)
        if pod.state is not PodState.READY:
            raise WrongState(f"pod {pod.id}", pod.state, "port forward")
        for port in request.port:
            if not 0 < port < 1 << 16:
                raise RequestError("port", port, "it is not a port")
        self._check_runs("port forward")
        return pb.PortForwardResponse(url=self._streaming.port_forward_url(pod.id, list(request.port)))

    def _running(self, prefix: str, step: str) -> str:
        found = self._containers.get(prefix)
        if found.state is not ContainerState.RUNNING:
            raise WrongState(f"container {found.id}", found.state, step)
        self._check_runs(step)
        return found.id

    def _check_runs(self, step: str) -> None:
        if self._dry:
            raise WrongState("this engine", "dry, and nothing runs in its containers", step)


def fitting(stdout: bytes, stderr: bytes, room: int = OUTPUT_BYTES) -> tuple[bytes, bytes]:
    """Both outputs cut so that together they fit into a message; neither takes the other's half. Pure."""
    out = stdout[: max(room - len(stderr), room // 2)]
    return out, stderr[: max(room - len(out), room // 2)]


def _check_words(words: object) -> None:
    if not words:
        raise RequestError("cmd", "", "there is no program")


def _check_streams(request: pb.ExecRequest | pb.AttachRequest) -> None:
    if not (request.stdin or request.stdout or request.stderr):
        raise RequestError("stdin, stdout, stderr", "", "at least one has to be asked for")
    if request.tty and request.stderr:
        raise RequestError("stderr", True, "with a terminal there is no stderr apart from stdout")
