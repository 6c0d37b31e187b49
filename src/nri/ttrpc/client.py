"""A ttRPC client for a unix socket: connect, call with messages, close. Thread-safe.

with Client.connect("/run/containerd/containerd.sock.ttrpc") as client:
    reply = client.call("containerd.services.events.ttrpc.v1.Events", "Forward", request, Empty, timeout_s=5)
"""

from __future__ import annotations

from time import monotonic

from nri.errors import RuntimeUnavailable
from nri.ttrpc.endpoint import Endpoint
from nri.ttrpc.transport import SocketTransport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self

    from nri.ttrpc.interceptors import Interceptor

__all__ = ["Client"]

#: The deadline of a call that names none, in seconds.
DEFAULT_TIMEOUT_S = 10.0


class Client:
    """Calls over one connection. Several threads may call at the same time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    @classmethod
    def connect(cls, path: str, interceptors: Sequence[Interceptor] = ()) -> Client:
        """Connect to a unix socket. Raises RuntimeUnavailable with the path and the reason."""
        try:
            return cls(Endpoint(SocketTransport.connect(path), interceptors=interceptors))
        except OSError as error:
            raise RuntimeUnavailable(path, error.strerror or str(error)) from None

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
            request: a protobuf message, or bytes that are one already.
            reply_type: the reply's message class; None returns bytes.
            timeout_s: seconds; the server is told. None waits for ever.
            metadata: (key, value) pairs; keys are sent in lower case.

        Raises: what `Endpoint.call` raises.
        """
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        deadline = None if timeout_s is None else monotonic() + timeout_s
        pairs = [(key.lower(), value) for key, value in metadata]
        reply = self._endpoint.call(service, method, payload, deadline=deadline, metadata=pairs)
        return reply if reply_type is None else reply_type.FromString(reply)

    def close(self) -> None:
        """Close; pending and later calls fail with ConnectionClosed."""
        self._endpoint.close()
        self._endpoint.release(monotonic() + 1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
