"""The NRI settings of iSulad: /etc/isulad/daemon.json.

Published samples have comments, missing commas and an equals sign. Such mistakes are repaired, so that the settings can
be read, and reported as remarks with their lines.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from nri.config.complaint import suggest
from nri.config.duration import parse_duration
from nri.config.runtimes import config_file
from nri.config.runtimes.config_file import ConfigFile, KeyPath, Setting
from nri.config.runtimes.file_tree import DiskTree, FileTree
from nri.config.runtimes.reading import Draft, Kind, Reading, Remark
from nri.config.runtimes.runtime import Runtime
from nri.config.source import Source
from nri.config.syntax import parse_json, parse_text
from nri.errors import ConfigError

NAME = "isulad"
PATH = "/etc/isulad/daemon.json"

#: A quoted string, or a comment up to the end of its line.
_PARTS = re.compile(r'("(?:[^"\\\n]|\\.)*")|(?:#|//)[^\n]*')
_MAX_MISTAKES = 100
#: The key that enables CRI v1; the older CRI of iSulad has no NRI events.
_CRI_KEY = "enable-cri-v1"
#: Mistakes with which iSulad ignores the entire file.
NO_JSON = {Kind.INVALID, Kind.MISSING_COMMA, Kind.EQUALS_SIGN, Kind.EXTRA_COMMA}


def read(root: str = "/", path: str = PATH) -> Reading:
    """Read iSulad's configuration below `root`. Without a readable file, iSulad counts as not installed."""
    return read_tree(DiskTree(root), path)


def read_tree(tree: FileTree, path: str = PATH) -> Reading:
    """Read iSulad's configuration in a tree of files."""
    remarks: list[Remark] = []
    file = _load(tree, path, remarks)
    if file is None:
        return Reading(NAME, None, remarks)
    broken = any(remark.kind in NO_JSON for remark in remarks)
    for key in file.tree:
        _examine(file, key, remarks)
    _find_nested(file, remarks)
    draft = Draft(NAME, enabled=False)
    for setting in SETTINGS:
        spelt = setting.key if setting.key in file.tree else setting.key.replace("-", "_")
        value = setting.read(file, (spelt,), remarks)
        if value is not None:
            draft.put(setting.field, value, setting.key, file.where(spelt))
    is_cri_on = config_file.switch(file, (_CRI_KEY,), remarks)
    if draft.settings["enabled"] and not is_cri_on:
        details = {"reason": f'"{_CRI_KEY}" is {"false" if is_cri_on is False else "not set, and off by default"}'}
        remarks.append(Remark(Kind.NEVER_RUNS, file.where(*((_CRI_KEY,) if is_cri_on is False else ())), details))
    return Reading(NAME, None if broken else draft.finish(), remarks)


def _load(tree: FileTree, path: str, remarks: list[Remark]) -> ConfigFile | None:
    """Read the file, repair its mistakes, and remark on them."""
    source = config_file.read_source(tree, path, remarks, "json")
    if source is None:
        return None
    try:
        content, plain, mistakes = parse(source)
    except ConfigError as error:
        remarks.append(Remark(Kind.INVALID, error.source, {"reason": error.reason}))
        return None
    remarks += mistakes
    return ConfigFile(path, plain, content if isinstance(content, dict) else {})


def parse(source: Source) -> tuple[Any, Source, list[Remark]]:
    """Return the values, the repaired text, and remarks on mistakes. Raises ConfigError if it cannot be repaired."""
    remarks = [
        Remark(Kind.COMMENT, f"{source.name}:{source.text.count(chr(10), 0, match.start()) + 1}")
        for match in _PARTS.finditer(source.text)
        if not match[1]
    ]
    text = _PARTS.sub(lambda match: match[1] or "", source.text)
    for _ in range(_MAX_MISTAKES):
        try:
            parse_json(text)
        except json.JSONDecodeError as error:
            repair = _repaired_text(text, error)
            if repair is None:
                break
            line, column = text.count("\n", 0, repair.at) + 1, repair.at - text.rfind("\n", 0, repair.at)
            reason = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]} in column {column}"
            remarks.append(Remark(repair.kind, f"{source.name}:{line}", {"reason": reason}))
            text = repair.text
        except ValueError:
            break  # the parser's own error is better
        else:
            break
    plain = Source(source.name, text, "json")
    return parse_text(plain), plain, remarks


