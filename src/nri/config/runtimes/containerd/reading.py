"""containerd's NRI settings with remarks for users: mistakes that stop containerd, and keys without effect."""

from __future__ import annotations

import dataclasses
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from nri.config.runtimes import config_file
from nri.config.runtimes.config_file import ConfigFile, KeyPath, toml_table
from nri.config.runtimes.containerd import glob, toml_text
from nri.config.runtimes.containerd.judgement import NAME, PATH, Judgement, judge
from nri.config.runtimes.containerd.key_types import NRI, NRI_KEYS, VALIDATOR_KEYS
from nri.config.runtimes.containerd.keys import spelling
from nri.config.runtimes.containerd.releases import SERIES, rules_of
from nri.config.runtimes.file_tree import DiskTree, FileTree
from nri.config.runtimes.reading import Kind, Reading, Remark, RuntimeNri
from nri.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE: KeyPath = ("plugins", NRI)
#: The table's name in 1.7, if no file has a version.
OLD_TABLE: KeyPath = ("plugins", "nri")

#: Keys that only NRI's table has: in other tables they are misplaced.
_DISTINCTIVE_KEYS = {
    "disable_connections",
    "plugin_path",
    "plugin_config_path",
    "plugin_registration_timeout",
    "plugin_request_timeout",
}
_DROP_INS = "/etc/containerd/conf.d/*.toml"


def read(root: str = "/", release: str = "", path: str = "") -> Reading:
    """Read containerd's configuration below `root`.

    Args:
        root: the root folder.
        release: containerd's release ("1.7.24", "v2.1.5-k3s1"), or "" if it is not known. Then the remarks apply to all
            releases, or name the releases.
        path: the main file, or "" for the default.
    """
    return read_tree(DiskTree(root), release, path)


def read_tree(tree: FileTree, release: str = "", path: str = "") -> Reading:
    """Read containerd's configuration in a tree of files."""
    main = path or PATH
    if not (release or path or tree.exists(main)):
        return Reading(NAME, None, [])
    rules = rules_of(release)
    judgements = [judge(tree, series, main, is_named=bool(path)) for series in ([rules] if rules else SERIES)]
    verdict = _combine(judgements, main)
    remarks = [*verdict.remarks, *_hints(tree, verdict.base, main)]
    remarks.sort(key=lambda remark: remark.kind is Kind.RELEASES_REFUSE)
    return Reading(NAME, dataclasses.replace(verdict.nri, path=path), remarks)


class _Verdict(NamedTuple):
    """The combined judgement of several possible releases.

    Attributes:
        base: the judgement of the newest release that starts, else of the newest release.
        nri: the settings of `base`; `enabled` is None if releases differ.
        remarks: why daemons do not start, or NRI never runs.
    """

    base: Judgement
    nri: RuntimeNri
    remarks: list[Remark]


def _combine(judgements: Sequence[Judgement], path: str) -> _Verdict:
    """Combine the judgements of all possible releases. A release that does not start is probably not the node's."""
    starting = [judgement for judgement in judgements if judgement.failure is None]
    base = (starting or judgements)[-1]
    remarks: list[Remark] = []
    if not starting:
        assert base.failure is not None
        remarks.append(base.failure)
    elif len(starting) < len(judgements):
        refusing = [judgement for judgement in judgements if judgement.failure is not None]
        details = {"releases": _names(refusing), "failure": refusing[-1].failure}
        remarks.append(Remark(Kind.RELEASES_REFUSE, path, details))
    stuck = [judgement for judgement in starting if judgement.cri_obstacle is not None]
    if stuck and (len(judgements) > 1 or base.nri.enabled):
        obstacle = stuck[-1].cri_obstacle
        assert obstacle is not None
        some = {"releases": _names(stuck)} if len(stuck) < len(starting) else {}
        remarks.append(obstacle._replace(details={**obstacle.details, **some}))
    off = [judgement for judgement in starting if not judgement.nri.enabled]
    if not off or len(off) == len(starting):
        return _Verdict(base, base.nri, remarks)
    on = [judgement for judgement in starting if judgement.nri.enabled]
    remarks.append(Remark(Kind.RELEASE_DECIDES, path, {"off": _names(off), "on": _names(on)}))
    return _Verdict(base, dataclasses.replace(base.nri, enabled=None), remarks)


def _names(judgements: Sequence[Judgement]) -> str:
    """The releases of several judgements in words: "2.0 and newer", or a list."""
    series = [judgement.rules for judgement in judgements]
    if len(series) > 1 and tuple(series) == SERIES[-len(series) :]:
        return f"{series[0].first.removesuffix('.0')} and newer"
    return ", ".join(rules.name for rules in series)


