"""The server to which the kubelet connects. It serves any method of any service, and passes most on unchanged.

The kinds of the CRI's methods are known from its descriptors. All other methods are passed on as bidirectional streams,
because every kind of call is such a stream on the wire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from nri.cri.codes import ROWS, Row, status_of
from nri.cri.pb import api_pb2 as pb
from nri.cri.server import SocketServer, bind
from nri.errors import DeadlineExceeded, NriError, RuntimeUnavailable
from nri.proxy.passing.backend import Backend
from nri.proxy.passing.call import Call, RuntimeFailed
from nri.thread_pool import ThreadPool

#: At most this many calls run at the same time. Further calls are refused at once (RESOURCE_EXHAUSTED). Threads are
#: started on demand.
CALLS = 1024
#: At most this many calls of a connection run at the same time, so that a client cannot use up all calls.
CALLS_OF_ONE = 896
Answer = Callable[[bytes, Call], bytes]
_CODES = (
    Row(RuntimeUnavailable, grpc.StatusCode.UNAVAILABLE),
    Row(DeadlineExceeded, grpc.StatusCode.DEADLINE_EXCEEDED),
    Row(DecodeError, grpc.StatusCode.INVALID_ARGUMENT),  # the error of decoding the client's request
    *ROWS,
)

_log = logging.getLogger("nri.proxy")


class Front(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """The proxy's server at a unix socket, mode 0600.

    Args:
        answers: functions that answer methods instead of passing them on unchanged, by the method's full name.
    """

    def __init__(self, path: str, backend: Backend, answers: Mapping[str, Answer]) -> None:
        self.path = path
        self._backend = backend
        self._pool = ThreadPool(CALLS, thread_name_prefix="proxy")
        self._server: SocketServer | None = None
        self._handlers = {
            f"/{service.full_name}/{method.name}": self._cri_handler(
                f"/{service.full_name}/{method.name}", method, answers
            )
            for service in pb.DESCRIPTOR.services_by_name.values()
            for method in service.methods
        }

    def start(self) -> None:
        """Listen. Raises OSError if another process listens on the socket, or other users can write to its folder."""
        try:
            server = bind(
                self.path, self._pool, [self], folder_mode=0o755, max_calls=CALLS, max_calls_per_connection=CALLS_OF_ONE
            )
        except RuntimeError as error:
            raise OSError(str(error)) from error
        server.start()
        self._server = server

    @property
    def listening(self) -> bool:
        """Whether calls are accepted."""
        return self._server is not None

    def stop(self, grace_s: float = 2.0) -> None:
        """Accept no more calls, wait at most `grace_s` seconds for active calls, and remove the socket."""
        server, self._server = self._server, None
        if server is not None:
            server.stop(grace_s).wait()
        self._pool.shutdown(wait=False)

    def service(self, details: Any) -> Any:
        """The handler of a method, for gRPC."""
        return self._handlers.get(details.method) or self._stream_handler(details.method)

    # --- handlers ---

    def _cri_handler(self, name: str, method: Any, answers: Mapping[str, Answer]) -> Any:
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._stream_behaviour(name, Call.forward_stream))
        return grpc.unary_unary_rpc_method_handler(self._unary_behaviour(name, answers.get(name)))

    def _stream_handler(self, name: str) -> Any:
        return grpc.stream_stream_rpc_method_handler(self._stream_behaviour(name, Call.forward_streams))

    def _unary_behaviour(self, name: str, answer: Answer | None) -> Callable[[bytes, Any], bytes]:
        def behave(request: bytes, context: Any) -> bytes:
            call = Call(name, context, self._backend)
            try:
                return call.forward(request) if answer is None else answer(request, call)
            except Exception as error:  # noqa: BLE001  the table has a row for every error
                _abort(call, error)

        return behave

    def _stream_behaviour(self, name: str, forward: Callable[[Call, Any], Iterator[bytes]]) -> Callable[..., Any]:
        def behave(request: Any, context: Any) -> Iterator[bytes]:
            call = Call(name, context, self._backend)
            try:
                yield from forward(call, request)
            except Exception as error:  # noqa: BLE001  as above
                _abort(call, error)

        return behave


def _abort(call: Call, error: Exception) -> NoReturn:
    if isinstance(error, RuntimeFailed):
        call.abort(error.code, error.details, error.trailing)
    code, text = status_of(error, _CODES)
    name = call.method.rpartition("/")[2]
    if isinstance(error, (NriError, OSError, DecodeError)):
        _log.info("%s: %s: %s", name, code.name, text)
    else:
        _log.error("%s failed", name, exc_info=error)  # a defect of the proxy; the traceback is needed to fix it
    call.abort(code, text)
