"""Exec requests: checks before a program runs."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.execution import ExecutionCalls, RunningContainers, truncate
from nri.engine.process import ExecResult
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState
from nri.engine.support.errors import WrongState


class Containers:
    """Notes how long a program may take, and the event that its client has gone."""

    limit: float | None = -1.0
    client_gone = threading.Event()

    def exec_sync(
        self, container_id: str, argv: list[str], timeout_s: float | None, client_gone: threading.Event
    ) -> ExecResult:
        self.limit, self.client_gone = timeout_s, client_gone
        return ExecResult(b"o", b"e", 3)


@pytest.mark.parametrize(
    ("timeout_s", "remaining_s", "limit"),
    [(0, None, None), (5, None, 5.0), (0, 2.5, 2.5), (5, 2.5, 2.5), (2, 60.0, 2.0), (0, 0.0, 0.1)],
)
def test_a_program_runs_until_its_timeout_or_its_clients_deadline(
    timeout_s: int, remaining_s: float | None, limit: float | None
) -> None:
    containers: Any = Containers()
    ends: list[Any] = []
    call: Any = SimpleNamespace(time_left=lambda: remaining_s, on_end=ends.append)
    calls = ExecutionCalls(containers, containers, containers)
    reply = calls.exec_sync(pb.ExecSyncRequest(container_id="c", cmd=["x"], timeout=timeout_s), call)
    assert containers.limit == limit
    assert not containers.client_gone.is_set()
    for end in ends:
        end()
    assert containers.client_gone.is_set(), "the end of the call is the end of its client"
    assert (reply.stdout, reply.stderr, reply.exit_code) == (b"o", b"e", 3)


@pytest.mark.parametrize(
    ("stdout", "stderr", "fits"),
    [(3, 4, (3, 4)), (10, 0, (10, 0)), (11, 0, (10, 0)), (11, 2, (8, 2)), (2, 11, (2, 8)), (20, 20, (5, 5))],
)
def test_outputs_are_cut_to_fit_together(stdout: int, stderr: int, fits: tuple[int, int]) -> None:
    out, err = truncate(b"o" * stdout, b"e" * stderr, 10)
    assert (len(out), len(err)) == fits


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("exec", pb.ExecRequest(container_id="c", cmd=["ls"], stdout=True)),
        ("attach", pb.AttachRequest(container_id="c", stdout=True)),
        ("port_forward", pb.PortForwardRequest(pod_sandbox_id="p", port=[80])),
    ],
)
def test_a_dry_engine_refuses_to_run_programs(method: str, request_: Any) -> None:
    inventory: Any = SimpleNamespace(
        pod=lambda _: SimpleNamespace(record=PodRecord("p", state=PodState.READY)),
        container=lambda _: SimpleNamespace(record=ContainerRecord("c", state=ContainerState.RUNNING)),
    )
    streaming: Any = SimpleNamespace()
    calls = ExecutionCalls(inventory, RunningContainers(inventory, None), streaming, dry=True)  # type: ignore[arg-type]
    expected = f"^this engine is dry \\(nothing runs in its containers\\): {method.replace('_', ' ')} is not possible$"
    with pytest.raises(WrongState, match=expected):
        getattr(calls, method)(request_, SimpleNamespace())
