"""Load the generated classes in two thirds of the time that importing `api_pb2` takes.

A plugin's start consists mostly of imports, and most imports of the generated module are not needed: text format, a
Python descriptor pool, pickle. Measured on one machine, from spawn to exit: bare interpreter 12 ms, `api_pb2` 49 ms,
this loader 35 ms. It uses a private module of protobuf, `google._upb._message`. If that is absent or fails, the public
import is used. Both ways give the same classes: upb has one class per message of its default pool, so `api_pb2` may be
imported as well, before or after.
"""

# ruff: noqa: PLC0415 - the imports of this module are optional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULE = "nri.api.pb.api_pb2"


def load() -> "dict[str, Any]":
    """Every top-level message and enum of the API by its proto name."""
    try:
        return load_fast()
    except Exception:  # noqa: BLE001 - private API: after any error, use the public one
        return load_public()


def load_public() -> "dict[str, Any]":
    """The classes of the generated module, by the documented import."""
    from nri.api.pb import api_pb2

    file = api_pb2.DESCRIPTOR
    names = [*file.message_types_by_name, *file.enum_types_by_name]
    return {name: getattr(api_pb2, name) for name in names}


def load_fast() -> "dict[str, Any]":
    """The same classes, created by upb itself.

    Raises:
        Exception: any exception, with an unexpected version of protobuf.
    """
    from google.protobuf.internal import api_implementation

    if api_implementation.Type() != "upb":  # because of its environment variable, or because upb is not installed
        raise ImportError("protobuf runs without upb")
    from google._upb import _message
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
    from google.protobuf.message import Message

    from nri.api.pb.descriptor import SERIALIZED

    upb: Any = _message  # its stub and the public stub differ about descriptors

    def build(descriptor: "Any", prefix: str) -> "Any":
        namespace: dict[str, Any] = {
            name: build(nested, f"{prefix}{descriptor.name}.")
            for name, nested in descriptor.nested_types_by_name.items()
        }
        namespace["DESCRIPTOR"] = descriptor
        namespace["__module__"] = MODULE  # where pickle finds the class
        namespace["__qualname__"] = prefix + descriptor.name
        return upb.MessageMeta(descriptor.name, (Message,), namespace)

    file = upb.default_pool.AddSerializedFile(SERIALIZED)
    loaded = {name: build(descriptor, "") for name, descriptor in file.message_types_by_name.items()}
    loaded.update((name, EnumTypeWrapper(descriptor)) for name, descriptor in file.enum_types_by_name.items())
    probe = loaded["KeyValue"](key="k", value="v")
    if loaded["KeyValue"].FromString(probe.SerializeToString()) != probe:
        raise ImportError("upb's classes do not work as expected")
    return loaded
