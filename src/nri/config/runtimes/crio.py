"""CRI-O: /etc/crio/crio.conf, then every file of /etc/crio/crio.conf.d by name; a later file wins key by key."""

from __future__ import annotations

import glob

from nri.config.runtimes import config_file
from nri.config.runtimes.config_file import ConfigFile, KeyPath, Setting
from nri.config.runtimes.reading import Draft, Kind, Reading, Remark

NAME = "cri-o"
PATH = "/etc/crio/crio.conf"
DROP_INS = "/etc/crio/crio.conf.d"
TABLE: KeyPath = ("crio", "nri")

SETTINGS = (
    Setting("socket_path", "nri_listen", config_file.text),
    Setting("plugin_path", "nri_plugin_dir", config_file.text),
    Setting("plugin_config_path", "nri_plugin_config_dir", config_file.text),
    Setting("registration_timeout_s", "nri_plugin_registration_timeout", config_file.duration),
    Setting("request_timeout_s", "nri_plugin_request_timeout", config_file.duration),
    Setting("enabled", "enable_nri", config_file.switch),
    Setting("connections", "nri_disable_connections", config_file.off_switch),
)
VALIDATOR = "default_validator"
KEYS = {VALIDATOR, *(setting.key for setting in SETTINGS)}
VALIDATOR_KEYS = {
    "nri_enable_default_validator", "nri_validator_reject_oci_hook_adjustment",
    "nri_validator_reject_runtime_default_seccomp_adjustment",
    "nri_validator_reject_unconfined_seccomp_adjustment", "nri_validator_reject_custom_seccomp_adjustment",
    "nri_validator_reject_namespace_adjustment", "nri_validator_required_plugins",
    "nri_validator_tolerate_missing_plugins_annotation",
}  # fmt: skip
#: The keys of containerd's table, which people know, and their names in CRI-O.
FOREIGN = {
    "disable": "enable_nri (with the opposite value)", "socket_path": "nri_listen", "plugin_path": "nri_plugin_dir",
    "plugin_config_path": "nri_plugin_config_dir", "disable_connections": "nri_disable_connections",
    "plugin_registration_timeout": "nri_plugin_registration_timeout",
    "plugin_request_timeout": "nri_plugin_request_timeout",
}  # fmt: skip


def read(root: str = "/") -> Reading:
    """Read CRI-O's configuration below `root`. No file at all means that there is no CRI-O."""
    remarks: list[Remark] = []
    base = root.rstrip("/")
    paths = [PATH, *sorted(found[len(base) :] for found in glob.glob(f"{base}{DROP_INS}/*"))]
    files = [file for path in paths if (file := config_file.load(root, path, remarks))]
    if not files:
        return Reading(NAME, None, remarks)
    draft = Draft(NAME, enabled=True)
    for file in files:
        _find_ignored(file, remarks)
        _take(draft, file, remarks)
    if "enable_nri" not in draft.origin:
        remarks.append(Remark(Kind.RELEASE_DECIDES, files[-1].path))
    return Reading(NAME, draft.finish(), remarks)


def _find_ignored(file: ConfigFile, remarks: list[Remark]) -> None:
    """Remark on keys that have no effect: containerd's names, misspelt ones, and those in the wrong table."""
    table = file.at(*TABLE)
    remarks += [
        Remark(Kind.FOREIGN_KEY, file.where(*TABLE, key), {"key": key, "right": FOREIGN[key]})
        for key in (table if isinstance(table, dict) else ())
        if key in FOREIGN
    ]
    config_file.ignored_keys(file, TABLE, KEYS | set(FOREIGN), remarks)
    config_file.ignored_keys(file, (*TABLE, VALIDATOR), VALIDATOR_KEYS, remarks)
    config_file.misplaced_keys(file, TABLE, (KEYS | VALIDATOR_KEYS) - {VALIDATOR}, remarks)


def _take(draft: Draft, file: ConfigFile, remarks: list[Remark]) -> None:
    """Let the file's NRI table take effect."""
    config_file.take(draft, file, TABLE, SETTINGS, remarks)
    validator = (*TABLE, VALIDATOR)
    if config_file.switch(file, (*validator, "nri_enable_default_validator"), remarks):
        path = (*validator, "nri_validator_required_plugins")
        draft.put("required", config_file.texts(file, path, remarks), "required", file.where(*path))
