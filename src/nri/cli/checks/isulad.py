"""iSulad: /etc/isulad/daemon.json.

Published samples of it hold comments and missing commas, so the file is read tolerantly, and what iSulad would stumble
over is named with its line. Both spellings of keys are known.
"""

from __future__ import annotations

import re

from nri.cli.checks import config_files
from nri.cli.checks.config_files import File
from nri.cli.checks.findings import Finding, RuntimeNri, inside
from nri.config import Source, parse_duration, parse_text, read_file
from nri.config.complaint import suggest
from nri.errors import ConfigError

PATH = "/etc/isulad/daemon.json"

#: Key as shipped, setting of RuntimeNri, kind.
SETTINGS = (
    ("nri-support", "enabled", bool),
    ("disable-connections", "connections", bool),
    ("plugin-config-path", "plugin_config_path", str),
    ("plugin-path", "plugin_path", str),
    ("plugin-registration-timeout", "registration_timeout_s", int),
    ("plugin-request-timeout", "request_timeout_s", int),
)
KEYS = {key for key, _, _ in SETTINGS}


def check(root: str, findings: list[Finding]) -> RuntimeNri | None:
    """Read iSulad's configuration; None when there is none, which is to say no iSulad."""
    file = _load(root, findings)
    if file is None:
        return None
    nri = RuntimeNri("isulad", enabled=False)
    for key in file.tree:
        _examine(file, key, findings)
    _nested(file, findings)
    for key, setting, kind in SETTINGS:
        spelt = key if key in file.tree else key.replace("-", "_")
        value = _value(file, spelt, kind, findings)
        if value is not None:
            setattr(nri, setting, not value if setting == "connections" else value)
            nri.origin[key] = file.where(spelt)
    return nri


def _load(root: str, findings: list[Finding]) -> File | None:
    """The file, read again without comments when it is no JSON as it stands."""
    try:
        source = read_file(inside(root, PATH), "json")
    except ConfigError as error:
        if "No such file" not in error.reason:
            findings.append(Finding("problem", error.reason, PATH))
        return None
    named = Source(PATH, source.text, "json")
    for line, text in enumerate(source.text.splitlines(), 1):
        if re.match(r"\s*(#|//)", text):
            step = "take the comment out"
            findings.append(Finding("problem", "a comment, which JSON does not have", f"{PATH}:{line}", step))
    plain = Source(PATH, re.sub(r"(?m)^\s*(#|//).*$", "", named.text), "json")
    try:
        tree = parse_text(plain)
    except ConfigError as error:
        step = "look at the end of the line before: is a comma missing?" if "',' delimiter" in error.reason else ""
        findings.append(Finding("problem", error.reason, error.source, step))
        return None
    return File(PATH, plain, tree if isinstance(tree, dict) else {})


def _examine(file: File, key: str, findings: list[Finding]) -> None:
    """A key of the top level that was meant for NRI but is none of its keys."""
    if key == "socket_path":
        step = "take it out; the socket is /var/run/nri/nri.sock"
        findings.append(Finding("problem", "iSulad takes no other socket path", file.where(key), step))
    elif key.replace("_", "-") in KEYS and key not in KEYS:
        step = f'write "{key.replace("_", "-")}"'
        findings.append(Finding("warning", "an old spelling of the key", file.where(key), step))
    elif re.search(r"(?i)nri|^plugin|disable.*conn", key) and key not in KEYS:
        what = f'unknown key "{key}"; iSulad ignores it'
        findings.append(Finding("problem", what, file.where(key), suggest(key, KEYS)))


def _nested(file: File, findings: list[Finding]) -> None:
    for path, _ in config_files.walk(file.tree):
        if len(path) > 1 and path[-1].replace("_", "-") in KEYS:
            step = "move it to the top level of the file"
            findings.append(
                Finding("problem", f'"{path[-1]}" is at the wrong level and has no effect', file.where(*path), step)
            )


def _value(file: File, key: str, kind: type, findings: list[Finding]) -> object:
    """A key's value; timeouts are whole seconds, zero is the default. Go durations are a mistake we understand."""
    value = file.at(key)
    if kind is not int or not isinstance(value, str):
        given = config_files.typed(file, (key,), kind, findings)
        return given if kind is bool else given or None
    try:
        seconds = parse_duration(value)
    except ValueError:
        return config_files.typed(file, (key,), kind, findings)
    findings.append(
        Finding("problem", f'must be a whole number of seconds, not "{value}"', file.where(key), f"write {seconds:.0f}")
    )
    return seconds
