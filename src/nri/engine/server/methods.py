"""The calls of a service, read from its descriptor, the methods that answer them, and the statuses of errors.

The call ``RunPodSandbox`` is answered by the first group with a method ``run_pod_sandbox``; without one gRPC
itself answers Unimplemented, which is what the CRI wants for calls that are newer than a runtime. A method gets the
request and the `Call`; that of a stream gives an iterable. A request is checked before: a zero byte ends a path or a
word for the kernel and not for us, so no text has one; a value of an enumeration that is not known is refused, never
taken for another. It is gone through without recursion. Rows of errors are as in `nri.cri.codes`, around the
engine's own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import grpc
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nri.cri import codes
from nri.cri.codes import Row
from nri.engine.support.errors import (
    AlreadyExists,
    CommandTimeout,
    InvalidRequest,
    MissingTool,
    NotFound,
    TooMany,
    WrongState,
)
from nri.errors import NriError, RequestError

Code = grpc.StatusCode

ROWS = (
    codes.ROWS[0],
    Row(InvalidRequest, Code.INVALID_ARGUMENT),
    Row(NotFound, Code.NOT_FOUND),
    Row(AlreadyExists, Code.ALREADY_EXISTS),
    Row(WrongState, Code.FAILED_PRECONDITION),
    Row(TooMany, Code.RESOURCE_EXHAUSTED),
    Row(MissingTool, Code.FAILED_PRECONDITION),
    Row(CommandTimeout, Code.DEADLINE_EXCEEDED),  # the kubelet tells a probe that took too long by this code
    *codes.ROWS[1:],
)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """The code and the text that a client gets for an error. An error without a text gives its class."""
    return codes.status_of(error, ROWS)


#: Of a request: what plugins can be asked about, and more than a kubelet ever sends.
LIMIT_BYTES = 4 << 20
#: Values in it, counted with those of lists and maps: each takes far more memory here than its few bytes.
LIMIT_VALUES = 1 << 17


def check_request(request: Message) -> None:
    """Refuse a request by the field that cannot be. Raises RequestError."""
    size = request.ByteSize()
    if size > LIMIT_BYTES:
        raise RequestError("the request", f"{size} bytes", f"is longer than {LIMIT_BYTES}")
    waiting, count = [("", request)], 0
    while waiting:
        above, message = waiting.pop()
        for field, value in message.ListFields():
            for path, one in _values(f"{above}.{field.name}" if above else field.name, field, value):
                count += 1
                if count > LIMIT_VALUES:
                    raise RequestError(path, count, f"a request has at most {LIMIT_VALUES} values")
                if isinstance(one, Message):
                    waiting.append((path, one))
                elif isinstance(one, str):
                    if "\0" in one:
                        raise RequestError(path, one, "has a zero byte in it")
                elif field.enum_type is not None and one not in field.enum_type.values_by_number:
                    raise RequestError(path, one, "is not known")


def _values(path: str, field: FieldDescriptor, value: Any) -> Iterator[tuple[str, Any]]:
    """The values of a field, each with its path: of a list all, of a map keys and values."""
    if not field.is_repeated:
        yield path, value
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        for key, one in value.items():
            yield path, key
            yield f"{path}[{key}]", one
    else:
        for index, one in enumerate(value):
            yield f"{path}[{index}]", one


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
    """The name of the method that answers a call: ``CreateContainer`` is ``create_container``."""
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
            check_request(request)
            return answer(request, _Call(context))
        except Exception as error:  # noqa: BLE001  the table has a row for every error
            _abort(name, context, error)

    return behave


def _stream(name: str, answer: Callable[..., Iterator[Message]]) -> Callable[..., Iterator[Message]]:
    def behave(request: Message, context: grpc.ServicerContext) -> Iterator[Message]:
        try:
            check_request(request)
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

    def metadata(self, key: str) -> bytes:
        sent = self._context.invocation_metadata() or ()
        return next((value for name, value in sent if name == key and isinstance(value, bytes)), b"")

    def on_end(self, callback: Callable[[], None]) -> None:
        if not self._context.add_callback(callback):
            callback()
