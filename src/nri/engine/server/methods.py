"""The calls of a service, read from its descriptor, and the methods that answer them.

Rules: the call ``RunPodSandbox`` is answered by the first group with a method ``run_pod_sandbox``; without one gRPC
itself answers Unimplemented, which is what the CRI wants for calls that are newer than a runtime. A method gets the
request and the `Call`; that of a stream gives an iterable.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nri.engine.server.codes import status_of
from nri.errors import NriError

__all__ = ["Methods", "snake"]

#: A deadline so far away is none: grpcio has no other way to say so.
_ENDLESS_S = 10 * 365 * 86400.0

log = logging.getLogger("nri.engine.server")


class Methods:
    """The methods of one service among groups.

    Attributes:
        service: the full name of the service.
        handlers: gRPC's handlers by the names of the calls.
        missing: the calls that no group answers.
    """

    def __init__(self, service: ServiceDescriptor, groups: Sequence[object]) -> None:
        self.service: str = service.full_name
        self.handlers: Mapping[str, Any] = {}
        self.missing: list[str] = []
        made = {}
        for method in service.methods:
            answer = next(filter(None, (getattr(group, snake(method.name), None) for group in groups)), None)
            if answer is None:
                self.missing.append(method.name)
            else:
                made[method.name] = _handler(method, answer)
        self.handlers = made


def snake(name: str) -> str:
    """The name of the method that answers a call: ``CreateContainer`` is ``create_container``. Pure."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _handler(method: MethodDescriptor, answer: Callable[..., Any]) -> Any:
    make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
    return make(
        (_stream if method.server_streaming else _unary)(method.name, answer),
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=_bytes,
    )


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _unary(name: str, answer: Callable[..., Message]) -> Callable[..., Message]:
    def behave(request: Message, context: grpc.ServicerContext) -> Message:
        try:
            return answer(request, _Call(context))
        except Exception as error:  # noqa: BLE001  the table has a row for every error
            _abort(name, context, error)

    return behave


def _stream(name: str, answer: Callable[..., Iterator[Message]]) -> Callable[..., Iterator[Message]]:
    def behave(request: Message, context: grpc.ServicerContext) -> Iterator[Message]:
        try:
            yield from answer(request, _Call(context))
        except Exception as error:  # noqa: BLE001  as above
            _abort(name, context, error)

    return behave


def _abort(name: str, context: grpc.ServicerContext, error: Exception) -> NoReturn:
    code, text = status_of(error)
    if isinstance(error, (NriError, OSError, NotImplementedError)):
        log.info("%s: %s: %s", name, code.name, text)
    else:
        log.error("%s failed", name, exc_info=error)  # a fault of ours: whoever mends it needs the place
    context.abort(code, text)
    raise AssertionError("abort always raises")


class _Call:
    """The part of a gRPC context that the groups may use."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context

    def time_left(self) -> float | None:
        left = self._context.time_remaining()
        return None if left is None or left > _ENDLESS_S else float(left)

    def on_end(self, callback: Callable[[], None]) -> None:
        if not self._context.add_callback(callback):
            callback()
