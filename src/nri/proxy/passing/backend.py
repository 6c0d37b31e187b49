"""The connection to the runtime: raw calls of any method, and the proxy's own calls.

The channel connects again by itself. While no runtime listens, a call fails at once with UNAVAILABLE.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nri.cri.client import connection_problem, decode_answer
from nri.cri.pb import api_pb2 as pb
from nri.cri.server import LIMITS
from nri.errors import RpcError, RuntimeUnavailable
from nri.user_agent import grpc_options

_log = logging.getLogger("nri.proxy")

RUNTIME_SERVICE = "runtime.v1.RuntimeService"
#: The timeout of the proxy's own calls, in seconds.
CALL_TIMEOUT_S = 10.0
#: gRPC's number of DEADLINE_EXCEEDED.
_LATE = 4
#: How long after its deadline gRPC may take to end a call, or to close a channel, in seconds.
MORE_S = 5.0
#: How long `stop` waits for gRPC's thread, in seconds.
_LOOKING_S = 1.0
#: The minimum and the maximum time between attempts to connect, in milliseconds.
_RETRY_MS, _RETRY_AT_MOST_MS = 50, 500
_OPTIONS = [
    *grpc_options(),
    *LIMITS,
    ("grpc.initial_reconnect_backoff_ms", _RETRY_MS),
    ("grpc.min_reconnect_backoff_ms", _RETRY_MS),
    ("grpc.max_reconnect_backoff_ms", _RETRY_AT_MOST_MS),
    ("grpc.use_local_subchannel_pool", 1),
]
Metadata = Sequence[tuple[str, str | bytes]]


class Backend:
    """The runtime at a CRI socket, whether it is running or not."""

    def __init__(self, path: str) -> None:
        self.path = path.removeprefix("unix://")
        self.channel = grpc.insecure_channel(f"unix://{os.path.abspath(self.path)}", options=_OPTIONS)
        self._methods: dict[str, Any] = {}
        self._listeners: list[Callable[[], object]] = []
        self._was_ready = False
        self._note_lock = threading.Lock()

    # --- for clients ---

    def unary(self, method: str, request: bytes, timeout_s: float | None, metadata: Metadata) -> Any:
        """Begin a call with one request and one answer, both bytes. Returns gRPC's future."""
        return self._begin_call(self._method(method).future, request, timeout_s, metadata)

    def unary_through(self, method: str, request: bytes, timeout_s: float, metadata: Metadata) -> tuple[bytes, Any]:
        """Make such a call in the caller's thread, which takes half the processor time. It cannot be cancelled.

        Returns the answer and gRPC's call. Raises grpc.RpcError, RuntimeUnavailable.
        """
        answer, call = self._begin_call(self._method(method).with_call, request, timeout_s, metadata)
        return answer, call

    def _method(self, name: str) -> Any:
        return self._methods.get(name) or self._methods.setdefault(name, self.channel.unary_unary(name))

    def server_stream(self, method: str, request: bytes, timeout_s: float | None, metadata: Metadata) -> Any:
        """Begin a call with one request and a stream of answers. Returns gRPC's call, which is iterated."""
        return self._begin_call(self.channel.unary_stream(method), request, timeout_s, metadata)

    def stream(self, method: str, requests: Iterable[bytes], timeout_s: float | None, metadata: Metadata) -> Any:
        """Begin a call of an unknown kind: streams in both directions, with any number of messages."""
        return self._begin_call(self.channel.stream_stream(method), requests, timeout_s, metadata)

    def _begin_call(self, begin: Any, request: Any, timeout_s: float | None, metadata: Metadata) -> Any:
        try:
            return begin(request, timeout=timeout_s, metadata=metadata)
        except ValueError as error:
            if "closed" not in str(error):
                raise
            raise RuntimeUnavailable(self.path, "the proxy is being stopped", "It no longer accepts calls") from None

    # --- for the proxy itself ---

    def call(self, name: str, request: Message, timeout_s: float | None = None) -> Any:
        """Call a method of the RuntimeService. Raises RpcError (also for DEADLINE_EXCEEDED) or RuntimeUnavailable."""
        method = pb.DESCRIPTOR.services_by_name["RuntimeService"].methods_by_name[name]
        timeout_s = CALL_TIMEOUT_S if timeout_s is None else timeout_s
        future = self.unary(f"/{RUNTIME_SERVICE}/{name}", request.SerializeToString(), timeout_s, ())
        try:
            answer = future.result(timeout_s + MORE_S)
        except grpc.FutureTimeoutError:
            raise RpcError(_LATE, f"{name}: gRPC did not end the call at its deadline") from None
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                reason = connection_problem(self.path) or error.details() or "the runtime has closed the connection"
                raise RuntimeUnavailable(
                    self.path, reason, "The proxy connects as soon as the runtime listens"
                ) from None
            raise RpcError(error.code().value[0], error.details() or "") from None
        return decode_answer(GetMessageClass(method.output_type), answer)

    @property
    def connected(self) -> bool:
        """Whether there is a connection at present."""
        return self._was_ready

    # --- life ---

    def on_connect(self, listener: Callable[[], object]) -> None:
        """Call `listener` after each connection to the runtime, from another thread. It must not wait."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin to connect. Returns at once."""
        self.channel.subscribe(self._log_state, try_to_connect=True)

    def stop(self) -> None:
        """End the connection. Running calls fail."""
        self.channel.unsubscribe(self._log_state)
        # gRPC's thread that watches the connection ends within 0.2 s. If the channel is closed earlier, it logs a
        # traceback.
        looking = getattr(self.channel, "_connectivity_state", None)
        until = monotonic() + _LOOKING_S
        while getattr(looking, "polling", False) and monotonic() < until:
            sleep(0.005)
        # `close` waits for the channel's calls, and for ever if their thread is gone, which has happened: then give up.
        closing = threading.Thread(target=self.channel.close, name="nri-proxy-closing", daemon=True)
        closing.start()
        closing.join(MORE_S)

    def _log_state(self, state: Any) -> None:
        ready = state is grpc.ChannelConnectivity.READY
        with self._note_lock:
            lost = self._was_ready and not ready
            news, self._was_ready = ready and not self._was_ready, ready
        if lost:
            _log.warning("the runtime at %s is gone: calls fail until it is back", self.path)
            # Without a call gRPC would not connect again, and there may be no call for a while. The answer is not read.
            with suppress(RuntimeUnavailable):  # the proxy is being stopped
                self.unary(f"/{RUNTIME_SERVICE}/Version", b"", CALL_TIMEOUT_S, ())
        if news:
            _log.info("connected to the runtime at %s", self.path)
            for listener in self._listeners:
                listener()
