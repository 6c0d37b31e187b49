"""The tests' service with streams, in Python: its messages, its descriptor, and an implementation to serve.

The classes are those of tests/peers/proto/streams.proto; made here, so that no generated code has to fit the protobuf
runtime of the day.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from nri.errors import RpcError
from nri.ttrpc import ServerStream

_FILE = """
    name: "streams.proto" package: "nri.test" syntax: "proto3"
    options { go_package: "nri.test/peers/internal/streams;streams" }
    message_type {
      name: "ListRequest"
      field { name: "count" number: 1 label: LABEL_OPTIONAL type: TYPE_UINT32 json_name: "count" }
      field { name: "size" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT32 json_name: "size" }
      field { name: "delay_ms" number: 3 label: LABEL_OPTIONAL type: TYPE_UINT32 json_name: "delayMs" }
      field { name: "code" number: 4 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "code" }
      field { name: "message" number: 5 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "message" }
    }
    message_type {
      name: "Item"
      field { name: "number" number: 1 label: LABEL_OPTIONAL type: TYPE_UINT32 json_name: "number" }
      field { name: "payload" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES json_name: "payload" }
      field { name: "code" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "code" }
      field { name: "message" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "message" }
    }
    message_type {
      name: "Summary"
      field { name: "count" number: 1 label: LABEL_OPTIONAL type: TYPE_UINT32 json_name: "count" }
      field { name: "bytes" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT64 json_name: "bytes" }
      field { name: "ordered" number: 3 label: LABEL_OPTIONAL type: TYPE_BOOL json_name: "ordered" }
    }
    service {
      name: "Streams"
      method { name: "List" input_type: ".nri.test.ListRequest" output_type: ".nri.test.Item" server_streaming: true }
      method { name: "Collect" input_type: ".nri.test.Item" output_type: ".nri.test.Summary" client_streaming: true }
      method {
        name: "Relay" input_type: ".nri.test.Item" output_type: ".nri.test.Item"
        client_streaming: true server_streaming: true
      }
      method { name: "Look" input_type: ".nri.test.Item" output_type: ".nri.test.Item" }
    }
"""

FILE = text_format.Parse(_FILE, descriptor_pb2.FileDescriptorProto())
_POOL = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(FILE.SerializeToString())

#: The descriptor that generated code would have: `streams_pb2.DESCRIPTOR.services_by_name["Streams"]`.
DESCRIPTOR: Any = _POOL.FindServiceByName("nri.test.Streams")
NAME = "nri.test.Streams"


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"nri.test.{name}"))


Item, ListRequest, Summary = _class("Item"), _class("ListRequest"), _class("Summary")


def pattern(size: int) -> bytes:
    """Bytes that all peers can make: byte i is i modulo 251."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def items(count: int, size: int = 0, code: int = 0, message: str = "") -> Iterator[Any]:
    """So many items, and one that fails the stream if there is a code."""
    for number in range(count):
        yield Item(number=number, payload=pattern(size))
    if code:
        yield Item(number=count, code=code, message=message)


def _check(item: Any) -> None:
    if item.code:
        raise RpcError(item.code, item.message)


class Streams:
    """The service, as all peers implement it."""

    def list(self, request: Any) -> Iterator[Any]:
        """Yield as many items as are asked for."""
        for number in range(request.count):
            time.sleep(request.delay_ms / 1000)
            yield Item(number=number, payload=pattern(request.size))
        if request.code:
            raise RpcError(request.code, request.message)

    def collect(self, stream: ServerStream[Any]) -> Any:
        """Count what comes."""
        summary = Summary(ordered=True)
        for item in stream:
            _check(item)
            summary.ordered &= item.number == summary.count
            summary.count += 1
            summary.bytes += len(item.payload)
        return summary

    def relay(self, stream: ServerStream[Any]) -> Iterator[Any]:
        """Send each item back."""
        for item in stream:
            _check(item)
            yield item

    def look(self, item: Any) -> Any:
        """Send the item back."""
        _check(item)
        return item
