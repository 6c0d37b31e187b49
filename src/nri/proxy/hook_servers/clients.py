"""Connections to hook servers, and one question with its deadline.

Rules: a connection is made when it is needed, and at most so many are kept; one that has failed is given up, so that a
server that comes back is found at the next question and not when gRPC's own backoff has passed. Next:
`nri.proxy.hook_servers.servers`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import grpc

from nri.errors import NriError
from nri.proxy.hook_servers.messages import METHODS, SERVICE, fields_of
from nri.text import plain

__all__ = ["Clients", "HookServerError"]

#: Connections that are kept, as with the original.
MOST = 10
_OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
]


class HookServerError(NriError):
    """A hook server gave no answer.

    Attributes:
        absent: it could not be asked at all: no program listens at its socket.
    """

    def __init__(self, endpoint: str, reason: str, absent: bool) -> None:
        super().__init__(f"{endpoint}: {reason}")
        self.absent = absent


class Clients:
    """Connections by endpoint, the least used one closed first. Any thread may ask."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._channels: OrderedDict[str, grpc.Channel] = OrderedDict()

    def __len__(self) -> int:
        """The number of connections that are kept."""
        return len(self._channels)

    def ask(self, endpoint: str, stage: str, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Call the stage's method, and return the response as a dict. Raises HookServerError."""
        method = METHODS[stage]
        channel = self._channel(endpoint)
        call = channel.unary_unary(
            f"/{SERVICE}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        try:
            return fields_of(call(method.request(**request), timeout=timeout_s))
        except grpc.RpcError as error:
            code = error.code()
            absent = code is grpc.StatusCode.UNAVAILABLE
            if absent:
                self._forget(endpoint, channel)
            late = code is grpc.StatusCode.DEADLINE_EXCEEDED
            reason = f"no answer to {method.name} in {timeout_s:.3g} s" if late else error.details() or code.name
            raise HookServerError(endpoint, plain(reason), absent) from None
        except ValueError as error:  # the channel was closed by another thread: evicted, or forgotten
            raise HookServerError(endpoint, plain(str(error)), absent=True) from None

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            channels = [*self._channels.values()]
            self._channels.clear()
        for channel in channels:
            channel.close()

    def _channel(self, endpoint: str) -> grpc.Channel:
        with self._lock:
            channel = self._channels.pop(endpoint, None)
            if channel is None:
                channel = grpc.insecure_channel(f"unix://{endpoint}", options=_OPTIONS)
            self._channels[endpoint] = channel
            old = self._channels.popitem(last=False)[1] if len(self._channels) > self._most else None
        if old is not None:
            old.close()
        return channel

    def _forget(self, endpoint: str, channel: grpc.Channel) -> None:
        with self._lock:
            if self._channels.get(endpoint) is channel:
                del self._channels[endpoint]
        channel.close()
