"""A forwarded call: its deadline and its metadata."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from nri.proxy.passing.call import Call, RuntimeFailed


class Context:
    """The context that gRPC passes for a call, with `remainder` seconds left."""

    def __init__(self, remainder: float | None) -> None:
        self.left, self.trailing = remainder, ()
        self.first: Any = None
        self.gone = False
        self.aborted: tuple[Any, str] | None = None

    def time_remaining(self) -> float | None:
        return self.left

    def add_callback(self, callback: Callable[[], object]) -> bool:
        return not self.gone

    def invocation_metadata(self) -> Any:
        return (("x-request", "1"), ("user-agent", "kubelet"))

    def send_initial_metadata(self, metadata: Any) -> None:
        self.first = metadata

    def set_trailing_metadata(self, metadata: Any) -> None:
        self.trailing = metadata

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.aborted = code, details
        raise grpc.RpcError(details)


def call(remainder: float | None) -> Call:
    backend: Any = None
    return Call("/a.B/C", Context(remainder), backend)


def test_the_remaining_time_shrinks() -> None:
    forwarded = call(500.0)
    first = forwarded.time_left()
    time.sleep(0.01)
    second = forwarded.time_left()
    assert first is not None
    assert second is not None
    assert 400 < second < first <= 500


@pytest.mark.parametrize("remainder", [None, 1e12])
def test_a_client_without_a_timeout_has_no_deadline(remainder: float | None) -> None:
    assert call(remainder).deadline is None
    assert call(remainder).time_left() is None


def test_an_expired_deadline_leaves_a_millisecond() -> None:
    assert call(-1.0).time_left() == 0.001


def test_an_error_has_only_the_runtimes_own_metadata() -> None:
    forwarded = call(None)
    context = forwarded.context
    trailing = (("grpc-status-details-bin", b"x"), ("user-agent", "other"), (":path", "/"))
    with pytest.raises(grpc.RpcError):
        forwarded.abort(grpc.StatusCode.NOT_FOUND, "no such pod", trailing)
    assert context.aborted == (grpc.StatusCode.NOT_FOUND, "no such pod")
    assert context.trailing == (("grpc-status-details-bin", b"x"),)


def test_a_failure_of_the_runtime_has_code_and_text() -> None:
    assert str(RuntimeFailed(grpc.StatusCode.NOT_FOUND, "gone")) == "NOT_FOUND: gone"


class Answers:
    """A stream of the runtime's answers, which ends with or without an error."""

    def __init__(self) -> None:
        self.cancelled = 0

    def initial_metadata(self) -> Any:
        return (("x-first", "1"),)

    def trailing_metadata(self) -> Any:
        return (("x-last", "2"), ("content-type", "application/grpc"))

    def cancel(self) -> None:
        self.cancelled += 1

    def __iter__(self) -> Iterator[bytes]:
        return iter([b"a", b"b"])


class Streams:
    def __init__(self) -> None:
        self.asked: Any = None
        self.answers = Answers()

    def server_stream(self, *arguments: Any) -> Answers:
        self.asked = arguments
        return self.answers


def test_a_stream_has_metadata_and_is_cancelled_at_the_runtime() -> None:
    backend, context = Streams(), Context(None)
    call = Call("/a.B/C", context, backend)  # type: ignore[arg-type]
    assert list(call.forward_stream(b"?")) == [b"a", b"b"]
    assert backend.asked == ("/a.B/C", b"?", None, (("x-request", "1"),))
    assert (context.first, context.trailing) == ((("x-first", "1"),), (("x-last", "2"),))
    assert backend.answers.cancelled == 1


def test_the_call_of_a_disconnected_client_ends_at_once() -> None:
    backend, context = Streams(), Context(None)
    context.gone = True
    list(Call("/a.B/C", context, backend).forward_stream(b"?"))  # type: ignore[arg-type]
    assert backend.answers.cancelled == 2


def test_a_disconnected_client_does_not_fail_a_finished_call() -> None:
    """Otherwise plugins would receive that an existing container was not created."""

    class Done:
        def cancel(self) -> None:
            pass

        def result(self) -> bytes:
            return b"made"

        def initial_metadata(self) -> Any:
            return (("x-answer", "1"),)

        def trailing_metadata(self) -> Any:
            return ()

    class Gone(Context):
        def send_initial_metadata(self, metadata: Any) -> None:
            raise grpc.RpcError

    class Runtime:
        def unary(self, *_: object) -> Done:
            return Done()

    runtime: Any = Runtime()
    assert Call("/a.B/C", Gone(5.0), runtime).forward(b"") == b"made"
