"""Decode objects of the API from JSON, with only the used fields.

A pod's author can write megabytes into unused fields. msgspec, of the extra `agent`, skips these fields without
creating values. The memory of an object must be proportional to its JSON (`_MAX_FACTORS`), because as Python values
short strings need many times their length.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Required, TypedDict

from nri.config.syntax import without_half_characters
from nri.errors import NriError

#: The command that installs the extra. This project is not on a package index, so its name could install another one.
INSTALL: Final = "pip install '.[agent]', in a checkout of nri"
#: Allow this many bytes of memory for each byte of a pod's JSON.
MAX_POD_FACTOR: Final = 4
#: Allow this much memory for each object in addition.
_ALLOWANCE_BYTES: Final = 16 << 10

_Texts = dict[str, str] | None
_Amounts = dict[str, str | int | float] | None


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str | None
    uid: str
    resourceVersion: str
    generation: int | None
    labels: _Texts
    annotations: _Texts


class _Resources(TypedDict, total=False):
    requests: _Amounts
    limits: _Amounts


class _Container(TypedDict, total=False):
    name: str
    restartPolicy: str | None
    resources: _Resources | None


class _Empty(TypedDict):
    pass


class _Claim(TypedDict, total=False):
    claimName: str


class _Volume(TypedDict, total=False):
    name: str
    persistentVolumeClaim: _Claim | None
    ephemeral: _Empty | None


class _PodSpec(TypedDict, total=False):
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    resources: _Resources | None
    overhead: _Amounts
    volumes: list[_Volume] | None
    nodeName: str | None
    hostNetwork: bool | None
    priority: int | None
    priorityClassName: str | None
    runtimeClassName: str | None


class _State(TypedDict, total=False):
    waiting: _Empty | None


class _ContainerStatus(TypedDict, total=False):
    name: str
    containerID: str | None
    state: _State | None


class _Address(TypedDict, total=False):
    ip: str


class _PodStatus(TypedDict, total=False):
    phase: str | None
    qosClass: str | None
    startTime: str | None
    podIP: str | None
    podIPs: list[_Address] | None
    containerStatuses: list[_ContainerStatus] | None
    initContainerStatuses: list[_ContainerStatus] | None
    ephemeralContainerStatuses: list[_ContainerStatus] | None


class Pod(TypedDict, total=False):
    """The used fields of a pod."""

    metadata: Required[_Metadata]
    spec: _PodSpec | None
    status: _PodStatus | None


class _NodeStatus(TypedDict, total=False):
    allocatable: _Amounts
    capacity: _Amounts


class Document(TypedDict, total=False):
    """The used fields of other objects: fields of a node, and the entire spec or data of objects with rules."""

    apiVersion: str
    kind: str
    metadata: Required[_Metadata]
    spec: Any
    data: _Texts
    status: _NodeStatus | None


class ResourceClaim(TypedDict, total=False):
    """The used fields of a claim of dynamic resource allocation."""

    metadata: Required[_Metadata]
    status: Any


#: Allow this many bytes of memory for each byte of JSON, by shape. Objects other than pods are written by
#: administrators, and a NodeSLO with short keys and numbers needs a factor of seven.
_MAX_FACTORS: Final = {Pod: MAX_POD_FACTOR, Document: 32, ResourceClaim: 32}


class TooCostly(ValueError):
    """An object takes too much memory for the length of its JSON."""


class DecodedObject(NamedTuple):
    """An object, and its size in memory in bytes."""

    value: dict[str, Any]
    size: int


def make_decoder(shape: Any) -> Callable[[bytes], DecodedObject]:
    """Return a function that decodes the fields of a shape: `Pod`, `ResourceClaim` or `Document`.

    The function raises TooCostly if the object needs too much memory, and ValueError if the JSON is invalid. Raises
    NriError without the extra `agent`.
    """
    decode, factor = _tolerant_decoder(shape), _MAX_FACTORS[shape]

    def read(data: bytes) -> DecodedObject:
        value = decode(data)
        limit = factor * len(data) + _ALLOWANCE_BYTES
        size = _memory_size(value, limit)
        if size > limit:
            raise TooCostly(f"{len(data)} bytes of short texts, which take more than {limit} bytes of memory")
        return DecodedObject(value, size)

    return read


def make_event_decoder() -> Callable[[bytes], tuple[str, bytes]]:
    """Return a function that reads the type of an event and the JSON of its object. Errors are as in `make_decoder`."""
    msgspec = _msgspec()
    decode = _tolerant_decoder(msgspec.defstruct("_Event", [("type", str), ("object", msgspec.Raw)]))

    def read(data: bytes) -> tuple[str, bytes]:
        event = decode(data)
        return event.type, bytes(event.object)

    return read


def _tolerant_decoder(shape: Any) -> Callable[[bytes], Any]:
    """Return a decoder that replaces lone surrogates, as Go does, and raises only ValueError."""
    msgspec = _msgspec()
    decode = msgspec.json.Decoder(shape).decode

    def read(data: bytes) -> Any:
        try:
            return decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return decode(without_half_characters(data.decode()).encode())

    def bounded(data: bytes) -> Any:
        try:
            return read(data)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None

    return bounded


def _msgspec() -> Any:
    try:
        return importlib.import_module("msgspec")
    except ImportError:
        raise NriError(
            f"msgspec is required for objects of the API, and is not installed. Install the extra: {INSTALL}"
        ) from None


def _memory_size(tree: Any, limit: int) -> int:
    """Return the size in memory of a tree of plain values. Counting stops above `limit`."""
    total, waiting = 0, [tree]
    while waiting and total <= limit:
        value = waiting.pop()
        total += sys.getsizeof(value)
        if isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return total
