"""The NRI settings of CRI-O: /etc/crio/crio.conf, then all files below crio.conf.d. Later files win, key by key.

The rules are those of CRI-O 1.37. Drop-ins are read in the order of a walk through the folder, including folders below
it and names that begin with a dot. Keys may be in any case. Durations are strings or whole nanoseconds. An empty or
zero value restores the default, even if an earlier file has another value. With a value of another type in any table,
CRI-O does not start. The keys of the default validator override earlier files one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.config.duration import parse_duration
from nri.config.runtimes import config_file
from nri.config.runtimes.config_file import ConfigFile, KeyPath, Setting
from nri.config.runtimes.crio_key_types import KEY_TYPES
from nri.config.runtimes.file_tree import DiskTree
from nri.config.runtimes.reading import Draft, Kind, Reading, Remark, RuntimeNri
from nri.config.runtimes.runtime import ManagedFile, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.config.runtimes.file_tree import FileTree

NAME = "cri-o"
PATH = "/etc/crio/crio.conf"
DROP_INS = "/etc/crio/crio.conf.d"
TABLE: KeyPath = ("crio", "nri")

_DEFAULTS = RuntimeNri(NAME)


def _text(default: str) -> Callable[[ConfigFile, KeyPath, list[Remark]], str | None]:
    """A reader of strings in which an empty string means the default."""

    def read(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> str | None:
        value: str | None = config_file.typed(file, keys, str, remarks)
        return default if value == "" else value

    return read


def _duration(default_s: float) -> Callable[[ConfigFile, KeyPath, list[Remark]], float | None]:
    """A reader of durations, in seconds, in which zero means the default."""

    def read(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> float | None:
        value = file.at(*keys)
        if type(value) is int:
            return value / 1e9 or default_s
        text: str | None = config_file.typed(file, keys, str, remarks)
        if text is None:
            return None
        try:
            return parse_duration(text) or default_s
        except ValueError as error:
            remarks.append(config_file.duration_remark(file, keys, error))
            return None

    return read


SETTINGS = (
    Setting("socket_path", "nri_listen", _text(_DEFAULTS.socket_path)),
    Setting("plugin_path", "nri_plugin_dir", _text(_DEFAULTS.plugin_path)),
    Setting("plugin_config_path", "nri_plugin_config_dir", _text(_DEFAULTS.plugin_config_path)),
    Setting("registration_timeout_s", "nri_plugin_registration_timeout", _duration(_DEFAULTS.registration_timeout_s)),
    Setting("request_timeout_s", "nri_plugin_request_timeout", _duration(_DEFAULTS.request_timeout_s)),
    Setting("enabled", "enable_nri", config_file.switch),
    Setting("connections", "nri_disable_connections", config_file.off_switch),
)
VALIDATOR = "default_validator"
_SWITCH = "nri_enable_default_validator"
_REQUIRED = "nri_validator_required_plugins"
KEYS = {VALIDATOR, *(setting.key for setting in SETTINGS)}
VALIDATOR_KEYS = {
    "nri_enable_default_validator", "nri_validator_reject_oci_hook_adjustment",
    "nri_validator_reject_runtime_default_seccomp_adjustment",
    "nri_validator_reject_unconfined_seccomp_adjustment", "nri_validator_reject_custom_seccomp_adjustment",
    "nri_validator_reject_namespace_adjustment", "nri_validator_required_plugins",
    "nri_validator_tolerate_missing_plugins_annotation",
}  # fmt: skip
#: Keys of containerd's table that users may write, and their names in CRI-O.
FOREIGN = {
    "disable": "enable_nri (with the opposite value)", "socket_path": "nri_listen", "plugin_path": "nri_plugin_dir",
    "plugin_config_path": "nri_plugin_config_dir", "disable_connections": "nri_disable_connections",
    "plugin_registration_timeout": "nri_plugin_registration_timeout",
    "plugin_request_timeout": "nri_plugin_request_timeout",
}  # fmt: skip


def read(root: str = "/") -> Reading:
    """Read CRI-O's configuration below `root`. Without a file, CRI-O counts as not installed."""
    return read_tree(DiskTree(root))


def read_tree(tree: FileTree) -> Reading:
    """Read CRI-O's configuration in a tree of files."""
    remarks: list[Remark] = []
    paths = [PATH, *_walk(tree, DROP_INS, remarks)]
    files = [config_file.lower_case_keys(file) for path in paths if (file := config_file.load(tree, path, remarks))]
    if not files:
        return Reading(NAME, None, remarks)
    draft = Draft(NAME, enabled=True)
    for file in files:
        _find_ignored(file, remarks)
        _find_wrong_types(file, remarks)
        config_file.apply_settings(draft, file, TABLE, SETTINGS, remarks)
    _take_validator(draft, files)
    if all(file.at(*TABLE, "enable_nri") is None for file in files):
        remarks.append(Remark(Kind.RELEASE_DECIDES, files[-1].path))
    return Reading(NAME, draft.finish(), remarks)


