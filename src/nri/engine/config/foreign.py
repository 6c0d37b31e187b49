"""Files of other runtimes as layers of the engine's settings: containerd's configuration and iSulad's daemon.json.

Only what they say about NRI counts, read by `nri.config.runtimes` as those runtimes read it. A mistake that
takes a setting away is an error here, with line and suggestion; what is only odd is a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.config import Source
from nri.config.complaint import together
from nri.config.layers import Layer
from nri.config.place import Path
from nri.config.runtimes import containerd, isulad
from nri.config.runtimes.reading import Kind, Reading, Remark, RuntimeNri
from nri.config.runtimes.remark_texts import texts_of
from nri.config.settings import FileLayer
from nri.errors import ConfigError

#: Remarks that take nothing away here: the engine understands what is meant, or it is about other programs.
_NOTES = {
    Kind.COMMENT, Kind.OLD_SPELLING, Kind.FIXED_SOCKET, Kind.NO_SECONDS, Kind.UNVERSIONED, Kind.OLD_TABLE,
    Kind.NOT_IMPORTED, Kind.REPLACED,
}  # fmt: skip
_SILENT = {Kind.RELEASE_DECIDES}

#: Fields of `RuntimeNri` by our keys, each with containerd's and iSulad's key for it.
_FIELDS = {
    "disable": ("enabled", "disable", "nri-support"),
    "disable_connections": ("connections", "disable_connections", "disable-connections"),
    "socket_path": ("socket_path", "socket_path", "socket_path"),
    "plugin_path": ("plugin_path", "plugin_path", "plugin-path"),
    "plugin_config_path": ("plugin_config_path", "plugin_config_path", "plugin-config-path"),
    "plugin_registration_timeout": (
        "registration_timeout_s", "plugin_registration_timeout", "plugin-registration-timeout",
    ),
    "plugin_request_timeout": ("request_timeout_s", "plugin_request_timeout", "plugin-request-timeout"),
}  # fmt: skip
_OPPOSITE = {"disable", "disable_connections"}


def containerd_layer(path: str) -> FileLayer:
    """The NRI table of containerd's file at `path`, with its imports. ConfigError for mistakes."""
    return _layer(path, containerd.read(path=path), 1)


def isulad_layer(path: str) -> FileLayer:
    """The NRI keys of iSulad's file at `path`, in both spellings. ConfigError for mistakes."""
    return _layer(path, isulad.read(path=path), 2)


def unpacked(source: Source, tree: dict[str, Any], layer: Layer) -> Layer:
    """An engine's own file with containerd's table pasted into it: the keys of the table are those of ``nri``."""
    tables = tree.pop("plugins")
    pasted, own = tables.pop(containerd.PLUGIN), tree.get("nri", {})
    twice = sorted(set(own) & set(pasted)) if isinstance(own, dict) and isinstance(pasted, dict) else []
    if twice:
        raise ConfigError(layer.place(("nri", twice[0])), f"nri.{twice[0]}", "the key is given twice", "keep one")
    if not isinstance(own, dict) or not isinstance(pasted, dict):
        raise ConfigError(source.name, "nri", "expected a table of keys")

    def place(at: Path) -> str:
        moved = len(at) > 1 and at[0] == "nri" and at[1] in pasted
        return layer.place((*containerd.TABLE, *at[1:]) if moved else at)

    return Layer({**tree, "nri": {**own, **pasted}}, place)


def _layer(path: str, reading: Reading, column: int) -> FileLayer:
    """Make a layer of a reading."""
    errors = [_error(reading, remark) for remark in reading.remarks if remark.kind not in _NOTES | _SILENT]
    if errors:
        raise together(errors)
    nri = reading.nri or RuntimeNri(reading.runtime)
    keys: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, row in _FIELDS.items():
        if row[column] in nri.origin:
            value = getattr(nri, row[0])
            keys[key] = not value if key in _OPPOSITE else value
            places[key] = nri.origin[row[column]]
    for remark in reading.remarks:
        if remark.kind is Kind.FIXED_SOCKET:
            keys["socket_path"], places["socket_path"] = remark.details["value"], remark.where
    if nri.validator:
        keys["default_validator"] = dict(nri.validator)
    places |= {key: where for key, where in nri.origin.items() if key.startswith("default_validator.")}
    if column == 2 and "disable" not in keys:  # iSulad's NRI is off without a word
        keys["disable"] = True
    notes = [_note(reading, remark) for remark in reading.remarks if remark.kind in _NOTES]
    return FileLayer(Layer({"nri": keys}, lambda at: _place(path, places, at)), notes)


def _place(path: str, places: Mapping[str, str], at: Path) -> str:
    """The file and line of one of our keys; a reading's places have the key behind them, which is ours to say."""
    where = places.get(".".join(map(str, at[1:])), path)
    return where.partition(": ")[0]


def _error(reading: Reading, remark: Remark) -> ConfigError:
    words = texts_of(reading.runtime, remark)
    where, _, key = remark.where.partition(": ")
    return ConfigError(where, key, words.what, words.next)


def _note(reading: Reading, remark: Remark) -> str:
    words = texts_of(reading.runtime, remark)
    if remark.kind is Kind.FIXED_SOCKET:
        return f"{remark.where}: iSulad itself takes no other socket path"
    return f"{remark.where}: {words.what}" + (f" ({words.next})" if words.next else "")
