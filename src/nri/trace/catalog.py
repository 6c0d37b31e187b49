"""The request and reply messages of ttRPC methods: NRI's, and others from a descriptor set.

``protoc --include_imports --descriptor_set_out=FILE`` writes a descriptor set. It is loaded into a separate pool, so
that it cannot clash with the messages of this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.json_format import ParseError as JsonError
from google.protobuf.message import DecodeError

from nri.api import messages as m
from nri.config.complaint import shorten, suggest
from nri.errors import ConfigError, RemoteProtocolError
from nri.files import read_regular
from nri.wire import iter_fields

_MAX_DESCRIPTOR_BYTES = 64 << 20
#: Nested messages are decoded to this depth, which is protobuf's limit. Deeper bytes are shown in hex.
_MAX_DEPTH = 100

_NRI = "nri.pkg.api.v1alpha1."


class Method(NamedTuple):
    """A method with the classes of its request and reply."""

    service: str
    name: str
    request: Any
    reply: Any


class Catalog:
    """Methods by service and name.

    `extra` is the path of a descriptor set, or None. Raises ConfigError if the set is invalid or incomplete.
    """

    def __init__(self, extra: Path | None = None) -> None:
        file = m.PodSandbox.DESCRIPTOR.file
        self._methods: dict[str, dict[str, Method]] = {}
        for service in file.services_by_name.values():
            self._add(service, lambda message: getattr(m, message.name))
        if extra is not None:
            self._load(extra)

    def _load(self, path: Path) -> None:
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(read_regular(path, _MAX_DESCRIPTOR_BYTES)).file
        except DecodeError:
            step = f"create one: protoc --include_imports --descriptor_set_out={path} ..."
            raise ConfigError(str(path), "", "not a descriptor set", step) from None
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in files:
                pool.AddSerializedFile(file.SerializeToString())
            for file in files:
                for service in pool.FindFileByName(file.name).services_by_name.values():
                    self._add(service, message_factory.GetMessageClass)
        except (TypeError, KeyError) as error:
            raise ConfigError(str(path), "", f"incomplete ({error})", "create it with --include_imports") from None

    def _add(self, service: Any, class_of: Any) -> None:
        rows = self._methods.setdefault(service.full_name, {})
        for method in service.methods:
            rows[method.name] = Method(
                service.full_name, method.name, class_of(method.input_type), class_of(method.output_type)
            )

    def find(self, service: str, method: str) -> Method | None:
        """Return a method, or None if it is unknown."""
        return self._methods.get(service, {}).get(method)

    def method(self, service: str, name: str) -> Method:
        """Return a method. Raises ConfigError if it is unknown."""
        rows = self._methods.get(service)
        if rows is None:
            reason = "the messages of this service are unknown"
            raise ConfigError(service, "", reason, "use --descriptor-set FILE, or --hex")
        if name not in rows:
            raise ConfigError(service, "", f"method {name} not found", suggest(name, rows))
        return rows[name]

    def resolve(self, text: str) -> tuple[str, str]:
        """Split ``SERVICE/METHOD``. The package of NRI's services may be left out.

        Raises ConfigError if the text does not have this form.
        """
        service, slash, method = text.strip("/").rpartition("/")
        if not slash or not service or not method:
            raise ConfigError(text, "", "not SERVICE/METHOD", f"for example {_NRI}Runtime/RegisterPlugin")
        return (_NRI + service if _NRI + service in self._methods else service), method


def to_json(message: Any) -> dict[str, Any]:
    """Return a message as JSON with its protobuf JSON names."""
    document: dict[str, Any] = MessageToDict(message)
    return document


def from_json(kind: Any, value: Any, where: str) -> Any:
    """Convert JSON to a message. Raises ConfigError, which names the source `where`, if this fails."""
    if (
        not isinstance(value, dict) and kind.DESCRIPTOR.file.package != "google.protobuf"
    ):  # well-known types have any JSON
        reason = f"not a {kind.DESCRIPTOR.name}: expected a JSON object, not {shorten(value)}"
        raise ConfigError(where, "", reason)
    try:
        return ParseDict(value, kind())
    except JsonError as error:
        reason = " ".join(str(error).split())  # the error has several lines
        raise ConfigError(where, "", f"not a {kind.DESCRIPTOR.name}: {reason}") from None


def parse(kind: Any, data: bytes) -> tuple[Any, str]:
    """Return a message as JSON and "", or its raw fields and the reason why it cannot be parsed."""
    try:
        return to_json(kind.FromString(data)), ""
    except DecodeError:
        value, problem = raw_fields(data)
        return value, problem or f"not a {kind.DESCRIPTOR.name}"


def raw_fields(data: bytes, depth: int = 1) -> tuple[dict[str, Any] | str, str]:
    """Return values by field number, for an unknown message. If that fails, return hex and the reason."""
    fields: dict[str, list[Any]] = {}
    try:
        for number, _, value in iter_fields(data):
            shown = value if isinstance(value, int) else _readable_value(value, depth)
            fields.setdefault(str(number), []).append(shown)
    except RemoteProtocolError as error:
        return data.hex(), error.reason
    return {number: values if len(values) > 1 else values[0] for number, values in fields.items()}, ""


def _readable_value(value: bytes, depth: int) -> Any:
    """Return bytes as text if printable, else as a message if possible, else in hex."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable():
        return text
    if depth >= _MAX_DEPTH:
        return value.hex()
    inner, problem = raw_fields(value, depth + 1)
    return value.hex() if problem else inner
