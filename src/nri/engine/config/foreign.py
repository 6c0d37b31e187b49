"""Layers of engine settings from other runtimes' files: containerd's configuration and iSulad's daemon.json.

Only the NRI settings of these files are used, with the meaning that the other runtime gives them. A mistake in the file
is an error if a setting is lost, otherwise a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.config import Source
from nri.config.complaint import combined_error
from nri.config.key_path import Path
from nri.config.layers import Layer
from nri.config.runtimes import containerd, isulad
from nri.config.runtimes.reading import Kind, Reading, Remark, RuntimeNri
from nri.config.runtimes.remark_texts import texts_of
from nri.config.settings import FileLayer
from nri.errors import ConfigError

#: Remarks that are only notes, because the engine understands the setting, or the remark is about another program.
_NOTES = {
    Kind.COMMENT, Kind.OLD_SPELLING, Kind.FIXED_SOCKET, Kind.NO_SECONDS, Kind.UNVERSIONED, Kind.OLD_TABLE,
    Kind.NOT_IMPORTED, Kind.REPLACED, Kind.NEVER_RUNS,
}  # fmt: skip
#: Remarks that are not reported.
_SILENT = {Kind.RELEASE_DECIDES}

#: The engine's keys, and for each the field of `RuntimeNri`, containerd's key and iSulad's key.
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
#: Keys whose value is the negation of the field in `RuntimeNri`.
_NEGATED = {"disable", "disable_connections"}


def containerd_layer(path: str) -> FileLayer:
    """Return the NRI settings of containerd's file at `path` and the files that it imports.

    Raises ConfigError if a mistake in a file loses a setting.
    """
    return _layer(path, containerd.read(release=containerd.NEWEST_RELEASE, path=path), 1)


def isulad_layer(path: str) -> FileLayer:
    """Return the NRI settings of iSulad's file at `path`; both spellings of the keys are read.

    Raises ConfigError if a mistake in the file loses a setting.
    """
    return _layer(path, isulad.read(path=path, lenient=True), 2)


def unpacked(source: Source, tree: dict[str, Any], layer: Layer) -> Layer:
    """Move the keys of containerd's NRI table to the table ``nri``, if a user pasted that table into engine.toml."""
    tables = tree.pop("plugins")
    pasted, nri = tables.pop(containerd.PLUGIN), tree.get("nri", {})
    duplicates = sorted(set(nri) & set(pasted)) if isinstance(nri, dict) and isinstance(pasted, dict) else []
    if duplicates:
        key = duplicates[0]
        raise ConfigError(layer.place(("nri", key)), f"nri.{key}", "duplicate key", "keep one")
    if not isinstance(nri, dict) or not isinstance(pasted, dict):
        raise ConfigError(source.name, "nri", "expected a mapping of keys to values")

    def place(at: Path) -> str:
        moved = len(at) > 1 and at[0] == "nri" and at[1] in pasted
        return layer.place((*containerd.TABLE, *at[1:]) if moved else at)

    return Layer({**tree, "nri": {**nri, **pasted}}, place)


def _layer(path: str, reading: Reading, column: int) -> FileLayer:
    """Return the layer of a runtime's configuration. `column` is 1 for containerd's keys, 2 for iSulad's.

    Raises ConfigError if a mistake in the file loses a setting.
    """
    errors = [_error(reading, remark) for remark in reading.remarks if remark.kind not in _NOTES | _SILENT]
    if errors:
        raise combined_error(errors)
    nri = reading.nri or RuntimeNri(reading.runtime)
    keys: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, row in _FIELDS.items():
        if row[column] in nri.origin:
            value = getattr(nri, row[0])
            keys[key] = not value if key in _NEGATED else value
            places[key] = nri.origin[row[column]]
    for remark in reading.remarks:
        if remark.kind is Kind.FIXED_SOCKET:
            keys["socket_path"], places["socket_path"] = remark.details["value"], remark.where
    if nri.validator:
        keys["default_validator"] = dict(nri.validator)
    places |= {key: where for key, where in nri.origin.items() if key.startswith("default_validator.")}
    if column == 2 and "disable" not in keys:  # NRI is off by default in iSulad
        keys["disable"] = True
    notes = [_remark_note(reading, remark) for remark in reading.remarks if remark.kind in _NOTES]
    return FileLayer(Layer({"nri": keys}, lambda at: _key_place(path, places, at)), notes)


def _key_place(path: str, places: Mapping[str, str], at: Path) -> str:
    """Return the file and line that set one of the engine's keys, without the name of the other runtime's key."""
    where = places.get(".".join(map(str, at[1:])), path)
    return where.partition(": ")[0]


def _error(reading: Reading, remark: Remark) -> ConfigError:
    text = texts_of(reading.runtime, remark)
    where, _, key = remark.where.partition(": ")
    return ConfigError(where, key, text.what, text.next)


def _remark_note(reading: Reading, remark: Remark) -> str:
    text = texts_of(reading.runtime, remark)
    if remark.kind is Kind.FIXED_SOCKET:
        return f"{remark.where}: iSulad itself does not support another socket path"
    return f"{remark.where}: {text.what}" + (f" ({text.next})" if text.next else "")
