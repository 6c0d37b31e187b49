"""One call of a client on its way to the runtime, and back.

Rules: bytes only. Metadata and deadline of the client go to the runtime, what the runtime sent along
(metadata before and after, status, details) goes to the client; a client that gives up ends the call at the runtime,
but for one that only reads and has a deadline: that one is made in the thread that has it.
Next: `nri.proxy.passing.front`.
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

__all__ = ["Call", "RuntimeFailed"]

#: A deadline so far away is none: grpcio has no other way to say so.
_ENDLESS_S = 10 * 365 * 86400.0
#: Metadata that belong to a connection and not to a call; gRPC sets its own.
_OF_A_HOP = ("user-agent", "content-type", "te", "host", "accept-encoding", "grpc-encoding", "grpc-accept-encoding")
_LEAST_S = 0.001
_Stream = Any


class RuntimeFailed(NriError):
    """The runtime answered a call with an error, or not at all; the client gets it as it came.

    Attributes:
        code: gRPC's status code.
        details: its text.
        trailing: the metadata that came with it, among them the status's details.
    """

    def __init__(self, code: grpc.StatusCode, details: str, trailing: Any = ()) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code, self.details, self.trailing = code, details, trailing


class Call:
    """A call that a client has made.

    Attributes:
        method: its whole name, ``/runtime.v1.RuntimeService/CreateContainer``.
        deadline: when the client gives up, in monotonic seconds; None for never.
    """

    def __init__(self, method: str, context: Any, backend: Backend) -> None:
        self.method = method
        self.context, self._backend = context, backend
        left = context.time_remaining()
        self.deadline = None if left is None or left > _ENDLESS_S else monotonic() + left

    def forward(self, request: bytes) -> bytes:
        """The runtime's answer. Raises RuntimeFailed."""
        if self._is_quick:
            return self._forward_through(request)
        call = self._backend.unary(self.method, request, self.time_left(), self._metadata())
        self._ends_with_client(call)
        try:
            answer: bytes = call.result()
        except grpc.RpcError:
            raise _failure(call) from None
        except grpc.FutureCancelledError:
            raise RuntimeFailed(grpc.StatusCode.CANCELLED, "the client has gone") from None
        self._send_along(call)
        return answer

    def forward_stream(self, request: bytes) -> Iterator[bytes]:
        """The runtime's answers as they come. Raises RuntimeFailed."""
        return self._answers(self._backend.server_stream(self.method, request, self.time_left(), self._metadata()))

    def forward_streams(self, requests: Iterable[bytes]) -> Iterator[bytes]:
        """The runtime's answers to requests as they come. Raises RuntimeFailed."""
        begun: list[_Stream] = []

        def until_gone() -> Iterator[bytes]:
            try:
                yield from requests
            except grpc.RpcError:  # the client has gone; gRPC's own thread would log it with a traceback
                for each in begun:
                    each.cancel()

        begun.append(self._backend.stream(self.method, until_gone(), self.time_left(), self._metadata()))
        return self._answers(begun[0])

    def abort(self, code: grpc.StatusCode, details: str, trailing: Any = ()) -> NoReturn:
        """End the call with an error: raises what gRPC wants raised."""
        if trailing:
            self.context.set_trailing_metadata(_passed(trailing))
        self.context.abort(code, details)
        raise AssertionError("abort always raises")

    def time_left(self) -> float | None:
        """Seconds until the client gives up; None for no end."""
        return None if self.deadline is None else max(self.deadline - monotonic(), _LEAST_S)

    # --- inside ---

    @property
    def _is_quick(self) -> bool:
        """Whether it reads what the runtime knows, by a deadline: a client that gives up need not end that."""
        return self.deadline is not None and self.method.endswith(READS)

    def _forward_through(self, request: bytes) -> bytes:
        try:
            answer, call = self._backend.unary_through(
                self.method, request, self.time_left() or _LEAST_S, self._metadata()
            )
        except grpc.RpcError as error:
            raise _failure(error) from None
        self._send_along(call)
        return answer

    def _answers(self, call: _Stream) -> Iterator[bytes]:
        self._ends_with_client(call)
        try:
            if first := _passed(call.initial_metadata()):
                self.context.send_initial_metadata(first)
            yield from call
        except grpc.RpcError:
            raise _failure(call) from None
        finally:
            call.cancel()
        self.context.set_trailing_metadata(_passed(call.trailing_metadata()))

    def _ends_with_client(self, call: Any) -> None:
        if not self.context.add_callback(call.cancel):
            call.cancel()  # the client has gone already

    def _metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return _passed(self.context.invocation_metadata())

    def _send_along(self, call: Any) -> None:
        if first := _passed(call.initial_metadata()):
            with suppress(grpc.RpcError):  # the client has gone; the runtime has done it all the same
                self.context.send_initial_metadata(first)
        if last := _passed(call.trailing_metadata()):
            self.context.set_trailing_metadata(last)


def _failure(call: Any) -> RuntimeFailed:
    return RuntimeFailed(call.code(), call.details() or "", tuple(call.trailing_metadata() or ()))


def _passed(metadata: Any) -> tuple[tuple[str, str | bytes], ...]:
    """The metadata that are the other side's own."""
    return tuple((key, value) for key, value in metadata or () if key not in _OF_A_HOP and not key.startswith(":"))
