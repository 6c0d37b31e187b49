"""The NRI settings of containerd: /etc/containerd/config.toml, versions 2 and 3, and the files that it imports.

How files combine is held against `containerd config dump` of 1.7, 2.1 and 2.4 (tests/real/test_doctor.py): imports are
read after the file that names them, breadth first. In 2.x a later file wins key by key; in 1.7 a later file's NRI table
replaces the earlier one whole. Without a `version` line 1.7 looks for [plugins.nri], 2.x for the table of today. Next:
`nri.config.runtimes.config_file`, which reads its keys.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from nri.config.root import inside
from nri.config.runtimes import config_file
from nri.config.runtimes.config_file import ConfigFile, KeyPath, Setting, toml_table
from nri.config.runtimes.reading import Draft, Kind, Reading, Remark, RuntimeNri
from nri.config.runtimes.runtime import ManagedFile, Runtime
from nri.errors import ConfigError

NAME = "containerd"
PATH = "/etc/containerd/config.toml"
PLUGIN = "io.containerd.nri.v1.nri"
TABLE: KeyPath = ("plugins", PLUGIN)
#: The table's name in 1.x, in a file without a version line.
OLD_TABLE: KeyPath = ("plugins", "nri")

SETTINGS = (
    Setting("socket_path", "socket_path", config_file.text),
    Setting("plugin_path", "plugin_path", config_file.text),
    Setting("plugin_config_path", "plugin_config_path", config_file.text),
    Setting("registration_timeout_s", "plugin_registration_timeout", config_file.duration),
    Setting("request_timeout_s", "plugin_request_timeout", config_file.duration),
    Setting("enabled", "disable", config_file.off_switch),
    Setting("connections", "disable_connections", config_file.off_switch),
)
KEYS = {"default_validator", *(setting.key for setting in SETTINGS)}
VALIDATOR_KEYS = {
    "enable", "reject_oci_hook_adjustment", "reject_runtime_default_seccomp_adjustment",
    "reject_unconfined_seccomp_adjustment",
    "reject_custom_seccomp_adjustment", "reject_namespace_adjustment", "reject_sysctl_adjustment", "required_plugins",
    "tolerate_missing_plugins_annotation",
}  # fmt: skip
#: Keys that no other plugin of containerd has: found elsewhere, they were meant for NRI.
TELLING = {
    "disable_connections",
    "plugin_path",
    "plugin_config_path",
    "plugin_registration_timeout",
    "plugin_request_timeout",
}


def read(root: str = "/", version: str = "", path: str = "") -> Reading:
    """Read containerd's configuration below `root`.

    `version` is containerd's own ("1.7.24"), or "" if it is not known: releases differ in defaults and in how files
    combine.
    """
    remarks: list[Remark] = []
    path = path or PATH
    main = config_file.load(root, path, remarks)
    if main is None:
        there = version or os.path.exists(inside(root, path))
        return Reading(NAME, RuntimeNri(NAME, enabled=on_by_default(version)) if there else None, remarks)
    files = _with_imports(root, main, remarks)
    draft = Draft(NAME)
    old, said = version.startswith("1."), False
    for file in files:
        table = _table_of(file, old, remarks)
        _find_ignored(file, table, remarks)
        _take(draft, file, table, old, remarks)
        said = said or file.at(*table, "disable") is not None
    _take_disabled_plugins(draft, files, remarks)
    if path == PATH:
        _find_stray_drop_ins(root, files, remarks)
    if "enabled" not in draft.settings:
        is_2 = not version and main.at("version") == 3  # a file of version 3 is a 2.x file
        draft.settings["enabled"] = enabled = is_2 or on_by_default(version)
        if enabled is None and not said:  # what was said and is wrong has a remark already
            remarks.append(Remark(Kind.RELEASE_DECIDES, path))
    return Reading(NAME, draft.finish(), remarks)


def on_by_default(version: str) -> bool | None:
    """Whether NRI is on in a release of containerd without a word about it: since 2.0. None if it is not known."""
    return not version.startswith("1.") if version else None


def parse_version(output: str) -> str:
    """Find the version in the output of ``containerd --version``: "2.1.9"; "" if there is none."""
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", output.partition(" ")[2])
    return found[1] if found else ""


def _with_imports(root: str, main: ConfigFile, remarks: list[Remark]) -> list[ConfigFile]:
    """Load the files that the main file imports; returns all in the order in which containerd reads them."""
    found, seen, pending = [], set(), [main]
    while pending:
        file = pending.pop(0)
        if file.path in seen:
            continue
        seen.add(file.path)
        found.append(file)
        for entry in config_file.texts(file, ("imports",), remarks):
            pending += _imported(root, file, entry, remarks)
    return found


def _imported(root: str, parent: ConfigFile, entry: str, remarks: list[Remark]) -> list[ConfigFile]:
    """Load the files of one entry of `imports`: relative to its file; a pattern may match nothing, a name may not."""
    pattern = os.path.normpath(os.path.join(os.path.dirname(parent.path), entry))
    if "*" in pattern:
        base = root.rstrip("/")
        paths = sorted(found[len(base) :] for found in glob.glob(base + pattern))
    else:
        paths = [pattern]
        if not os.path.exists(inside(root, pattern)):
            remarks.append(Remark(Kind.MISSING_IMPORT, parent.where("imports"), {"path": pattern}))
    return [file for path in paths if (file := config_file.load(root, path, remarks))]


def _table_of(file: ConfigFile, old: bool, remarks: list[Remark]) -> KeyPath:
    """Return the table that holds NRI's settings, which depends on the version line and on containerd's release."""
    if file.at("version") not in (None, 1):
        return TABLE
    if old and file.at(*TABLE) is not None:
        remarks.append(Remark(Kind.UNVERSIONED, file.where(*TABLE)))
    elif not old and file.at(*OLD_TABLE) is not None:
        remarks.append(Remark(Kind.OLD_TABLE, file.where(*OLD_TABLE)))
    return OLD_TABLE if old else TABLE


def _find_ignored(file: ConfigFile, table: KeyPath, remarks: list[Remark]) -> None:
    """Remark on keys that have no effect: misspelt, or in the wrong table."""
    config_file.ignored_keys(file, table, KEYS, remarks)
    config_file.ignored_keys(file, (*table, "default_validator"), VALIDATOR_KEYS, remarks)
    if file.at("version") in (None, 1):
        return  # what is elsewhere may be right for the other release; _table_of has remarked on it
    config_file.misplaced_keys(file, table, TELLING, remarks)
    for path, value in file.paths():
        named_nri = path[-1] == "nri" or (path[-1] != PLUGIN and "nri.v1" in path[-1])
        if named_nri and isinstance(value, dict) and not TELLING & set(value):
            details = {"table": toml_table(path), "right": toml_table(table)}
            remarks.append(Remark(Kind.UNKNOWN_TABLE, file.where(*path), details))


def _take(draft: Draft, file: ConfigFile, table: KeyPath, old: bool, remarks: list[Remark]) -> None:
    """Let the file's NRI table take effect as containerd does."""
    if not isinstance(file.at(*table), dict):
        return
    if old and draft.origin:
        _replace(draft, file, table, remarks)
    config_file.take(draft, file, table, SETTINGS, remarks)
    validator = (*table, "default_validator")
    found = file.at(*validator)
    for key, value in found.items() if isinstance(found, dict) else ():
        draft.put_validator(key, value, file.where(*validator, key))
    if config_file.switch(file, (*validator, "enable"), remarks):
        path = (*validator, "required_plugins")
        draft.put("required", config_file.texts(file, path, remarks), "required", file.where(*path))