def _walk(tree: FileTree, folder: str, remarks: list[Remark]) -> Iterator[str]:
    """Find all files of a folder in the order of Go's `filepath.Walk`, without following links."""
    try:
        names = sorted(tree.names(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        kind = Kind.DENIED if isinstance(error, PermissionError) else Kind.UNREADABLE
        remarks.append(Remark(kind, folder, {"reason": f"cannot be read: {error.strerror}"}))
        return
    for name in names:
        path = f"{folder}/{name}"
        if tree.is_folder(path) and not tree.is_link(path):
            yield from _walk(tree, path, remarks)
        else:
            yield path


def _find_ignored(file: ConfigFile, remarks: list[Remark]) -> None:
    """Remark on keys without effect: containerd's names, misspelt keys, and keys in the wrong table."""
    table = file.at(*TABLE)
    remarks += [
        Remark(Kind.FOREIGN_KEY, file.where(*TABLE, key), {"key": key, "right": FOREIGN[key]})
        for key in (table if isinstance(table, dict) else ())
        if key in FOREIGN
    ]
    config_file.ignored_keys(file, TABLE, KEYS | set(FOREIGN), remarks)
    config_file.ignored_keys(file, (*TABLE, VALIDATOR), VALIDATOR_KEYS, remarks)
    config_file.misplaced_keys(file, TABLE, (KEYS | VALIDATOR_KEYS) - {VALIDATOR}, remarks)


def _find_wrong_types(file: ConfigFile, remarks: list[Remark]) -> None:
    """Remark on values of another type outside of NRI's settings, which have readers."""
    for path, value in file.paths():
        is_named = path[:2] == ("crio", "runtime") and path[2:3] in (("runtimes",), ("workloads",)) and len(path) > 3
        types = _TYPES.get(KEY_TYPES.get((*path[:3], "*", *path[4:]) if is_named else path, ""))
        if is_named and len(path) == 4:
            types = (dict,)
        if types is None or (types == (dict,) and value == [] and path[2:] == ("runtimes",)):
            continue  # CRI-O's decoder of the runtimes accepts an empty list
        is_list = types == (list,) and type(value) is list
        is_too_large = type(value) is int and not -(2**63) <= value < 2**63
        if type(value) not in types or is_too_large or (is_list and not all(type(text) is str for text in value)):
            remarks.append(Remark(Kind.WRONG_TYPE, file.where(*path), {"type": types[0], "value": value}))


#: Python's types of each type of `KEY_TYPES`.
_TYPES: dict[str, tuple[type, ...]] = {
    "table": (dict,), "str": (str,), "bool": (bool,), "int": (int,), "texts": (list,), "duration": (str, int),
}  # fmt: skip


def _take_validator(draft: Draft, files: list[ConfigFile]) -> None:
    """Add the required plugins: for each key of the validator, the last file is used."""
    validator = (*TABLE, VALIDATOR)
    values = {}
    for file in files:
        for key in (_SWITCH, _REQUIRED):
            if file.at(*validator, key) is not None:
                values[key] = (file, file.at(*validator, key))
    if _REQUIRED in values and values.get(_SWITCH, (None, False))[1] is True:
        file, plugins = values[_REQUIRED]
        if isinstance(plugins, list):
            draft.put("required", tuple(map(str, plugins)), "required", file.where(*validator, _REQUIRED))


RUNTIME = Runtime(
    name=NAME,
    title="CRI-O",
    path=PATH,
    read=lambda tree, release, path: read_tree(tree),  # noqa: ARG005 - its rules are the same in all releases with NRI
    keys={setting.field: setting.key for setting in SETTINGS},
    enabled_value=True,
    switch_on="set enable_nri = true in [crio.nri] and restart crio, or nri config-manager",
    allow_connections="set nri_disable_connections = false",
    program="crio",
    packages=("cri-o", "crio"),
    installed_paths=(PATH, DROP_INS),
    unit="crio.service",
    cri_sockets=("/run/crio/crio.sock",),
    managed_file=ManagedFile(
        f"{DROP_INS}/10-enable-nri.conf",
        lambda tree, release, path: TABLE,  # noqa: ARG005
        is_fixed=True,
    ),
)