def _hints(tree: FileTree, judgement: Judgement, path: str) -> list[Remark]:
    """Remark on keys that containerd ignores: misspelt keys, other tables, files that are not imported."""
    remarks: list[Remark] = []
    for file in judgement.files:
        _find_ignored(file, judgement, remarks)
    if judgement.rules.is_1:
        _find_replaced(judgement, remarks)
    if path == PATH and judgement.files:
        _find_stray_drop_ins(tree, judgement, remarks)
    return remarks


def _find_ignored(file: ConfigFile, judgement: Judgement, remarks: list[Remark]) -> None:
    """Remark on keys that have no effect."""
    rules = judgement.rules
    top = spelling(file.tree, "plugins", rules) or "plugins"
    table = (top, judgement.table_name)
    _find_unknown_keys(file, judgement, table, remarks)
    other_table = OLD_TABLE if judgement.table_name == NRI else TABLE
    has_other = isinstance(file.at(*other_table), dict)
    if has_other and (judgement.table_name != NRI or file.at("version") in (None, 0, 1)):
        remarks.append(
            Remark(Kind.OLD_TABLE if other_table is OLD_TABLE else Kind.UNVERSIONED, file.where(*other_table))
        )
        return
    if judgement.table_name != NRI:
        return
    for keys, value in file.paths():
        if keys[:2] == table:
            continue
        if keys[-1] in _DISTINCTIVE_KEYS:
            remarks.append(Remark(Kind.MISPLACED, file.where(*keys), {"key": keys[-1], "table": toml_table(TABLE)}))
        names_nri = keys[-1] == "nri" or keys[-1].endswith(".nri") or "nri.v1" in keys[-1]
        if names_nri and isinstance(value, dict) and not _DISTINCTIVE_KEYS & set(value):
            details = {"table": toml_table(keys), "right": toml_table(TABLE)}
            remarks.append(Remark(Kind.UNKNOWN_TABLE, file.where(*keys), details))


def _find_unknown_keys(file: ConfigFile, judgement: Judgement, table: KeyPath, remarks: list[Remark]) -> None:
    """Remark on keys of NRI's table that the release does not have."""
    rules = judgement.rules
    known_keys = NRI_KEYS | ({"default_validator"} if rules.has_validator else set())
    _find_unknown(file, table, known_keys, judgement, remarks)
    if rules.has_validator:
        key = spelling(file.at(*table), "default_validator", rules)
        if key:
            _find_unknown(file, (*table, key), VALIDATOR_KEYS, judgement, remarks)


def _find_unknown(
    file: ConfigFile, table: KeyPath, known_keys: frozenset[str] | set[str], judgement: Judgement, remarks: list[Remark]
) -> None:
    keys = file.at(*table)
    for key in keys if isinstance(keys, dict) else ():
        if spelling(keys, key.lower(), judgement.rules) == key and key.lower() in known_keys:
            continue
        if key == "default_validator":
            remarks.append(Remark(Kind.NO_VALIDATOR, file.where(*table, key), {"releases": judgement.rules.name}))
        elif key.lower() not in known_keys:
            config_file.remark_unknown(file, (*table, key), known_keys, remarks)
        else:
            remarks.append(Remark(Kind.OTHER_CASE, file.where(*table, key), {"key": key, "right": key.lower()}))


def _find_replaced(judgement: Judgement, remarks: list[Remark]) -> None:
    """Remark on settings that are lost because a later file's NRI table replaces an earlier table, as in 1.7."""
    table = ("plugins", judgement.table_name)
    first: ConfigFile | None = None
    keys: set[str] = set()
    for file in judgement.files:
        later = file.at(*table)
        if not isinstance(later, dict):
            continue
        lost = sorted(key for key in keys - set(later) if key in NRI_KEYS)
        if first is not None and lost:
            details = {"first": first.path, "lost": ", ".join(lost)}
            remarks.append(Remark(Kind.REPLACED, file.where(*table), details))
        first, keys = file, set(later)


def _find_stray_drop_ins(tree: FileTree, judgement: Judgement, remarks: list[Remark]) -> None:
    """Remark on drop-ins that configure NRI but are not imported: they look right and have no effect."""
    read_paths = {file.path for file in judgement.files}
    for path in glob.glob(tree, _DROP_INS):
        if posixpath.normpath(path) in read_paths:
            continue
        try:
            source, content = toml_text.parse(path, tree.read(path), judgement.rules.toml)
        except (OSError, ConfigError):
            continue
        if ConfigFile(path, source, content or {}).at(*TABLE) is not None:
            remarks.append(Remark(Kind.NOT_IMPORTED, path))
