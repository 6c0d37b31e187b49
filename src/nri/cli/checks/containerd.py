"""containerd: /etc/containerd/config.toml, versions 2 and 3, and what it imports.

How files combine is held against `containerd config dump` of 1.7, 2.1 and 2.4 (tests/real/test_doctor.py): imports are
read after the file that names them, breadth first. In 2.x a later file wins key by key; in 1.7 a later file's NRI table
replaces the earlier one whole. Without a `version` line 1.7 looks for [plugins.nri], 2.x for the table of today.
"""

from __future__ import annotations

import glob
import os
import re

from nri.cli.checks import config_files
from nri.cli.checks.config_files import File, KeyPath
from nri.cli.checks.findings import Finding, RuntimeNri, inside

PATH = "/etc/containerd/config.toml"
PLUGIN = "io.containerd.nri.v1.nri"
TABLE: KeyPath = ("plugins", PLUGIN)
#: What 1.x calls it in a file without a version line.
OLD_TABLE: KeyPath = ("plugins", "nri")

#: Setting of RuntimeNri, key, type ("duration" for Go durations).
SETTINGS = (
    ("socket_path", "socket_path", str),
    ("plugin_path", "plugin_path", str),
    ("plugin_config_path", "plugin_config_path", str),
    ("registration_timeout_s", "plugin_registration_timeout", "duration"),
    ("request_timeout_s", "plugin_request_timeout", "duration"),
)
KEYS = {"disable", "disable_connections", "default_validator", *(key for _, key, _ in SETTINGS)}
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


def check(root: str, version: str, findings: list[Finding]) -> RuntimeNri | None:
    """Read containerd's configuration. `version` is containerd's own ("1.7.24"), or "" if not known."""
    main = config_files.load(root, PATH, findings)
    if main is None:
        return _without_file(version) if version or os.path.exists(inside(root, PATH)) else None
    files = _with_imports(root, main, findings)
    nri = RuntimeNri("containerd")
    old = version.startswith("1.")
    for file in files:
        table = _table_of(file, old, findings)
        _examine(file, table, findings)
        _take(nri, file, table, old, findings)
    _disabled_plugins(nri, files, findings)
    _stray_drop_ins(root, files, findings)
    if nri.enabled is None:
        nri.enabled = _default(version, main, findings)
    return nri


def _without_file(version: str) -> RuntimeNri:
    return RuntimeNri("containerd", enabled=not version.startswith("1.") if version else None)


def _with_imports(root: str, main: File, findings: list[Finding]) -> list[File]:
    """The main file and all that it imports, in the order in which containerd reads them."""
    files, seen, pending = [], set(), [main]
    while pending:
        file = pending.pop(0)
        if file.path in seen:
            continue
        seen.add(file.path)
        files.append(file)
        for entry in config_files.typed(file, ("imports",), list, findings) or ():
            pending += _imported(root, file, str(entry), findings)
    return files


def _imported(root: str, parent: File, entry: str, findings: list[Finding]) -> list[File]:
    """The files of one entry of `imports`: relative to its file; a pattern may match nothing, a name may not."""
    pattern = os.path.normpath(os.path.join(os.path.dirname(parent.path), entry))
    if "*" in pattern:
        base = root.rstrip("/")
        paths = sorted(found[len(base) :] for found in glob.glob(base + pattern))
    else:
        paths = [pattern]
        if not os.path.exists(inside(root, pattern)):
            step = "make the file, or take it out of the list: containerd does not start like this"
            findings.append(
                Finding("problem", f'the imported file "{pattern}" does not exist', parent.where("imports"), step)
            )
    return [file for path in paths if (file := config_files.load(root, path, findings))]


def _table_of(file: File, old: bool, findings: list[Finding]) -> KeyPath:
    """The table that holds NRI's settings, which depends on the version line and on containerd's own version."""
    if file.at("version") not in (None, 1):
        return TABLE
    step = (
        "write version = 2 (containerd 1.x) or version = 3 at the top; `containerd config migrate` prints a whole file"
    )
    if old and file.at(*TABLE) is not None:
        what = "without a version line containerd 1.x does not know this table"
        findings.append(Finding("problem", what, file.where(*TABLE), step))
    elif not old and file.at(*OLD_TABLE) is not None:
        what = "containerd 2.x does not know this table, 1.x does without a version line"
        findings.append(Finding("problem", what, file.where(*OLD_TABLE), step))
    return OLD_TABLE if old else TABLE


