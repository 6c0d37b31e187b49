"""The NRI settings of iSulad: /etc/isulad/daemon.json.

Published samples of it hold comments, missing commas and an equals sign, so the file is read tolerantly, with a remark
on each thing that iSulad would stumble over. Both spellings are known. Next: `nri.config.runtimes.lenient_json`.
"""

from __future__ import annotations

import re

from nri.config.complaint import suggest
from nri.config.duration import parse_duration
from nri.config.runtimes import config_file, lenient_json
from nri.config.runtimes.config_file import ConfigFile, KeyPath, Setting
from nri.config.runtimes.reading import Draft, Kind, Reading, Remark
from nri.errors import ConfigError

NAME = "isulad"
PATH = "/etc/isulad/daemon.json"

#: Mistakes with which iSulad reads nothing of the file.
NO_JSON = {Kind.INVALID, Kind.MISSING_COMMA, Kind.EQUALS_SIGN, Kind.EXTRA_COMMA}


def read(root: str = "/", path: str = PATH) -> Reading:
    """Read iSulad's configuration below `root`. No file, or one that iSulad cannot read, means that there is none."""
    remarks: list[Remark] = []
    file = _load(root, path, remarks)
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
    return Reading(NAME, None if broken else draft.finish(), remarks)


def _load(root: str, path: str, remarks: list[Remark]) -> ConfigFile | None:
    """Read the file, its mistakes mended and remarked on."""
    source = config_file.read_source(root, path, remarks, "json")
    if source is None:
        return None
    try:
        tree, plain, found = lenient_json.parse(source)
    except ConfigError as error:
        remarks.append(Remark(Kind.INVALID, error.source, {"reason": error.reason}))
        return None
    remarks += found
    return ConfigFile(path, plain, tree if isinstance(tree, dict) else {})


def _examine(file: ConfigFile, key: str, remarks: list[Remark]) -> None:
    """Remark on a key of the top level that was meant for NRI but is none of its keys."""
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
    """Return a timeout in whole seconds; zero is the default. A Go duration is a mistake, but understood."""
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


#: The keys as shipped; with underscores they are an old spelling.
SETTINGS = (
    Setting("enabled", "nri-support", config_file.switch),
    Setting("connections", "disable-connections", config_file.off_switch),
    Setting("plugin_config_path", "plugin-config-path", config_file.text),
    Setting("plugin_path", "plugin-path", config_file.text),
    Setting("registration_timeout_s", "plugin-registration-timeout", _seconds),
    Setting("request_timeout_s", "plugin-request-timeout", _seconds),
)
KEYS = {setting.key for setting in SETTINGS}
