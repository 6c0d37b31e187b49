"""gRPC handlers for the methods that answer a service's calls, request validation, and the statuses of errors.

A call ``RunPodSandbox`` is answered by the first object with a method ``run_pod_sandbox``. If there is no such method,
gRPC answers Unimplemented, as the CRI requires for calls that are newer than a runtime.
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

#: The table of statuses, as in `nri.cri.codes`, with rows for the engine's errors.
ROWS = (
    codes.ROWS[0],
    Row(InvalidRequest, Code.INVALID_ARGUMENT),
    Row(NotFound, Code.NOT_FOUND),
    Row(AlreadyExists, Code.ALREADY_EXISTS),
    Row(WrongState, Code.FAILED_PRECONDITION),
    Row(TooMany, Code.RESOURCE_EXHAUSTED),
    Row(MissingTool, Code.FAILED_PRECONDITION),
    Row(CommandTimeout, Code.DEADLINE_EXCEEDED),  # the kubelet recognizes the timeout of a probe by this code
    *codes.ROWS[1:],
)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Return the code and the message that a client receives for an error.

    If the error has no message, the name of its class is used.
    """
    return codes.status_of(error, ROWS)


#: The maximum size of a request. A request must fit into the messages to plugins; kubelets send far smaller requests.
MAX_REQUEST_BYTES = 4 << 20
#: The maximum number of values in a request, including values in lists and maps. A decoded value takes far more memory
#: than its bytes in the request.
MAX_REQUEST_VALUES = 1 << 17


def check_request(request: Message) -> None:
    """Raise RequestError if a request is too long, or if a string has a zero byte, or if an enum value is unknown.

    The kernel ends a path or argument at a zero byte, so it would use another string than the engine has checked.
    """
    size = request.ByteSize()
    if size > MAX_REQUEST_BYTES:
        raise RequestError("the request", f"{size} bytes", f"exceeds {MAX_REQUEST_BYTES} bytes")
    pending, count = [("", request)], 0  # no recursion: messages may be nested deeply
    while pending:
        above, message = pending.pop()
        for field, value in message.ListFields():
            for path, item in _values(f"{above}.{field.name}" if above else field.name, field, value):
                count += 1
                if count > MAX_REQUEST_VALUES:
                    raise RequestError(path, count, f"a request has at most {MAX_REQUEST_VALUES} values")
                if isinstance(item, Message):
                    pending.append((path, item))
                elif isinstance(item, str):
                    if "\0" in item:
                        raise RequestError(path, item, "contains a zero byte")
                elif field.enum_type is not None and item not in field.enum_type.values_by_number:
                    raise RequestError(path, item, "is unknown")


def _values(path: str, field: FieldDescriptor, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of a field with their paths: the elements of a list, or the keys and values of a map."""
    if not field.is_repeated:
        yield path, value
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        for key, item in value.items():
            yield path, key
            yield f"{path}[{key}]", item
    else:
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item


#: grpcio reports a very long deadline for a call without a deadline. A deadline above this limit is no deadline.
_ENDLESS_S = 10 * 365 * 86400.0

log = logging.getLogger("nri.engine.server")


class Methods:
    """The gRPC handlers of one service, made from the methods of several objects (`groups`).

    Attributes:
        service: the full name of the service.
        handlers: gRPC's handlers by the names of the calls.
        missing: the names of the calls for which no object has a method.
    """

    def __init__(self, service: ServiceDescriptor, groups: Sequence[object]) -> None:
        self.service: str = service.full_name
        self.handlers: Mapping[str, Any] = {}
        self.missing: list[str] = []
        handlers = {}
        for method in service.methods:
            answer = next(filter(None, (getattr(group, snake(method.name), None) for group in groups)), None)
            if answer is None:
                self.missing.append(method.name)
            else:
                handlers[method.name] = _handler(method, answer)
        self.handlers = handlers


def snake(name: str) -> str:
    """Return the name of the method that answers a call: ``create_container`` for ``CreateContainer``."""
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
        log.error("%s failed", name, exc_info=error)  # a fault of the engine, to be fixed with the trace
    context.abort(code, text)
    raise AssertionError("abort always raises")


class _Call:
    """A gRPC context, reduced to the methods of `nri.engine.calls.call.Call`."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context

    def time_left(self) -> float | None:
        remaining_s = self._context.time_remaining()
        return None if remaining_s is None or remaining_s > _ENDLESS_S else float(remaining_s)

    def metadata(self, key: str) -> bytes:
        metadata = self._context.invocation_metadata() or ()
        return next((value for name, value in metadata if name == key and isinstance(value, bytes)), b"")

    def on_end(self, callback: Callable[[], None]) -> None:
        if not self._context.add_callback(callback):
            callback()