def _examine(file: File, table: KeyPath, findings: list[Finding]) -> None:
    """Keys that have no effect: misspelt, or in the wrong table."""
    effect = "containerd ignores it"
    config_files.unknown_keys(file, table, KEYS, findings, effect)
    config_files.unknown_keys(file, (*table, "default_validator"), VALIDATOR_KEYS, findings, effect)
    if file.at("version") in (None, 1):
        return  # what is elsewhere may be right for the other containerd; _table_of has said so
    config_files.misplaced(file, table, TELLING, findings)
    right = f"the table is [{config_files.toml_table(table)}]"
    for path, value in config_files.walk(file.tree):
        named_nri = path[-1] == "nri" or (path[-1] != PLUGIN and "nri.v1" in path[-1])
        if named_nri and isinstance(value, dict) and not TELLING & set(value):
            what = f'containerd has no table "{config_files.toml_table(path)}"'
            findings.append(Finding("problem", what, file.where(*path), right))


def _take(nri: RuntimeNri, file: File, table: KeyPath, old: bool, findings: list[Finding]) -> None:
    """Let the file's NRI table take effect as containerd does."""
    if not isinstance(file.at(*table), dict):
        return
    if old and nri.origin:
        _replace(nri, file, table, findings)
    for setting, key, kind in SETTINGS:
        path = (*table, key)
        wanted_text = kind is str
        value = (
            config_files.typed(file, path, str, findings)
            if wanted_text
            else config_files.duration(file, path, findings)
        )
        if value:
            setattr(nri, setting, value)
            nri.origin[key] = file.where(*path)
    for key, setting in (("disable", "enabled"), ("disable_connections", "connections")):
        switched_off = config_files.typed(file, (*table, key), bool, findings)
        if switched_off is not None:
            setattr(nri, setting, not switched_off)
            nri.origin[key] = file.where(*table, key)
    validator = (*table, "default_validator")
    if config_files.typed(file, (*validator, "enable"), bool, findings):
        nri.required = tuple(map(str, config_files.typed(file, (*validator, "required_plugins"), list, findings) or ()))
        nri.origin["required"] = file.where(*validator, "required_plugins")


def _replace(nri: RuntimeNri, file: File, table: KeyPath, findings: list[Finding]) -> None:
    """In 1.x a later file's table replaces the earlier one: forget it, and say what is lost."""
    lost = ", ".join(sorted(key for key in nri.origin if file.at(*table, key) is None))
    if lost:
        first = next(iter(nri.origin.values())).split(":")[0]
        what = f"containerd 1.x lets this table replace the one in {first}: {lost} go back to their defaults"
        findings.append(Finding("problem", what, file.where(*table), "keep the whole NRI table in one file"))
    fresh = RuntimeNri("containerd")
    for name in RuntimeNri.__slots__:
        setattr(nri, name, getattr(fresh, name))


def _disabled_plugins(nri: RuntimeNri, files: list[File], findings: list[Finding]) -> None:
    for file in files:
        listed = config_files.typed(file, ("disabled_plugins",), list, findings) or ()
        if PLUGIN in listed:
            nri.enabled = False
            nri.origin["disable"] = file.where("disabled_plugins")


def _stray_drop_ins(root: str, files: list[File], findings: list[Finding]) -> None:
    """Drop-ins that configure NRI while nothing imports them: the file looks right and has no effect."""
    read = {file.path for file in files}
    base = root.rstrip("/")
    for found in sorted(glob.glob(f"{base}/etc/containerd/conf.d/*.toml")):
        path = found[len(base) :]
        if path in read:
            continue
        stray = config_files.load(root, path, [])
        if stray is not None and stray.at(*TABLE) is not None:
            step = f'add imports = ["/etc/containerd/conf.d/*.toml"] to {PATH}'
            findings.append(Finding("problem", "it configures NRI, but nothing imports it", path, step))


def _default(version: str, main: File, findings: list[Finding]) -> bool | None:
    """Whether NRI is on when nobody says so: since 2.0; a file of version 3 is a 2.x file."""
    if version:
        return not version.startswith("1.")
    if main.at("version") == 3:
        return True
    step = f"say it: disable = false in [{config_files.toml_table(TABLE)}]"
    findings.append(
        Finding(
            "warning", "NRI is off by default in containerd 1.7, on since 2.0; this file leaves it open", PATH, step
        )
    )
    return None


def parse_version(text: str) -> str:
    """The version in the output of ``containerd --version``: "2.1.9"; "" if there is none."""
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", text.partition(" ")[2])
    return found[1] if found else ""
