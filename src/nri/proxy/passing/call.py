"""A client's call that is passed on to the runtime.

The client's metadata and deadline go to the runtime; the runtime's metadata, status and details go to the client. A
client that cancels ends the call at the runtime, except for a call that only reads and has a deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, NoReturn

import grpc

from nri.cri.server import READS
from nri.errors import NriError
from nri.proxy.passing.backend import Backend

#: A deadline further away means that there is no deadline; grpcio has no other way to express that.
_MAX_DEADLINE_S = 10 * 365 * 86400.0
#: Metadata of a connection, not of a call. gRPC sets its own metadata.
_CONNECTION_METADATA = (
    "user-agent",
    "content-type",
    "te",
    "host",
    "accept-encoding",
    "grpc-encoding",
    "grpc-accept-encoding",
)
_MIN_TIMEOUT_S = 0.001
_Stream = Any


class RuntimeFailed(NriError):
    """The runtime answered a call with an error, or not at all; the client receives the same error.

    Attributes:
        code: gRPC's status code.
        details: the text of the status.
        trailing: the trailing metadata, which contain the status's details.
    """

    def __init__(self, code: grpc.StatusCode, details: str, trailing: Any = ()) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code, self.details, self.trailing = code, details, trailing


class Call:
    """A client's call.

    Attributes:
        method: the full name, ``/runtime.v1.RuntimeService/CreateContainer``.
        deadline: the client's deadline in monotonic seconds, or None.
    """

    def __init__(self, method: str, context: Any, backend: Backend) -> None:
        self.method = method
        self.context, self._backend = context, backend
        remaining_s = context.time_remaining()
        self.deadline = None if remaining_s is None or remaining_s > _MAX_DEADLINE_S else monotonic() + remaining_s

    def forward(self, request: bytes) -> bytes:
        """Pass a request on, and return the runtime's answer. Raises RuntimeFailed."""
        if self._is_quick:
            return self._forward_through(request)
        call = self._backend.unary(self.method, request, self.time_left(), self._metadata())
        self._ends_with_client(call)
        try:
            answer: bytes = call.result()
        except grpc.RpcError:
            raise _failure(call) from None
        except grpc.FutureCancelledError:
            raise RuntimeFailed(grpc.StatusCode.CANCELLED, "the client has cancelled") from None
        self._send_along(call)
        return answer

    def forward_stream(self, request: bytes) -> Iterator[bytes]:
        """Pass a request on, and yield the runtime's answers. Raises RuntimeFailed."""
        return self._answer_messages(
            self._backend.server_stream(self.method, request, self.time_left(), self._metadata())
        )

    def forward_streams(self, requests: Iterable[bytes]) -> Iterator[bytes]:
        """Pass requests on, and yield the runtime's answers. Raises RuntimeFailed."""
        calls: list[_Stream] = []

        def until_gone() -> Iterator[bytes]:
            try:
                yield from requests
            except grpc.RpcError:  # the client has disconnected; gRPC's own thread would log it with a traceback
                for call in calls:
                    call.cancel()

        calls.append(self._backend.stream(self.method, until_gone(), self.time_left(), self._metadata()))
        return self._answer_messages(calls[0])

    def abort(self, code: grpc.StatusCode, details: str, trailing: Any = ()) -> NoReturn:
        """End the call with an error, by raising gRPC's exception."""
        if trailing:
            self.context.set_trailing_metadata(_call_metadata(trailing))
        self.context.abort(code, details)
        raise AssertionError("abort always raises")

    def time_left(self) -> float | None:
        """Seconds until the client's deadline, or None."""
        return None if self.deadline is None else max(self.deadline - monotonic(), _MIN_TIMEOUT_S)

    # --- inside ---

    @property
    def _is_quick(self) -> bool:
        """Whether the call only reads and has a deadline.

        Such a call is made in this thread, and cancelling does not end it.
        """
        return self.deadline is not None and self.method.endswith(READS)

    def _forward_through(self, request: bytes) -> bytes:
        try:
            answer, call = self._backend.unary_through(
                self.method, request, self.time_left() or _MIN_TIMEOUT_S, self._metadata()
            )
        except grpc.RpcError as error:
            raise _failure(error) from None
        self._send_along(call)
        return answer

    def _answer_messages(self, call: _Stream) -> Iterator[bytes]:
        self._ends_with_client(call)
        try:
            if first := _call_metadata(call.initial_metadata()):
                self.context.send_initial_metadata(first)
            yield from call
        except grpc.RpcError:
            raise _failure(call) from None
        finally:
            call.cancel()
        self.context.set_trailing_metadata(_call_metadata(call.trailing_metadata()))

    def _ends_with_client(self, call: Any) -> None:
        if not self.context.add_callback(call.cancel):
            call.cancel()  # the client has already disconnected

    def _metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return _call_metadata(self.context.invocation_metadata())

    def _send_along(self, call: Any) -> None:
        if first := _call_metadata(call.initial_metadata()):
            with suppress(grpc.RpcError):  # the client has disconnected, but the runtime has executed the call
                self.context.send_initial_metadata(first)
        if last := _call_metadata(call.trailing_metadata()):
            self.context.set_trailing_metadata(last)


def _failure(call: Any) -> RuntimeFailed:
    return RuntimeFailed(call.code(), call.details() or "", tuple(call.trailing_metadata() or ()))


def _call_metadata(metadata: Any) -> tuple[tuple[str, str | bytes], ...]:
    """Metadata without the metadata of the connection."""
    return tuple(
        (key, value) for key, value in metadata or () if key not in _CONNECTION_METADATA and not key.startswith(":")
    )
