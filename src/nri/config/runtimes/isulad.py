"""The NRI settings of iSulad: /etc/isulad/daemon.json, as iSulad 2.1.6 reads it.

iSulad does not start with a `#` comment or any other mistake of JSON, nor with a number that is not whole. It accepts
`//` and `/* */`, takes the first of two equal keys, and ignores values of another type and the old spelling of keys.

Published samples have comments, missing commas and an equals sign. Such mistakes are repaired, so that the settings can
be read, and reported as remarks with their lines. Our engine reads such files, too.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, NamedTuple

from nri.config.complaint import suggest
from nri.config.duration import parse_duration
from nri.config.runtimes import config_file
from nri.config.runtimes.config_file import ConfigFile, KeyPath, Setting
from nri.config.runtimes.file_tree import DiskTree, FileTree
from nri.config.runtimes.reading import Draft, Kind, Reading, Remark
from nri.config.runtimes.runtime import ManagedFile, Runtime
from nri.config.source import Source
from nri.config.syntax import DUPLICATE, parse_json, parse_text
from nri.errors import ConfigError

NAME = "isulad"
PATH = "/etc/isulad/daemon.json"

#: A quoted string, a comment that iSulad accepts, or a comment that it does not accept.
_PARTS = re.compile(r'("(?:[^"\\\n]|\\.)*")|(//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)|#[^\n]*')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: The largest number that iSulad can read.
_MAX_NUMBER = (1 << 64) - 1
_MAX_MISTAKES = 100
#: The key that enables CRI v1; the older CRI of iSulad has no NRI events.
_CRI_KEY = "enable-cri-v1"
#: Mistakes after which the values of a file are not known.
NO_JSON = {Kind.INVALID, Kind.MISSING_COMMA, Kind.EQUALS_SIGN, Kind.EXTRA_COMMA}


def read(root: str = "/", path: str = PATH, *, lenient: bool = False) -> Reading:
    """Read iSulad's configuration below `root`. Without a readable file, iSulad counts as not installed.

    Args:
        lenient: whether the old spelling of keys, and durations such as "5s", have an effect, as for our engine.
    """
    return read_tree(DiskTree(root), path, lenient=lenient)


def read_tree(tree: FileTree, path: str = PATH, *, lenient: bool = False) -> Reading:
    """Read iSulad's configuration in a tree of files."""
    remarks: list[Remark] = []
    file = _load(tree, path, remarks, lenient=lenient)
    if file is None:
        return Reading(NAME, None, remarks)
    broken = any(remark.kind in NO_JSON for remark in remarks)
    for key in file.tree:
        _examine(file, key, remarks)
    _find_nested(file, remarks)
    draft = Draft(NAME, enabled=False)
    for setting in SETTINGS:
        is_old = lenient and setting.key not in file.tree
        spelt = setting.key.replace("-", "_") if is_old else setting.key
        if isinstance(file.at(spelt), str) and not lenient and setting.read is _seconds:
            _seconds(file, (spelt,), remarks)
            continue
        value = setting.read(file, (spelt,), remarks)
        if value is not None:
            draft.put(setting.field, value, setting.key, file.where(spelt))
    is_cri_on = config_file.switch(file, (_CRI_KEY,), remarks)
    if draft.settings["enabled"] and not is_cri_on:
        details = {"reason": f'"{_CRI_KEY}" is {"false" if is_cri_on is False else "not set, and off by default"}'}
        remarks.append(Remark(Kind.NEVER_RUNS, file.where(*((_CRI_KEY,) if is_cri_on is False else ())), details))
    remarks = [_ignored(remark) for remark in remarks]
    reading = Reading(NAME, None if broken else draft.finish(), remarks)
    if reading.failure is not None and reading.nri is not None and not lenient:
        return reading._replace(nri=dataclasses.replace(reading.nri, enabled=None))
    return reading


def _ignored(remark: Remark) -> Remark:
    """Return the remark on a value that iSulad ignores; it stops only at numbers that are not whole or too large."""
    value = remark.details.get("value")
    is_fatal = remark.details.get("type") is int and type(value) in (float, int)
    return remark if remark.kind is not Kind.WRONG_TYPE or is_fatal else remark._replace(kind=Kind.IGNORED_VALUE)


def _load(tree: FileTree, path: str, remarks: list[Remark], *, lenient: bool) -> ConfigFile | None:
    """Read the file, repair its mistakes, and remark on them."""
    source = config_file.read_source(tree, path, remarks, "json")
    if source is None:
        return None
    mark = not lenient and tree.read(path).startswith(_BYTE_ORDER_MARK)
    if mark or not source.text.strip():
        reason = "begins with a byte order mark" if mark else "the file is empty"
        remarks.append(Remark(Kind.INVALID, path, {"reason": reason}))
        return None
    try:
        content, plain, mistakes = parse(source)
    except ConfigError as error:
        if error.reason != DUPLICATE or lenient:
            remarks.append(Remark(Kind.INVALID, error.source, {"reason": error.reason}))
            return None
        remarks.append(Remark(Kind.SECOND_KEY, error.source, {"key": error.key}))
        plain = Source(path, _without_comments(source.text), "json")
        content, mistakes = parse_json(plain.text, object_pairs_hook=lambda pairs: dict(reversed(pairs))), []
    remarks += mistakes
    return ConfigFile(path, plain, content if isinstance(content, dict) else {})


def _without_comments(text: str) -> str:
    """Remove comments, but keep the lines."""
    return _PARTS.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)


def parse(source: Source) -> tuple[Any, Source, list[Remark]]:
    """Return the values, the repaired text, and remarks on mistakes. Raises ConfigError if it cannot be repaired."""
    remarks = [
        Remark(Kind.COMMENT, f"{source.name}:{source.text.count(chr(10), 0, match.start()) + 1}")
        for match in _PARTS.finditer(source.text)
        if not (match[1] or match[2])
    ]
    text = _without_comments(source.text)
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
    if type(value) is int and value > _MAX_NUMBER:
        remarks.append(Remark(Kind.WRONG_TYPE, file.where(*keys), {"type": int, "value": value}))
        return None
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
    switch_on='set "nri-support": true and restart isulad, or nri config-manager',
    allow_connections='set "disable-connections": false',
    program="isulad",
    packages=("iSulad", "isulad"),
    installed_paths=(PATH, "/usr/bin/isulad"),
    unit="isulad.service",
    cri_sockets=("/run/isulad.sock", "/var/run/isulad.sock"),
    requires_plugin_config=True,
    managed_file=ManagedFile(
        PATH,
        lambda tree, release, path: (),  # noqa: ARG005
        "{}\n",
        is_operators=True,
        format="json",
        defaults={_CRI_KEY: True},
        whole_seconds=True,
        is_fixed=True,
        caution="iSulad 2.1.6 ends when the kubelet updates a container's resources while NRI is on",
    ),
)