def _replace(draft: Draft, file: ConfigFile, table: KeyPath, remarks: list[Remark]) -> None:
    """Forget the settings of earlier files, as 1.x does at a later file's table, and remark on those that are lost."""
    lost = sorted(key for key in draft.origin if file.at(*table, key) is None)
    if lost:
        first = next(iter(draft.origin.values())).split(":")[0]
        details = {"first": first, "lost": ", ".join(lost)}
        remarks.append(Remark(Kind.REPLACED, file.where(*table), details))
    draft.forget()


def _take_disabled_plugins(draft: Draft, files: list[ConfigFile], remarks: list[Remark]) -> None:
    """Let `disabled_plugins` take effect, which comes before the plugin's own table."""
    for file in files:
        if PLUGIN in config_file.texts(file, ("disabled_plugins",), remarks):
            draft.put("enabled", False, "disable", file.where("disabled_plugins"))


def _find_stray_drop_ins(root: str, files: list[ConfigFile], remarks: list[Remark]) -> None:
    """Remark on drop-ins that configure NRI while nothing imports them: they look right and have no effect."""
    known = {file.path for file in files}
    base = root.rstrip("/")
    for found in sorted(glob.glob(f"{base}/etc/containerd/conf.d/*.toml")):
        path = found[len(base) :]
        if path in known:
            continue
        stray = config_file.load(root, path, [])
        if stray is not None and stray.at(*TABLE) is not None:
            remarks.append(Remark(Kind.NOT_IMPORTED, path))


def _managed_table(tree: Any, release: str, path: str) -> KeyPath:
    """NRI's table in a file that config-manager changes. Raises ConfigError if it cannot be known."""
    version = tree.get("version", 1) if isinstance(tree, dict) else 1
    if version not in (1, 2, 3) or type(version) is not int:
        raise ConfigError(path, "version", f"containerd does not know the version {version!r}", "write 2 or 3")
    if version != 1:
        return TABLE
    if not release:
        reason = "must be 2 or 3: without it containerd's release decides, and the release is not known"
        raise ConfigError(path, "version", reason, "add 'version = 2' as its first line if it is for that version")
    return OLD_TABLE if release.startswith("1.") else TABLE


RUNTIME = Runtime(
    name=NAME,
    title="containerd",
    path=PATH,
    read=read,
    keys={setting.field: setting.key for setting in SETTINGS},
    enabled_value=False,
    switch_on=f'set disable = false in [plugins."{PLUGIN}"] and restart containerd, or nri config-manager',
    allow_connections="set disable_connections = false",
    program="containerd",
    installed_paths=(PATH, "/usr/bin/containerd"),
    unit="containerd.service",
    release=parse_version,
    cri_sockets=("/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock"),
    managed_file=ManagedFile(PATH, _managed_table, "version = 2\n", is_operators=True),
)
