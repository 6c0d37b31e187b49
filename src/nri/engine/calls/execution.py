"""ExecSync, Exec, Attach, PortForward and ReopenContainerLog: calls that reach into running containers.

Exec, Attach and PortForward return a URL where the client connects to the streams. They check the request first,
because clients report the errors of a call better than the errors of a stream.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, end_event
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.process import Attachment, ContainerStats, ExecResult, Execution, read_stats, stream_owner
from nri.engine.process.execution import exec_process
from nri.engine.state import ContainerState, PodState
from nri.engine.state.tables import next_container_state
from nri.engine.support.errors import EngineError, WrongState
from nri.errors import RequestError

#: The maximum size of the output. Clients accept messages of 16 MiB, and the other fields need some space.
MAX_OUTPUT_BYTES = (16 << 20) - 4096
#: The timeout if the client's deadline is now. A timeout of 0 would mean no limit.
_MIN_TIMEOUT_S = 0.1


class Streaming(Protocol):
    """The streaming server. Each URL that it returns can be used once."""

    def exec_url(
        self, container_id: str, argv: list[str], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Return a URL where a client can run this program in a container."""

    def attach_url(self, container_id: str, *, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str:
        """Return a URL where a client can connect to a container's streams."""

    def port_forward_url(self, pod_id: str, ports: list[int]) -> str:
        """Return a URL where a client can connect to ports of a pod."""


class ExecutionCalls:
    """Answers the calls. With `dry`, programs cannot be run, so calls that return a URL fail."""

    def __init__(
        self, inventory: Inventory, containers: RunningContainers, streaming: Streaming, *, dry: bool = False
    ) -> None:
        self._inventory, self._containers, self._streaming, self._dry = inventory, containers, streaming, dry

    def exec_sync(self, request: pb.ExecSyncRequest, call: Call) -> pb.ExecSyncResponse:
        """Run a program in a container until the program ends or the client disconnects."""
        _check_argv(request.cmd)
        if request.timeout < 0:
            raise RequestError("timeout", request.timeout, "must not be negative")
        remaining_s = call.time_left()
        limits = [float(request.timeout)] if request.timeout else []
        limits += [] if remaining_s is None else [max(remaining_s, _MIN_TIMEOUT_S)]
        limit = min(limits, default=None)
        result = self._containers.exec_sync(request.container_id, list(request.cmd), limit, end_event(call))
        stdout, stderr = truncate(result.stdout, result.stderr)
        return pb.ExecSyncResponse(stdout=stdout, stderr=stderr, exit_code=result.code)

    def exec(self, request: pb.ExecRequest, call: Call) -> pb.ExecResponse:
        """Return a URL where the client runs a program and connects to its streams."""
        _check_argv(request.cmd)
        _check_streams(request)
        streams = {"tty": request.tty, "stdin": request.stdin, "stdout": request.stdout, "stderr": request.stderr}
        container_id = self._running(request.container_id, "exec")
        return pb.ExecResponse(url=self._streaming.exec_url(container_id, list(request.cmd), **streams))

    def attach(self, request: pb.AttachRequest, call: Call) -> pb.AttachResponse:
        """Return a URL where the client connects to the streams of a container's main program."""
        _check_streams(request)
        streams = {"tty": request.tty, "stdin": request.stdin, "stdout": request.stdout, "stderr": request.stderr}
        container_id = self._running(request.container_id, "attach")
        return pb.AttachResponse(url=self._streaming.attach_url(container_id, **streams))

    def port_forward(self, request: pb.PortForwardRequest, call: Call) -> pb.PortForwardResponse:
        """Return a URL where the client connects to ports of a pod."""
        pod = self._inventory.pod(request.pod_sandbox_id).record
        if pod.state is not PodState.READY:
            raise WrongState(f"pod {pod.id}", pod.state, "port forward")
        for port in request.port:
            if not 0 < port < 1 << 16:
                raise RequestError("port", port, "is not a port")
        self._check_dry("port forward")
        return pb.PortForwardResponse(url=self._streaming.port_forward_url(pod.id, list(request.port)))

    def reopen_container_log(self, request: pb.ReopenContainerLogRequest, call: Call) -> pb.ReopenContainerLogResponse:
        """Continue the log in a new file of the same name. The client has renamed the old file."""
        self._containers.reopen_log(request.container_id)
        return pb.ReopenContainerLogResponse()

    def _running(self, prefix: str, step: str) -> str:
        record = self._inventory.container(prefix).record
        if record.state is not ContainerState.RUNNING:
            raise WrongState(f"container {record.id}", record.state, step)
        self._check_dry(step)
        return record.id

    def _check_dry(self, step: str) -> None:
        if self._dry:
            raise WrongState("this engine", "dry (nothing runs in its containers)", step)


class RunningContainers:
    """Runs programs in containers, and connects to their streams.

    Each method raises NotFound if the container does not exist, and WrongState if it is not running.
    """

    def __init__(self, inventory: Inventory, machinery: Machinery) -> None:
        self._inventory, self._machinery = inventory, machinery

    def exec_sync(
        self,
        prefix: str,
        argv: Sequence[str],
        timeout_s: float | None = None,
        client_gone: threading.Event | None = None,
    ) -> ExecResult:
        """Run a program in a container, and wait for its end.

        The program is killed after `timeout_s` seconds, or when `client_gone` is set. Raises CommandTimeout if the time
        is over, and CommandFailed if the program cannot be started.
        """
        container = self._running(prefix)
        process = exec_process(_process(container), argv)
        runtime = self._machinery.runtime(container.record.runtime_handler)
        return self._machinery.exec_sync(
            runtime, container.id, process, timeout_s, client_gone, stream_owner(container.spec)
        )

    def exec(self, prefix: str, argv: Sequence[str], *, tty: bool = False, stdin: bool = False) -> Execution:
        """Run a program in a container, and return the connection to its streams."""
        container = self._running(prefix)
        process = exec_process(_process(container), argv, tty=tty)
        runtime = self._machinery.runtime(container.record.runtime_handler)
        return Execution(runtime, container.id, process, stdin=stdin, owner=stream_owner(container.spec))

    def attach(self, prefix: str) -> Attachment:
        """Connect to the streams of a container's main program. Raises EngineError if conmon does not answer."""
        return Attachment(Path(self._running(prefix).record.bundle))

    def resize(self, prefix: str, width: int, height: int) -> None:
        """Set the size of a container's terminal, in characters."""
        self._machinery.conmon.resize(Path(self._running(prefix).record.bundle), width, height)

    def reopen_log(self, prefix: str) -> None:
        """Continue a container's log in a new file of the same name. Raises EngineError if conmon does not answer."""
        container = self._running(prefix)
        record = container.record
        if record.log_path:
            with container.log_lock:  # two concurrent calls would each open a file
                self._machinery.conmon.reopen_log(Path(record.bundle), Path(record.log_path))

    def stats(self, prefix: str) -> ContainerStats:
        """Read the resource use of a container. Raises EngineError if the container ends during the call."""
        container = self._running(prefix)
        try:
            return read_stats(container.record.pid, cgroup=container.record.cgroup_path)
        except FileNotFoundError:
            raise EngineError(f"container {container.id} has just ended") from None

    def _running(self, prefix: str) -> ContainerEntry:
        container = self._inventory.container(prefix)
        next_container_state(container.id, container.record.state, "exec")
        return container


def truncate(stdout: bytes, stderr: bytes, limit: int = MAX_OUTPUT_BYTES) -> tuple[bytes, bytes]:
    """Cut two outputs so that they have `limit` bytes together. Neither is cut below half of the limit."""
    out = stdout[: max(limit - len(stderr), limit // 2)]
    return out, stderr[: max(limit - len(out), limit // 2)]


def _check_argv(argv: object) -> None:
    if not argv:
        raise RequestError("cmd", "", "a program is required")


def _check_streams(request: pb.ExecRequest | pb.AttachRequest) -> None:
    if not (request.stdin or request.stdout or request.stderr):
        raise RequestError("stdin, stdout, stderr", "", "at least one must be requested")
    if request.tty and request.stderr:
        raise RequestError("stderr", True, "must not be requested with a terminal, which has only stdout")


def _process(container: ContainerEntry) -> Any:
    """Return the process of a container's OCI spec. Raises EngineError if the engine could not read the spec."""
    if "process" not in container.spec:
        raise EngineError(
            f"container {container.id}: config.json of its bundle cannot be used. Stop and remove the container"
        )
    return container.spec["process"]