class _Repair(NamedTuple):
    """A text without its first mistake, with the kind and the position of the mistake."""

    text: str
    kind: Kind
    at: int


def _repaired_text(text: str, error: json.JSONDecodeError) -> _Repair | None:
    """The text without its first mistake. Returns None if the mistake cannot be repaired."""
    before, after = text[: error.pos], text[error.pos :]
    if "',' delimiter" in error.msg and after[:1] == '"':
        repaired = f"{before.rstrip()},{before[len(before.rstrip()) :]}{after}"
        return _Repair(repaired, Kind.MISSING_COMMA, error.pos)
    if "':' delimiter" in error.msg and after[:1] == "=":
        return _Repair(f"{before}:{after[1:]}", Kind.EQUALS_SIGN, error.pos)
    extra = re.search(r",(\s*)$", before if after[:1] in "}]" else before + after[:1])
    if extra and re.match(r",?\s*[}\]]", after):
        end = extra.start()  # the position is at the comma or behind it, depending on the version of Python
        return _Repair(f"{text[:end]} {text[end + 1 :]}", Kind.EXTRA_COMMA, end)
    return None


def _examine(file: ConfigFile, key: str, remarks: list[Remark]) -> None:
    """Remark on a top-level key that looks like a key of NRI."""
    dashed = key.replace("_", "-")
    if key == "socket_path":
        remarks.append(Remark(Kind.FIXED_SOCKET, file.where(key), {"value": file.tree[key]}))
    elif dashed in KEYS and key not in KEYS:
        remarks.append(Remark(Kind.OLD_SPELLING, file.where(key), {"right": dashed}))
    elif re.search(r"(?i)nri|^plugin|disable.*conn", key) and key not in KEYS:
        details = {"key": key, "suggestion": suggest(key, KEYS)}
        remarks.append(Remark(Kind.UNKNOWN_KEY, file.where(key), details))


def _find_nested(file: ConfigFile, remarks: list[Remark]) -> None:
    """Remark on NRI's keys below the top level, where they have no effect."""
    for path, _ in file.paths():
        if len(path) > 1 and path[-1].replace("_", "-") in KEYS:
            remarks.append(Remark(Kind.MISPLACED, file.where(*path), {"key": path[-1], "table": ""}))


def _seconds(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> float | None:
    """Return a timeout in whole seconds; zero means the default. A Go duration is converted, with a remark."""
    value = file.at(*keys)
    if not isinstance(value, str):
        return config_file.typed(file, keys, int, remarks) or None
    try:
        seconds = parse_duration(value)
    except ValueError:
        config_file.typed(file, keys, int, remarks)
        return None
    remarks.append(Remark(Kind.NO_SECONDS, file.where(*keys), {"value": value, "seconds": seconds}))
    return seconds


#: The current keys; with underscores they are the old spelling.
SETTINGS = (
    Setting("enabled", "nri-support", config_file.switch),
    Setting("connections", "disable-connections", config_file.off_switch),
    Setting("plugin_config_path", "plugin-config-path", config_file.text),
    Setting("plugin_path", "plugin-path", config_file.text),
    Setting("registration_timeout_s", "plugin-registration-timeout", _seconds),
    Setting("request_timeout_s", "plugin-request-timeout", _seconds),
)
KEYS = {setting.key for setting in SETTINGS}

RUNTIME = Runtime(
    name=NAME,
    title="iSulad",
    path=PATH,
    read=lambda tree, release, path: read_tree(tree),  # noqa: ARG005 - its rules do not depend on a release
    # iSulad does not support another socket path; users would look for it under this key.
    keys={setting.field: setting.key for setting in SETTINGS} | {"socket_path": "socket_path"},
    enabled_value=True,
    switch_on='set "nri-support": true and restart isulad',
    allow_connections='set "disable-connections": false',
    program="isulad",
    cri_sockets=("/run/isulad.sock", "/var/run/isulad.sock"),
    requires_plugin_config=True,
)
