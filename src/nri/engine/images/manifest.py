"""Parse and check the documents of an image: index, manifest, configuration. Their content is not trusted.

A document must mean the same to every program. So duplicate keys are rejected, including keys that differ only in
letter case, because Go's JSON decoder ignores letter case. Each error names the image.
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

#: The maximum size of a document, as in registries and other runtimes.
MAX_DOCUMENT_BYTES = 4 << 20
#: The first size of a layer that does not fit into an int64.
_MAX_LAYER_BYTES = 1 << 63
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x",
                  "riscv64": "riscv64"}  # fmt: skip
#: The variants of an architecture that a machine can run, the best first. "" is an image without a variant.
_VARIANTS = {"amd64": ("", "v1"), "arm64": ("v8", ""), "arm": ("v7", "", "v6", "v5")}
#: The keys of ``config`` by the type of their value: string, list of strings, map of strings.
_STRINGS, _LISTS, _MAPS = ("User", "WorkingDir", "StopSignal"), ("Entrypoint", "Cmd", "Env"), ("Labels",)


class Blob(NamedTuple):
    """A compressed layer in a manifest."""

    digest: str
    size_bytes: int
    media_type: str = ""


def parse(data: bytes, name: str) -> dict[str, Any]:
    """Parse a document. Raises InvalidRequest if it is not a JSON object, too long, too deep, or has duplicate keys."""
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
    """Return the value of a key, or an empty value if the key is absent or null.

    Raises InvalidRequest if the value has another type than `kind`. `place` is the path of the table, for the message.
    """
    alike = [other for other in table if other.casefold() == key.casefold() and other != key]
    path = f"{place}.{key}" if place else key
    if alike:
        raise InvalidRequest(f"image {name}: {path} is spelled {alike[0]!r}, which some tools read as the same key")
    value = table.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRequest(f"image {name}: {path} is {_value_text(value)}; it must be {_TYPE_NAMES[kind]}")
    return value


_TYPE_NAMES = {str: "a string", list: "a list", dict: "an object", int: "a number"}


def _value_text(value: object) -> str:
    return "an object or a list" if isinstance(value, (dict, list)) else repr(value)[:64]


def _rows(table: Mapping[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    """Return the value of a key. Raises InvalidRequest if it is not a list of objects."""
    rows = _get(table, key, list, name)
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InvalidRequest(f"image {name}: {key}[{index}] is {_value_text(row)}; it must be an object")
    return list(rows)


# --- index ---


def is_index(manifest: Mapping[str, Any], name: str) -> bool:
    """Return whether a document is a list of manifests. Raises InvalidRequest if it has the unsupported schema 1."""
    if manifest.get("schemaVersion") == 1:
        raise InvalidRequest(f"{name} has manifest schema 1, which current tools do not support. Rebuild the image")
    has_manifests = _get(manifest, "mediaType", str, name) in _INDEXES or bool(_get(manifest, "manifests", list, name))
    if has_manifests and (_get(manifest, "config", dict, name) or _get(manifest, "layers", list, name)):
        raise InvalidRequest(
            f"image {name}: the document is both a list of manifests and a manifest, so tools read it differently"
        )
    return has_manifests


class ListedManifest(NamedTuple):
    """An entry of a list: a manifest, or another list.

    Attributes:
        digest: the digest of the manifest or list.
        sure: whether the list states a platform, which is this machine's. Otherwise the image's configuration has to
            be checked.
    """

    digest: str
    sure: bool


def for_this_machine(index: Mapping[str, Any], name: str, machine: str = "") -> tuple[list[ListedManifest], list[str]]:
    """Return the entries of a list that may run on this machine, the best first, and the platforms of other entries.

    The order is containerd's: entries for this platform by variant, then entries without a platform. Raises
    InvalidRequest if the list is invalid.
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
            ranked.append((len(order), ListedManifest(_digest(row, name, "manifests[]"), sure=False)))
        elif (system or "linux", architecture or expected) == ("linux", expected) and variant in order:
            ranked.append((order.index(variant), ListedManifest(_digest(row, name, "manifests[]"), sure=True)))
        else:
            other_platforms.append("/".join(filter(None, (system, architecture, variant))))
    return [entry for _, entry in sorted(ranked, key=lambda entry: entry[0])], other_platforms


