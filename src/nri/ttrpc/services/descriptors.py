"""Services from the descriptors of generated code: names, message classes, and streaming.

An example of a descriptor is `greeter_pb2.DESCRIPTOR.services_by_name["Greeter"]`. Only this module needs protobuf's
runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

    from nri.interfaces import Streaming


class Row(NamedTuple):
    """A method: its name in the .proto and in Python, its message classes, and the side that streams."""

    name: str
    python_name: str
    request_type: Any
    reply_type: Any
    streaming: Streaming | None


def rows(descriptor: ServiceDescriptor) -> list[Row]:
    """The methods of a service."""
    return [
        Row(m.name, snake(m.name), GetMessageClass(m.input_type), GetMessageClass(m.output_type), _streaming(m))
        for m in descriptor.methods
    ]


def _streaming(method: MethodDescriptor) -> Streaming | None:
    if method.client_streaming:
        return "both" if method.server_streaming else "client"
    return "server" if method.server_streaming else None


def snake(name: str) -> str:
    """`say_hello` for `SayHello`, `get_id` for `GetID`."""
    out = ""
    for place, char in enumerate(name):
        after = name[place + 1 : place + 2]
        if char.isupper() and place and (not name[place - 1].isupper() or after.islower()):
            out += "_"
        out += char.lower()
    return out


class ServiceClient:
    """The methods of a service, callable by their names in the .proto or in Python.

    With one request and one reply, `client.SayHello(request, timeout_s=5)` returns the reply. With a stream,
    `client.Watch(request)` returns the stream; if the client streams, the request may be left out.
    """

    def __init__(self, client: Any, descriptor: ServiceDescriptor) -> None:
        self._client = client
        self._service = descriptor.full_name
        self._rows = {name: row for row in rows(descriptor) for name in (row.name, row.python_name)}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        row = None if name.startswith("_") else self._rows.get(name)
        if row is None:
            raise AttributeError(f"service {self._service} has no method {name}")
        method = self._method(row)
        method.__name__ = name
        setattr(self, name, method)
        return method

    def _method(self, row: Row) -> Callable[..., Any]:
        client, service = self._client, self._service

        def call(request: Any, **options: Any) -> Any:
            return client.call(service, row.name, request, row.reply_type, **options)

        def stream(request: Any = None, **options: Any) -> Any:
            return client.stream(service, row.name, request, row.reply_type, streaming=row.streaming, **options)

        return stream if row.streaming else call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._rows})
