"""A service that is not NRI's, as protoc would describe it."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

GREETER = "test.v1.Greeter"


def file_set() -> descriptor_pb2.FileDescriptorSet:
    """What protoc writes for a service with one method."""
    file = descriptor_pb2.FileDescriptorProto(name="greeter.proto", package="test.v1", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, field in (("HelloRequest", "name"), ("HelloReply", "text")):
        message = file.message_type.add(name=name)
        message.field.add(name=field, number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    service = file.service.add(name="Greeter")
    service.method.add(name="Hello", input_type=".test.v1.HelloRequest", output_type=".test.v1.HelloReply")
    return descriptor_pb2.FileDescriptorSet(file=[file])


POOL = descriptor_pool.DescriptorPool()
POOL.AddSerializedFile(file_set().file[0].SerializeToString())
HELLO, REPLY = (
    message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"test.v1.{name}"))
    for name in ("HelloRequest", "HelloReply")
)
