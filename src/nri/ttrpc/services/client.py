"""A ttRPC client for a unix socket: connect, call with messages, close. Thread-safe.

    with Client.connect("/run/containerd/containerd.sock.ttrpc") as client:
        reply = client.call("containerd.services.events.ttrpc.v1.Events", "Forward", request, Empty, timeout_s=5)

Calls with many messages are in `nri.ttrpc.services.streams`.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, overload

from nri.ttrpc.endpoint import Endpoint
from nri.ttrpc.services.codec import (
    DEFAULT_TIMEOUT_S,
    WAIT_S,
    check_streaming,
    decoded,
    encoded,
    request_of,
    unreachable,
)
from nri.ttrpc.services.streams import ClientStream
from nri.ttrpc.transport import SocketTransport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from nri.interfaces import Message, Streaming
    from nri.ttrpc.interceptors import Interceptor

T = TypeVar("T", bound="Message")


class Client:
    """Calls over one connection. Several threads may call at the same time."""

    def __init__(self, endpoint: Endpoint) -> None:
        if isinstance(endpoint, str):
            raise TypeError("Client requires a connection, not a path: write Client.connect(path)")
        self.endpoint = endpoint

    @classmethod
    def connect(cls, path: str, interceptors: Sequence[Interceptor] = ()) -> Client:
        """Connect to a unix socket. Raises RuntimeUnavailable with the path and the reason."""
        try:
            return cls(Endpoint(SocketTransport.connect(path), interceptors=interceptors))
        except OSError as error:
            raise unreachable(path, error) from None

    @overload
    def call(
        self,
        service: str,
        method: str,
        request: Message | bytes = b"",
        reply_type: None = None,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> bytes: ...

    @overload
    def call(
        self,
        service: str,
        method: str,
        request: Message | bytes,
        reply_type: type[T],
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> T: ...

    def call(
        self,
        service: str,
        method: str,
        request: Any = b"",
        reply_type: Any = None,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> Any:
        """Call and wait.

        Args:
            request: a protobuf message, or its bytes.
            reply_type: the reply's message class; None returns bytes.
            timeout_s: seconds, which are sent to the server. None waits for ever.
            metadata: (key, value) pairs; keys are sent in lower case.

        Raises: as `Endpoint.call`; also RpcError(13) for a reply of another class.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        pairs = [(key.lower(), value) for key, value in metadata]
        reply = self.endpoint.call(service, method, encoded(request), deadline=deadline, metadata=pairs)
        return decoded(reply_type, reply)

    @overload
    def stream(
        self,
        service: str,
        method: str,
        request: Message | bytes | None = None,
        reply_type: None = None,
        *,
        streaming: Streaming = "both",
        timeout_s: float | None = None,
        wait_s: float | None = WAIT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> ClientStream[bytes]: ...

    @overload
    def stream(
        self,
        service: str,
        method: str,
        request: Message | bytes | None,
        reply_type: type[T],
        *,
        streaming: Streaming = "both",
        timeout_s: float | None = None,
        wait_s: float | None = WAIT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> ClientStream[T]: ...

    def stream(
        self,
        service: str,
        method: str,
        request: Any = None,
        reply_type: Any = None,
        *,
        streaming: Streaming = "both",
        timeout_s: float | None = None,
        wait_s: float | None = WAIT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> Any:
        """Open a stream: a call with many messages. Interceptors do not see it.

        Args:
            request: the only message of a client that does not stream; else the first message, or None to send it
                later.
            reply_type: the class of the server's messages; None returns bytes.
            streaming: the sender of many messages in the .proto: "client", "server" or "both".
            timeout_s: the limit of the whole stream in seconds, which is sent to the server. None: no limit.
            wait_s: the limit for sending or receiving a message, in seconds; None waits for ever.
            metadata: (key, value) pairs; keys are sent in lower case.

        Raises: OversizedMessage, DeadlineExceeded, ConnectionClosed. Errors of the server come with the first message.
        """
        check_streaming(streaming)
        call = request_of(service, method, request, timeout_s, metadata)
        return ClientStream(self.endpoint, call, reply_type, streaming, wait_s)

    def service(self, descriptor: Any) -> Any:
        """The methods of a generated service: `client.service(greeter_pb2.DESCRIPTOR.services_by_name["Greeter"])`.

        Each method takes the request, and the options of `call` or `stream`. A streaming method returns the stream; if
        the client streams, the request may be left out.
        """
        from nri.ttrpc.services.descriptors import ServiceClient

        return ServiceClient(self, descriptor)

    def close(self) -> None:
        """Close the connection. Pending and later calls fail with ConnectionClosed."""
        self.endpoint.close()
        self.endpoint.release(monotonic() + 1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
