"""Services as data: request type, reply type and function by the name of the method.

Messages are any protobuf messages (any class with `FromString` and `SerializeToString`), or bytes with the type None. A
function gets the decoded request and returns the reply message. An exception becomes a status: RpcError unchanged, the
exceptions of `nri.ttrpc.codes.code_of` with their codes, and all others as Unknown with the error's text, as in the Go
library. If the client streams, the function gets a `nri.ttrpc.ServerStream`, which iterates over its messages; if the
server streams, the function returns or yields the messages.
"""

from __future__ import annotations

from nri.errors import LocalProtocolError, RpcError
from nri.ttrpc.codes import Code
from nri.ttrpc.frames import REMOTE_CLOSED, REMOTE_OPEN
from nri.ttrpc.services.codec import check_streaming, decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from nri.interfaces import Streaming
    from nri.ttrpc.envelope import Request
    from nri.ttrpc.services.streams import ServerStream


class Method:
    """A method: `function(message)`, or with `wants_request`, `function(message, request)` for deadline and metadata.

    Args:
        function: answers requests.
        request_type, reply_type: message classes; None for bytes.
        wants_request: the function also takes the `Request`.
        streaming: the sender of many messages: "client", "server" or "both"; None for one request and one reply.
    """

    __slots__ = ("function", "reply_type", "request_type", "streaming", "wants_request")

    def __init__(
        self,
        function: Callable[..., Any],
        request_type: Any = None,
        reply_type: Any = None,
        *,
        wants_request: bool = False,
        streaming: Streaming | None = None,
    ) -> None:
        if streaming is not None:
            check_streaming(streaming)
        self.function = function
        self.request_type = request_type
        self.reply_type = reply_type
        self.wants_request = wants_request
        self.streaming = streaming

    def answer(self, request: Request) -> bytes:
        """Decode, run, encode. Raises RpcError(13) for an invalid payload, as the Go library does."""
        return self._encoded_reply(self._run(decoded(self.request_type, request.payload), request), request)

    def stream(self, stream: ServerStream[Any]) -> bytes | None:
        """Run the function, and send its messages. Returns the only reply of a server that does not stream."""
        request = stream.request
        message = decoded(self.request_type, request.payload) if self.streaming == "server" else stream
        replies = self._run(message, request)
        if self.streaming == "client":
            return self._encoded_reply(replies, request)
        if replies is not None:  # if None, the function has sent the messages itself
            try:
                for reply in _iterable(replies, request):
                    stream.send(self._encoded_reply(reply, request))
            finally:
                if hasattr(replies, "close"):
                    replies.close()
        return None

    def _run(self, message: Any, request: Request) -> Any:
        return self.function(message, request) if self.wants_request else self.function(message)

    def _encoded_reply(self, reply: Any, request: Request) -> bytes:
        if self.reply_type is None:
            return b"" if reply is None else bytes(reply)
        if not isinstance(reply, self.reply_type):
            type_name = self.reply_type.__name__
            raise RpcError(Code.INTERNAL, f"method {request.method} returned {type(reply).__name__}, not {type_name}")
        encoded: bytes = reply.SerializeToString()
        return encoded


def _iterable(replies: Any, request: Request) -> Iterable[Any]:
    if isinstance(replies, (bytes, str)) or not hasattr(replies, "__iter__"):
        got = type(replies).__name__
        raise RpcError(Code.INTERNAL, f"method {request.method} returned {got}, not messages to iterate over")
    messages: Iterable[Any] = replies
    return messages


class Service:
    """A named set of methods."""

    __slots__ = ("methods", "name")

    def __init__(self, name: str, methods: Mapping[str, Method]) -> None:
        for method, row in methods.items():
            if not isinstance(row, Method):
                hint = f'write {{"{method}": nri.ttrpc.Method(function, RequestType, ReplyType)}}'
                raise LocalProtocolError(
                    f"method {method} of {name} must be a Method, not {type(row).__name__}: {hint}"
                )
        self.name = name
        self.methods = dict(methods)

    @classmethod
    def of(cls, descriptor: Any, implementation: object) -> Service:
        """The service of a generated descriptor: `greeter_pb2.DESCRIPTOR.services_by_name["Greeter"]`.

        Args:
            implementation: its methods have names of the .proto (`SayHello`) or of Python (`say_hello`). Calls of
                missing methods are answered Unimplemented.

            Raises LocalProtocolError if the implementation has none of the methods.
        """
        from nri.ttrpc.services.descriptors import rows

        methods: dict[str, Method] = {}
        method_rows = rows(descriptor)
        for name, python_name, request_type, reply_type, streaming in method_rows:
            function = getattr(implementation, name, None) or getattr(implementation, python_name, None)
            if function is not None:
                methods[name] = Method(function, request_type, reply_type, streaming=streaming)
        if not methods:
            has = f"{type(implementation).__name__} has no method of {descriptor.full_name}"
            raise LocalProtocolError(f"{has}: {', '.join(row.python_name for row in method_rows) or 'there are none'}")
        return cls(descriptor.full_name, methods)


class Services:
    """The services of a server, by name. Raises LocalProtocolError for a repeated name."""

    __slots__ = ("_services",)

    def __init__(self, services: Iterable[Service]) -> None:
        self._services: dict[str, Service] = {}
        if isinstance(services, Service):
            raise LocalProtocolError(f"services must be a list, not the service {services.name}: write [service]")
        for service in services:
            if not isinstance(service, Service):
                raise LocalProtocolError(f"a service must be a nri.ttrpc.Service, not {type(service).__name__}")
            if service.name in self._services:
                raise LocalProtocolError(f"service {service.name} is registered twice")
            self._services[service.name] = service

    def find(self, request: Request) -> Method:
        """The method of a request. Raises RpcError(12) if it does not exist, or is called in the wrong way."""
        service = self._services.get(request.service)
        if service is None:
            raise RpcError(Code.UNIMPLEMENTED, f"service {request.service}: {_served_names(self._services)}")
        method = service.methods.get(request.method)
        if method is None:
            raise RpcError(Code.UNIMPLEMENTED, f"method {request.method}: {_served_names(service.methods)}")
        if method.streaming is None and request.flags & REMOTE_OPEN:
            raise RpcError(Code.UNIMPLEMENTED, f"method {request.method} takes a single message, not a stream")
        if method.streaming is not None and not request.flags & (REMOTE_OPEN | REMOTE_CLOSED):
            raise RpcError(Code.UNIMPLEMENTED, f"{request.method} is a streaming method: call it with a stream")
        return method


def _served_names(names: Iterable[str]) -> str:
    """The served names, for the error of a request for another name."""
    return f"not served here, but {', '.join(names) or 'nothing'}"
