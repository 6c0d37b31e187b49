"""Publish an event to a running containerd over its own ttRPC socket, as root.

python containerd_event.py [/run/containerd/containerd.sock.ttrpc]

A program would have the message classes from containerd's .proto files; here they are made on the spot.
"""

import sys
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, empty_pb2, message_factory, timestamp_pb2
from google.protobuf.wrappers_pb2 import StringValue

from nri.ttrpc import Client

FILE = """
    name: "example/events.proto" package: "example" syntax: "proto3"
    dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/any.proto"
    message_type {
      name: "Envelope"
      field { number: 1 name: "timestamp" type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
      field { number: 2 name: "namespace" type: TYPE_STRING }
      field { number: 3 name: "topic" type: TYPE_STRING }
      field { number: 4 name: "event" type: TYPE_MESSAGE type_name: ".google.protobuf.Any" }
    }
    message_type {
      name: "ForwardRequest"
      field { number: 1 name: "envelope" type: TYPE_MESSAGE type_name: ".example.Envelope" }
    }
"""


def forward_request_class() -> Any:
    """The class of containerd's ForwardRequest, from `FILE`."""
    from google.protobuf import text_format

    file = text_format.Parse(FILE, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    for classes in (timestamp_pb2, any_pb2):
        pool.AddSerializedFile(classes.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("example.ForwardRequest"))


def main(path: str = "/run/containerd/containerd.sock.ttrpc") -> None:
    """Publish one event."""
    request = forward_request_class()()
    request.envelope.timestamp.GetCurrentTime()
    request.envelope.namespace = "default"
    request.envelope.topic = "/example/greeting"
    greeting = StringValue(value="hello from Python")
    request.envelope.event.type_url = "google.protobuf.StringValue"
    request.envelope.event.value = greeting.SerializeToString()
    with Client.connect(path) as client:
        client.call("containerd.services.events.ttrpc.v1.Events", "Forward", request, empty_pb2.Empty, timeout_s=5)
    print("published", request.envelope.topic)


if __name__ == "__main__":
    main(*sys.argv[1:])
