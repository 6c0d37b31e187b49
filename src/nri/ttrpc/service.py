"""Services as data: method name -> (request type, reply type, function). Turns them into the handler of an `Endpoint`.

Messages are any protobuf messages (anything with `FromString` and `SerializeToString`), or bytes with the type None.
A function gets the parsed request and returns the reply message; what it raises becomes a status: RpcError as it is,
the well-known errors of `nri.ttrpc.codes.code_of`, and Unknown with the error's text for the rest, as the reference
does.
"""

from __future__ import annotations

from nri.errors import LocalProtocolError, RpcError
from nri.ttrpc.codes import Code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from nri.ttrpc.envelope import Request

__all__ = ["Method", "Service", "dispatcher"]


class Method:
    """One method: `function(message)`; with `wants_request`, `function(message, request)`: deadline, metadata."""

    __slots__ = ("function", "reply_type", "request_type", "wants_request")

    def __init__(
        self,
        function: Callable[..., Any],
        request_type: Any = None,
        reply_type: Any = None,
        *,
        wants_request: bool = False,
    ) -> None:
        self.function = function
        self.request_type = request_type
        self.reply_type = reply_type
        self.wants_request = wants_request

    def answer(self, request: Request) -> bytes:
        """Parse, run, encode. Raises RpcError(13) for a payload that does not decode, as the reference does."""
        message: Any = request.payload
        if self.request_type is not None:
            try:
                message = self.request_type.FromString(request.payload)
            except Exception as error:  # noqa: BLE001 - DecodeError has no public home
                raise RpcError(Code.INTERNAL, f"ttrpc: error unmarshalling payload: {error}") from None
        reply = self.function(message, request) if self.wants_request else self.function(message)
        if self.reply_type is None:
            return b"" if reply is None else bytes(reply)
        if not isinstance(reply, self.reply_type):
            wanted = self.reply_type.__name__
            raise RpcError(Code.INTERNAL, f"method {request.method} returned {type(reply).__name__}, not {wanted}")
        encoded: bytes = reply.SerializeToString()
        return encoded


class Service:
    """A named set of methods."""

    __slots__ = ("methods", "name")

    def __init__(self, name: str, methods: Mapping[str, Method]) -> None:
        self.name = name
        self.methods = dict(methods)


def dispatcher(services: Iterable[Service]) -> Callable[[Request], bytes]:
    """The `on_request` of an endpoint that serves these services. The same name twice is a LocalProtocolError."""
    table: dict[str, Service] = {}
    for service in services:
        if service.name in table:
            raise LocalProtocolError(f"service {service.name} is registered twice")
        table[service.name] = service

    def answer(request: Request) -> bytes:
        service = table.get(request.service)
        if service is None:
            raise RpcError(Code.UNIMPLEMENTED, f"service {request.service}")
        method = service.methods.get(request.method)
        if method is None:
            raise RpcError(Code.UNIMPLEMENTED, f"method {request.method}")
        return method.answer(request)

    return answer
