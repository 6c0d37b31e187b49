"""Which message goes with which ttRPC method: NRI's own by the generated code, others by a descriptor set.

A descriptor set is what ``protoc --include_imports --descriptor_set_out=FILE`` writes. It is loaded into a pool of its
own, so that it can never clash with the messages that this process runs on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.json_format import ParseError as JsonError
from google.protobuf.message import DecodeError

from nri.api import messages as m
from nri.cli.errors import USAGE, Failure
from nri.config.complaint import shorten, suggest
from nri.errors import RemoteProtocolError
from nri.wire import iter_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

_NRI = "nri.pkg.api.v1alpha1."


class Method(NamedTuple):
    """A method by its full names, with the classes of its request and reply."""

    service: str
    name: str
    request: Any
    reply: Any


class Catalog:
    """Methods by service and name. `extra` is a descriptor set's path, or None."""

    def __init__(self, extra: Path | None = None) -> None:
        file = m.PodSandbox.DESCRIPTOR.file
        self._methods: dict[str, dict[str, Method]] = {}
        for service in file.services_by_name.values():
            self._add(service, lambda message: getattr(m, message.name))
        if extra is not None:
            self._load(extra)

    def _load(self, path: Path) -> None:
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file
        except DecodeError:
            raise Failure(
                f"{path}: not a descriptor set. Make one: protoc --include_imports --descriptor_set_out={path} ...",
                USAGE,
            ) from None
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in files:
                pool.AddSerializedFile(file.SerializeToString())
            for file in files:
                for service in pool.FindFileByName(file.name).services_by_name.values():
                    self._add(service, message_factory.GetMessageClass)
        except (TypeError, KeyError) as error:
            raise Failure(f"{path}: incomplete ({error}). Make it with --include_imports", USAGE) from None

    def _add(self, service: Any, class_of: Any) -> None:
        rows = self._methods.setdefault(service.full_name, {})
        for method in service.methods:
            rows[method.name] = Method(
                service.full_name, method.name, class_of(method.input_type), class_of(method.output_type)
            )

    def find(self, service: str, method: str) -> Method | None:
        """The method, or None if it is not known."""
        return self._methods.get(service, {}).get(method)

    def resolve(self, text: str) -> tuple[str, str]:
        """Service and method of ``SERVICE/METHOD``; NRI's services may be written without their package."""
        service, slash, method = text.strip("/").rpartition("/")
        if not slash or not service or not method:
            raise Failure(f'"{text}" is not SERVICE/METHOD, such as nri.pkg.api.v1alpha1.Runtime/RegisterPlugin', USAGE)
        return (_NRI + service if _NRI + service in self._methods else service), method

    def missing(self, service: str, method: str) -> str:
        """What to say about a method that is not known."""
        known = self._methods.get(service)
        if known is None:
            return f"the messages of {service} are not known here: give --descriptor-set FILE, or --hex"
        return f"{service} has no method {method} ({suggest(method, known)})"


def to_json(message: Any) -> dict[str, Any]:
    """A message under its protobuf JSON names."""
    found: dict[str, Any] = MessageToDict(message)
    return found


def from_json(kind: Any, value: Any, where: str) -> Any:
    """A message from its JSON form. Failure names what does not fit."""
    if not isinstance(value, dict) and kind.DESCRIPTOR.file.package != "google.protobuf":  # whose JSON may be anything
        raise Failure(f"{where}: not a {kind.DESCRIPTOR.name}: expected a JSON object, not {shorten(value)}", USAGE)
    try:
        return ParseDict(value, kind())
    except JsonError as error:
        raise Failure(f"{where}: not a {kind.DESCRIPTOR.name}: {error}", USAGE) from None


def parse(kind: Any, data: bytes) -> tuple[Any, str]:
    """A message as JSON and "", or its raw fields and what is wrong with it."""
    try:
        return to_json(kind.FromString(data)), ""
    except DecodeError:
        value, problem = raw_fields(data)
        return value, problem or f"not a {kind.DESCRIPTOR.name}"


def raw_fields(data: bytes) -> tuple[dict[str, Any] | str, str]:
    """What can be read without knowing the message: values by field number. Falls back to hex, with the reason."""
    fields: dict[str, Any] = {}
    try:
        for number, _, value in iter_fields(data):
            shown = value if isinstance(value, int) else _guess(value)
            fields[str(number)] = [*_listed(fields[str(number)]), shown] if str(number) in fields else shown
    except RemoteProtocolError as error:
        return data.hex(), error.reason
    return fields, ""


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [value]


def _guess(value: bytes) -> Any:
    """Bytes as text if they are printable, else as a message if they can be one, else in hex."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable():
        return text
    inner, problem = raw_fields(value)
    return value.hex() if problem else inner
