"""Parse and check the documents of an image: index, manifest, configuration. None of them is trusted.

A document has to mean the same to every reader. So duplicate keys are rejected, also in other letter case, which Go
ignores. Each error names the image.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.engine.images.reference import DIGEST
from nri.engine.support.errors import InvalidRequest
from nri.text import plain

#: The longest document, as in registries and other runtimes.
MAX_DOCUMENT_BYTES = 4 << 20
#: More bytes than any layer has.
_MAX_LAYER_BYTES = 1 << 63
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x",
                  "riscv64": "riscv64"}  # fmt: skip
#: The variants that a machine runs, the best first; an image without a variant fits its whole architecture.
_VARIANTS = {"amd64": ("", "v1"), "arm64": ("v8", ""), "arm": ("v7", "", "v6", "v5")}
_TEXTS, _LISTS, _TABLES = ("User", "WorkingDir", "StopSignal"), ("Entrypoint", "Cmd", "Env"), ("Labels",)


class Layers(NamedTuple):
    """The number of layers of a manifest, and their total size."""

    number: int
    size_bytes: int


def parse(data: bytes, name: str) -> dict[str, Any]:
    """Parse a document. InvalidRequest if it is not a JSON object, too long, too deep, or has a duplicate key."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InvalidRequest(f"image {name}: a manifest or configuration exceeds {MAX_DOCUMENT_BYTES} bytes")
    try:
        document = parse_json(data, object_pairs_hook=_unique_keys, parse_constant=_reject_constant)
    except ValueError as error:
        raise InvalidRequest(f"image {name}: a manifest or configuration is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidRequest(f"image {name}: a manifest or configuration is not a JSON object")
    return document


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key is used twice")
    return table


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _get(table: Mapping[str, Any], key: str, kind: type, name: str, place: str = "") -> Any:
    """The value of a key, which must have this type; an empty one if it is absent or null."""
    alike = [other for other in table if other.casefold() == key.casefold() and other != key]
    path = f"{place}.{key}" if place else key
    if alike:
        raise InvalidRequest(f"image {name}: {path} is spelled {alike[0]!r}, which other tools take for the same key")
    value = table.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRequest(f"image {name}: {path} is {_shown(value)}; it must be {_TYPE_NAMES[kind]}")
    return value


_TYPE_NAMES = {str: "text", list: "a list", dict: "an object", int: "a number"}


def _shown(value: object) -> str:
    return "an object or a list" if isinstance(value, (dict, list)) else repr(value)[:64]


def _rows(table: Mapping[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    """The value of a key, which must be a list of objects."""
    rows = _get(table, key, list, name)
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InvalidRequest(f"image {name}: {key}[{index}] is {_shown(row)}; it must be an object")
    return list(rows)


# --- index ---


def is_index(manifest: Mapping[str, Any], name: str) -> bool:
    """Whether a document lists manifests. InvalidRequest for schema 1, which has no configuration."""
    if manifest.get("schemaVersion") == 1:
        raise InvalidRequest(f"{name} has manifest schema 1, which current tools do not support. Rebuild the image")
    has_manifests = _get(manifest, "mediaType", str, name) in _INDEXES or bool(_get(manifest, "manifests", list, name))
    if has_manifests and (_get(manifest, "config", dict, name) or _get(manifest, "layers", list, name)):
        raise InvalidRequest(
            f"image {name}: it is both a list of manifests and a manifest, which tools read differently"
        )
    return has_manifests


class Listed(NamedTuple):
    """An entry of a list: a manifest, or another list.

    Attributes:
        digest: its digest.
        sure: whether the list says that it is for this machine; otherwise its configuration has to be checked.
    """

    digest: str
    sure: bool


def for_this_machine(index: Mapping[str, Any], name: str, machine: str = "") -> tuple[list[Listed], list[str]]:
    """The entries of a list for this machine, the best first, and the platforms of the other entries.

    The order is containerd's: entries for this platform by variant, then entries without a platform. InvalidRequest for
    an invalid list.
    """
    expected = _architecture(machine)
    order = _VARIANTS.get(expected, ("",))
    ranked, other_platforms = [], []
    for row in _rows(index, "manifests", name):
        platform = _get(row, "platform", dict, name, "manifests[]")
        system, architecture, variant = (
            _get(platform, key, str, name, "manifests[].platform") for key in ("os", "architecture", "variant")
        )
        if not platform:
            ranked.append((len(order), Listed(_digest(row, name, "manifests[]"), sure=False)))
        elif (system or "linux", architecture or expected) == ("linux", expected) and variant in order:
            ranked.append((order.index(variant), Listed(_digest(row, name, "manifests[]"), sure=True)))
        else:
            other_platforms.append("/".join(filter(None, (system, architecture, variant))))
    return [entry for _, entry in sorted(ranked, key=lambda entry: entry[0])], other_platforms


def other_machine(config: Mapping[str, Any], name: str, machine: str = "") -> str:
    """The platform of an image's configuration if it is for another machine; "" otherwise, or if it is unknown."""
    expected = _architecture(machine)
    system, architecture, variant = (_get(config, key, str, name) for key in ("os", "architecture", "variant"))
    is_same = (system or "linux", architecture or expected) == ("linux", expected) and variant in _VARIANTS.get(
        expected, ("",)
    )
    return "" if is_same else "/".join(filter(None, (system, architecture, variant)))


def not_for_this_machine(name: str, platforms: Iterable[str], machine: str = "") -> InvalidRequest:
    """The error for an image without a part for this machine."""
    names = ", ".join(sorted({*platforms})) or "nothing"
    return InvalidRequest(plain(f"{name} is not for linux/{_architecture(machine)}; it is for {names}"))


def _architecture(machine: str) -> str:
    machine = machine or os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


# --- manifest ---


def config_digest(manifest: Mapping[str, Any], name: str) -> str:
    """The digest of the configuration, which is the image's id. InvalidRequest without one."""
    config = _get(manifest, "config", dict, name)
    if not config:
        raise InvalidRequest(f"{name} is not a runnable image: its manifest has no configuration")
    return _digest(config, name, "config")


def layers(manifest: Mapping[str, Any], name: str) -> Layers:
    """The number and size of a manifest's layers. InvalidRequest for a layer without a digest or valid size."""
    rows = _rows(manifest, "layers", name)
    sizes = [_get(row, "size", int, name, "layers[]") for row in rows]
    if invalid := [size for size in sizes if not 0 <= size < _MAX_LAYER_BYTES]:
        raise InvalidRequest(f"image {name}: layers[].size is {_shown(invalid[0])}; it must be a number of bytes")
    for row in rows:
        _digest(row, name, "layers[]")
    return Layers(len(rows), sum(sizes))


def _digest(row: Mapping[str, Any], name: str, place: str) -> str:
    digest: str = _get(row, "digest", str, name, place)
    if not DIGEST.fullmatch(digest):
        raise InvalidRequest(f"image {name}: {place}.digest is {digest[:80]!r}, which is not a digest")
    return digest


# --- configuration ---


def diff_ids(config: Mapping[str, Any], name: str) -> list[str]:
    """The digests of the unpacked layers, in order. Raises InvalidRequest."""
    digests = _get(_get(config, "rootfs", dict, name), "diff_ids", list, name, "rootfs")
    for index, digest in enumerate(digests):
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise InvalidRequest(f"image {name}: rootfs.diff_ids[{index}] is {_shown(digest)}, which is not a digest")
    return list(digests)


def container_config(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The part of a configuration that containers inherit. InvalidRequest for a value of a wrong type."""
    settings: dict[str, Any] = _get(config, "config", dict, name)
    for key in _TEXTS:
        _get(settings, key, str, name, "config")
    for key in _LISTS:
        _texts(_get(settings, key, list, name, "config"), name, f"config.{key}")
    for path, value in _get(settings, "Volumes", dict, name, "config").items():
        if value is not None and not isinstance(value, dict):
            raise InvalidRequest(
                f"image {name}: config.Volumes[{path[:80]!r}] is {_shown(value)}; it must be an object"
            )
    for key in _TABLES:
        _texts(list(_get(settings, key, dict, name, "config").values()), name, f"config.{key}")
    try:
        json.dumps(settings, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # the CRI's messages only hold Unicode
        part = ascii(error.object[max(error.start - 20, 0) : error.end])
        raise InvalidRequest(f"image {name}: config contains text that is not Unicode, at {part}") from None
    return settings


def _texts(values: Sequence[object], name: str, path: str) -> None:
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidRequest(f"image {name}: {path}[{index}] is {_shown(value)}; it must be text")
