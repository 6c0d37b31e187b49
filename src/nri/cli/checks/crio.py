"""CRI-O: /etc/crio/crio.conf, then every file of /etc/crio/crio.conf.d by name; a later file wins key by key."""

from __future__ import annotations

import glob

from nri.cli.checks import config_files
from nri.cli.checks.config_files import File, KeyPath
from nri.cli.checks.findings import Finding, RuntimeNri

PATH = "/etc/crio/crio.conf"
DROP_INS = "/etc/crio/crio.conf.d"
TABLE: KeyPath = ("crio", "nri")

SETTINGS = (
    ("socket_path", "nri_listen", str),
    ("plugin_path", "nri_plugin_dir", str),
    ("plugin_config_path", "nri_plugin_config_dir", str),
    ("registration_timeout_s", "nri_plugin_registration_timeout", "duration"),
    ("request_timeout_s", "nri_plugin_request_timeout", "duration"),
)
VALIDATOR = "default_validator"
KEYS = {"enable_nri", "nri_disable_connections", VALIDATOR, *(key for _, key, _ in SETTINGS)}
VALIDATOR_KEYS = {
    "nri_enable_default_validator", "nri_validator_reject_oci_hook_adjustment",
    "nri_validator_reject_runtime_default_seccomp_adjustment",
    "nri_validator_reject_unconfined_seccomp_adjustment", "nri_validator_reject_custom_seccomp_adjustment",
    "nri_validator_reject_namespace_adjustment", "nri_validator_required_plugins",
    "nri_validator_tolerate_missing_plugins_annotation",
}  # fmt: skip
#: What people who know containerd's table write, and what CRI-O calls it.
FOREIGN = {
    "disable": "enable_nri (with the opposite value)", "socket_path": "nri_listen", "plugin_path": "nri_plugin_dir",
    "plugin_config_path": "nri_plugin_config_dir", "disable_connections": "nri_disable_connections",
    "plugin_registration_timeout": "nri_plugin_registration_timeout",
    "plugin_request_timeout": "nri_plugin_request_timeout",
}  # fmt: skip


def check(root: str, findings: list[Finding]) -> RuntimeNri | None:
    """Read CRI-O's configuration; None when there is none, which is to say no CRI-O."""
    base = root.rstrip("/")
    paths = [PATH, *sorted(found[len(base) :] for found in glob.glob(f"{base}{DROP_INS}/*"))]
    files = [file for path in paths if (file := config_files.load(root, path, findings))]
    if not files:
        return None
    nri = RuntimeNri("cri-o", enabled=True)
    for file in files:
        _examine(file, findings)
        _take(nri, file, findings)
    if "enable_nri" not in nri.origin:
        step = "say it: enable_nri = true in [crio.nri]"
        findings.append(
            Finding("note", "enable_nri is not set: on by default today, off in old releases", files[-1].path, step)
        )
    return nri


def _examine(file: File, findings: list[Finding]) -> None:
    """Keys that have no effect: containerd's names, misspelt ones, and those in the wrong table."""
    table = file.at(*TABLE)
    for key in table if isinstance(table, dict) else ():
        if key in FOREIGN:
            what = f'"{key}" is containerd\'s name, and CRI-O does not know it'
            findings.append(Finding("problem", what, file.where(*TABLE, key), f"write {FOREIGN[key]}"))
    config_files.unknown_keys(file, TABLE, KEYS | set(FOREIGN), findings, "CRI-O ignores it")
    config_files.unknown_keys(file, (*TABLE, VALIDATOR), VALIDATOR_KEYS, findings, "CRI-O ignores it")
    config_files.misplaced(file, TABLE, (KEYS | VALIDATOR_KEYS) - {VALIDATOR}, findings)


def _take(nri: RuntimeNri, file: File, findings: list[Finding]) -> None:
    for setting, key, kind in SETTINGS:
        path = (*TABLE, key)
        value = (
            config_files.duration(file, path, findings)
            if kind == "duration"
            else config_files.typed(file, path, str, findings)
        )
        if value:
            setattr(nri, setting, value)
            nri.origin[key] = file.where(*path)
    for key, setting, meaning in (("enable_nri", "enabled", True), ("nri_disable_connections", "connections", False)):
        given = config_files.typed(file, (*TABLE, key), bool, findings)
        if given is not None:
            setattr(nri, setting, given is meaning)
            nri.origin[key] = file.where(*TABLE, key)
    validator = (*TABLE, VALIDATOR)
    if config_files.typed(file, (*validator, "nri_enable_default_validator"), bool, findings):
        key = "nri_validator_required_plugins"
        nri.required = tuple(map(str, config_files.typed(file, (*validator, key), list, findings) or ()))
        nri.origin["required"] = file.where(*validator, key)
