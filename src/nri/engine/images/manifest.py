"""Documents of an image, from its maker by way of a registry: index, manifest, configuration. None of it is trusted.

Rules: a document means one thing to every reader: a key that is there twice, also in other letters, which Go's readers
take for the same one, is refused. Types are checked where they are read. An image's id is the digest of its
configuration, and that lists the layers: a manifest has as many, and the content of each is compared when it is
unpacked. Each error names the image. Pure. Next: :mod:`nri.engine.images.unpack`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.engine.images.reference import DIGEST
from nri.engine.support.errors import InvalidRequest

__all__ = ["Layers", "choose_platform", "config_digest", "container_config", "diff_ids", "is_index", "layers", "parse"]

#: Bytes of one document at most, as registries and other runtimes have it.
LIMIT_BYTES = 4 << 20
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x",
                  "riscv64": "riscv64"}  # fmt: skip
#: The variants that a machine runs, the best first; an image that names none is for all of its architecture.
_VARIANTS = {"amd64": ("", "v1"), "arm64": ("v8", ""), "arm": ("v7", "", "v6", "v5")}
_TEXTS, _LISTS, _TABLES = ("User", "WorkingDir", "StopSignal"), ("Entrypoint", "Cmd", "Env"), ("Labels",)


class Layers(NamedTuple):
    """The layers of a manifest: how many, and their bytes all together."""

    number: int
    size_bytes: int


def parse(data: bytes, name: str) -> dict[str, Any]:
    """A document. Raises InvalidRequest for one that is no table, no text, too long, too deep, or has a key twice."""
    if len(data) > LIMIT_BYTES:
        raise InvalidRequest(f"image {name}: a manifest or configuration of more than {LIMIT_BYTES} bytes")
    try:
        found = parse_json(data, object_pairs_hook=_once, parse_constant=_refused)
    except ValueError as error:
        raise InvalidRequest(f"image {name}: a manifest or configuration that cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise InvalidRequest(f"image {name}: a manifest or configuration that is no table")
    return found


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _get(table: Mapping[str, Any], key: str, kind: type, name: str, place: str = "") -> Any:
    """A value by its key, of this type; an empty one if it is absent or null."""
    alike = [each for each in table if each.casefold() == key.casefold() and each != key]
    path = f"{place}.{key}" if place else key
    if alike:
        raise InvalidRequest(f"image {name}: {path} is written {alike[0]!r}, which others take for the same key")
    value = table.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRequest(f"image {name}: {path} is {_shown(value)}, and has to be {_WORDS[kind]}")
    return value


_WORDS = {str: "a text", list: "a list", dict: "a table", int: "a number"}


def _shown(value: object) -> str:
    return "a table or list" if isinstance(value, (dict, list)) else repr(value)[:64]


def _rows(table: Mapping[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    """A list of tables."""
    found = _get(table, key, list, name)
    for index, row in enumerate(found):
        if not isinstance(row, dict):
            raise InvalidRequest(f"image {name}: {key}[{index}] is {_shown(row)}, and has to be a table")
    return list(found)


# --- index ---


def is_index(manifest: Mapping[str, Any], name: str) -> bool:
    """Whether it lists manifests. Raises InvalidRequest for the first schema, which has no configuration."""
    if manifest.get("schemaVersion") == 1:
        raise InvalidRequest(f"{name} is of manifest schema 1, which no tool pulls any more: build it anew")
    found = _get(manifest, "mediaType", str, name) in _INDEXES or bool(_get(manifest, "manifests", list, name))
    if found and (_get(manifest, "config", dict, name) or _get(manifest, "layers", list, name)):
        raise InvalidRequest(f"image {name}: a list of manifests and a manifest in one, which nobody reads alike")
    return found


def choose_platform(index: Mapping[str, Any], name: str, machine: str = "") -> str:
    """The digest of the manifest for this machine in a list, or of a further list. InvalidRequest: there is none."""
    machine = machine or os.uname().machine
    wanted = _ARCHITECTURES.get(machine, machine)
    order = _VARIANTS.get(wanted, ("",))
    found, there = [], set()
    for row in _rows(index, "manifests", name):
        platform = _get(row, "platform", dict, name, "manifests[]")
        system, architecture, variant = (
            _get(platform, key, str, name, "manifests[].platform") for key in ("os", "architecture", "variant")
        )
        there.add("/".join(filter(None, (system, architecture, variant))) or "a list of lists")
        nested = not platform and _get(row, "mediaType", str, name, "manifests[]") in _INDEXES
        if nested or ((system or "linux", architecture or wanted) == ("linux", wanted) and variant in order):
            found.append((order.index(variant) if not nested else len(order), _digest(row, name, "manifests[]")))
    if not found:
        raise InvalidRequest(f"{name} is not for linux/{wanted}; there is {', '.join(sorted(there)) or 'nothing'}")
    return min(found, key=lambda each: each[0])[1]


# --- manifest ---


def config_digest(manifest: Mapping[str, Any], name: str) -> str:
    """The digest of the configuration, which is the image's id. Raises InvalidRequest if there is none."""
    config = _get(manifest, "config", dict, name)
    if not config:
        raise InvalidRequest(f"{name} is no image that runs: its manifest has no configuration")
    return _digest(config, name, "config")


def layers(manifest: Mapping[str, Any], name: str) -> Layers:
    """The layers that a manifest names. Raises InvalidRequest for one without a digest, or of no size."""
    rows = _rows(manifest, "layers", name)
    sizes = [_get(row, "size", int, name, "layers[]") for row in rows]
    if any(size < 0 for size in sizes):
        raise InvalidRequest(f"image {name}: layers[].size is {min(sizes)}, and has to be a number of bytes")
    for row in rows:
        _digest(row, name, "layers[]")
    return Layers(len(rows), sum(sizes))


def _digest(row: Mapping[str, Any], name: str, place: str) -> str:
    found: str = _get(row, "digest", str, name, place)
    if not DIGEST.fullmatch(found):
        raise InvalidRequest(f"image {name}: {place}.digest is {found[:80]!r}, which is no digest")
    return found


# --- configuration ---


def diff_ids(config: Mapping[str, Any], name: str) -> list[str]:
    """The digests of the unpacked layers, in their order. Raises InvalidRequest."""
    found = _get(_get(config, "rootfs", dict, name), "diff_ids", list, name, "rootfs")
    for index, each in enumerate(found):
        if not isinstance(each, str) or not DIGEST.fullmatch(each):
            raise InvalidRequest(f"image {name}: rootfs.diff_ids[{index}] is {_shown(each)}, which is no digest")
    return list(found)


def container_config(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The part of a configuration that containers take over. Raises InvalidRequest for a value of a wrong type."""
    found: dict[str, Any] = _get(config, "config", dict, name)
    for key in _TEXTS:
        _get(found, key, str, name, "config")
    for key in _LISTS:
        _texts(_get(found, key, list, name, "config"), name, f"config.{key}")
    for key in _TABLES:
        _texts(list(_get(found, key, dict, name, "config").values()), name, f"config.{key}")
    return found


def _texts(values: Sequence[object], name: str, path: str) -> None:
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidRequest(f"image {name}: {path}[{index}] is {_shown(value)}, and has to be a text")