def other_machine(config: Mapping[str, Any], name: str, machine: str = "") -> str:
    """Return the platform in an image's configuration, or "" if this machine can run the image."""
    expected = _architecture(machine)
    system, architecture, variant = (_get(config, key, str, name) for key in ("os", "architecture", "variant"))
    is_same = (system or "linux", architecture or expected) == ("linux", expected) and variant in _VARIANTS.get(
        expected, ("",)
    )
    return "" if is_same else "/".join(filter(None, (system, architecture, variant)))


def not_for_this_machine(name: str, platforms: Iterable[str], machine: str = "") -> InvalidRequest:
    """Return the error for an image that does not support this machine. `platforms` are the supported ones."""
    names = ", ".join(sorted({*platforms})) or "nothing"
    return InvalidRequest(plain(f"{name} is not for linux/{_architecture(machine)}; it is for {names}"))


def _architecture(machine: str) -> str:
    machine = machine or os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


# --- manifest ---


def config_digest(manifest: Mapping[str, Any], name: str) -> str:
    """Return the digest of the configuration, which is the image's id. Raises InvalidRequest if there is no digest."""
    config = _get(manifest, "config", dict, name)
    if not config:
        raise InvalidRequest(f"{name} is not a runnable image: its manifest has no configuration")
    return _digest(config, name, "config")


def layers(manifest: Mapping[str, Any], name: str) -> list[Blob]:
    """Return the layers of a manifest, the lowest first. Raises InvalidRequest if a digest or size is invalid."""
    blobs = []
    for row in _rows(manifest, "layers", name):
        size: int = _get(row, "size", int, name, "layers[]")
        if not 0 <= size < _MAX_LAYER_BYTES:
            raise InvalidRequest(f"image {name}: layers[].size is {_value_text(size)}; it must be a number of bytes")
        blobs.append(Blob(_digest(row, name, "layers[]"), size, _get(row, "mediaType", str, name, "layers[]")))
    return blobs


def _digest(row: Mapping[str, Any], name: str, place: str) -> str:
    digest: str = _get(row, "digest", str, name, place)
    if not DIGEST.fullmatch(digest):
        raise InvalidRequest(f"image {name}: {place}.digest is {digest[:80]!r}, which is not a digest")
    return digest


# --- configuration ---


def diff_ids(config: Mapping[str, Any], name: str) -> list[str]:
    """Return the digests of the unpacked layers, in order. Raises InvalidRequest if one is not a digest."""
    digests = _get(_get(config, "rootfs", dict, name), "diff_ids", list, name, "rootfs")
    for index, digest in enumerate(digests):
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise InvalidRequest(
                f"image {name}: rootfs.diff_ids[{index}] is {_value_text(digest)}, which is not a digest"
            )
    return list(digests)


def container_config(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the section that containers inherit. Raises InvalidRequest if a value has a wrong type."""
    settings: dict[str, Any] = _get(config, "config", dict, name)
    for key in _STRINGS:
        _get(settings, key, str, name, "config")
    for key in _LISTS:
        _texts(_get(settings, key, list, name, "config"), name, f"config.{key}")
    for path, value in _get(settings, "Volumes", dict, name, "config").items():
        if value is not None and not isinstance(value, dict):
            raise InvalidRequest(
                f"image {name}: config.Volumes[{path[:80]!r}] is {_value_text(value)}; it must be an object"
            )
    for key in _MAPS:
        _texts(list(_get(settings, key, dict, name, "config").values()), name, f"config.{key}")
    try:
        json.dumps(settings, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # a protobuf message cannot contain it
        part = ascii(error.object[max(error.start - 20, 0) : error.end])
        raise InvalidRequest(f"image {name}: config contains text that is not Unicode, at {part}") from None
    return settings


def _texts(values: Sequence[object], name: str, path: str) -> None:
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidRequest(f"image {name}: {path}[{index}] is {_value_text(value)}; it must be a string")
