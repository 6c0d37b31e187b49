"""Documents of an image, from its maker by way of a registry: index, manifest, configuration. None of it is trusted.

A document means one thing to every reader: a key that is there twice, also in other letters, which Go's readers
take for the same one, is refused. Types are checked where they are read. An image's id is the digest of its
configuration, and that lists the layers: a manifest has as many, and the content of each is compared when it is
unpacked. Each error names the image.
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

#: Bytes of one document at most, as registries and other runtimes have it.
LIMIT_BYTES = 4 << 20
#: More than any layer has; a sum of many of them is still a number that can be written.
_MOST_BYTES = 1 << 63
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
    """A document. Raises InvalidRequest for one that is not text, no table, too long, too deep, or has a key twice."""
    if len(data) > LIMIT_BYTES:
        raise InvalidRequest(f"image {name}: a manifest or configuration of more than {LIMIT_BYTES} bytes")
    try:
        found = parse_json(data, object_pairs_hook=_once, parse_constant=_refused)
    except ValueError as error:
        raise InvalidRequest(f"image {name}: a manifest or configuration that cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise InvalidRequest(f"image {name}: a manifest or configuration that is not a table")
    return found


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _refused(word: str) -> None:
    raise ValueError(f"{word} is not a number")


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
        raise InvalidRequest(f"{name} is of manifest schema 1, which no tool pulls any more: build it again")
    found = _get(manifest, "mediaType", str, name) in _INDEXES or bool(_get(manifest, "manifests", list, name))
    if found and (_get(manifest, "config", dict, name) or _get(manifest, "layers", list, name)):
        raise InvalidRequest(
            f"image {name}: it is a list of manifests and a manifest at once, which tools read differently"
        )
    return found


class Listed(NamedTuple):
    """A manifest, or a further list, that a list names.

    Attributes:
        digest: its digest.
        sure: the list says that it is for this machine; else what it is has to be looked at.
    """

    digest: str
    sure: bool


def for_this_machine(index: Mapping[str, Any], name: str, machine: str = "") -> tuple[list[Listed], list[str]]:
    """The entries of a list for this machine, the best first, and for which machines the rest is.

    As containerd has it: what names this platform first, its best variant before others, then what names none. Raises
    InvalidRequest for a list that is none.
    """
    wanted = _architecture(machine)
    order = _VARIANTS.get(wanted, ("",))
    found, others = [], []
    for row in _rows(index, "manifests", name):
        platform = _get(row, "platform", dict, name, "manifests[]")
        system, architecture, variant = (
            _get(platform, key, str, name, "manifests[].platform") for key in ("os", "architecture", "variant")
        )
        if not platform:
            found.append((len(order), Listed(_digest(row, name, "manifests[]"), sure=False)))
        elif (system or "linux", architecture or wanted) == ("linux", wanted) and variant in order:
            found.append((order.index(variant), Listed(_digest(row, name, "manifests[]"), sure=True)))
        else:
            others.append("/".join(filter(None, (system, architecture, variant))))
    return [each for _, each in sorted(found, key=lambda each: each[0])], others


def other_machine(config: Mapping[str, Any], name: str, machine: str = "") -> str:
    """The other machine that an image is for by its configuration; "" if that is this one, or is not said."""
    wanted = _architecture(machine)
    system, architecture, variant = (_get(config, key, str, name) for key in ("os", "architecture", "variant"))
    same = (system or "linux", architecture or wanted) == ("linux", wanted) and variant in _VARIANTS.get(wanted, ("",))
    return "" if same else "/".join(filter(None, (system, architecture, variant)))


def not_for_this_machine(name: str, others: Iterable[str], machine: str = "") -> InvalidRequest:
    """The error for an image of which nothing is for this machine."""
    there = ", ".join(sorted({*others})) or "nothing"
    return InvalidRequest(plain(f"{name} is not for linux/{_architecture(machine)}; there is {there}"))


def _architecture(machine: str) -> str:
    machine = machine or os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


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
    if odd := [size for size in sizes if not 0 <= size < _MOST_BYTES]:
        raise InvalidRequest(f"image {name}: layers[].size is {_shown(odd[0])}, and has to be a number of bytes")
    for row in rows:
        _digest(row, name, "layers[]")
    return Layers(len(rows), sum(sizes))


def _digest(row: Mapping[str, Any], name: str, place: str) -> str:
    found: str = _get(row, "digest", str, name, place)
    if not DIGEST.fullmatch(found):
        raise InvalidRequest(f"image {name}: {place}.digest is {found[:80]!r}, which is not a digest")
    return found


# --- configuration ---


def diff_ids(config: Mapping[str, Any], name: str) -> list[str]:
    """The digests of the unpacked layers, in their order. Raises InvalidRequest."""
    found = _get(_get(config, "rootfs", dict, name), "diff_ids", list, name, "rootfs")
    for index, each in enumerate(found):
        if not isinstance(each, str) or not DIGEST.fullmatch(each):
            raise InvalidRequest(f"image {name}: rootfs.diff_ids[{index}] is {_shown(each)}, which is not a digest")
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
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # no message of the CRI could hold it
        part = ascii(error.object[max(error.start - 20, 0) : error.end])
        raise InvalidRequest(f"image {name}: config has a text that is not Unicode, at {part}") from None
    return found


def _texts(values: Sequence[object], name: str, path: str) -> None:
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidRequest(f"image {name}: {path}[{index}] is {_shown(value)}, and has to be a text")
