"""Evaluate containerd's configuration: all files together, by the rules of a series of releases."""

from __future__ import annotations

import copy
import dataclasses
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nri.config.runtimes.config_file import ConfigFile
from nri.config.runtimes.containerd import glob, migration, toml_text
from nri.config.runtimes.containerd.cri import CriSettings, find_obstacle
from nri.config.runtimes.containerd.key_types import CRI, CRI_IMAGES, NRI, VALIDATOR_KEYS, plugin_types, top_types
from nri.config.runtimes.containerd.keys import (
    KeyPath,
    first_wrong,
    is_blocked,
    is_duration,
    seconds,
    spelling,
    value_at,
)
from nri.config.runtimes.containerd.plugins import OPTIONAL, PREFIX, existing, needed_by_images, short_name
from nri.config.runtimes.containerd.releases import Rules
from nri.config.runtimes.file_tree import FileTree
from nri.config.runtimes.reading import Kind, Remark, RuntimeNri
from nri.errors import ConfigError

NAME = "containerd"
PATH = "/etc/containerd/config.toml"

#: Maximum length of a socket's path: the kernel's address has 108 bytes, including the final NUL.
MAX_SOCKET_BYTES = 107
#: Maximum length of the paths of the daemon's own sockets, which containerd checks itself.
_MAX_DAEMON_SOCKET_BYTES = 104
_LOG_LEVELS = {"trace", "debug", "info", "warn", "warning", "error", "fatal", "panic"}
_LOG_FORMATS = {"", "text", "json"}
_PROXY_TYPES = {
    "snapshot": "snapshotter.v1", "content": "content.v1", "sandbox": "sandbox.controller.v1", "diff": "diff.v1",
}  # fmt: skip
_PYTHON_TYPES = {
    "bool": bool, "str": str, "int": int, "float": float, "texts": list, "table": dict, "tables": list,
    "duration": str,
}  # fmt: skip
#: Fields of `RuntimeNri` by NRI's keys. An empty string and a zero timeout mean the default of NRI's library.
SETTINGS = {
    "disable": "enabled",
    "disable_connections": "connections",
    "socket_path": "socket_path",
    "plugin_path": "plugin_path",
    "plugin_config_path": "plugin_config_path",
    "plugin_registration_timeout": "registration_timeout_s",
    "plugin_request_timeout": "request_timeout_s",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The effect of the files in a series of releases.

    Attributes:
        rules: the releases.
        files: the files that were read, in the order of precedence.
        nri: NRI's settings in force, or the release's defaults if the daemon does not start.
        failure: why the daemon does not start, or None.
        cri_obstacle: why the CRI plugin does not load, or None. Without the CRI plugin nothing calls NRI.
        disabled_plugins: the lists of all files together.
        required_plugins: the lists of all files together.
        table: NRI's table, merged from all files.
        table_name: the name of NRI's table in this series.
    """

    rules: Rules
    files: tuple[ConfigFile, ...]
    nri: RuntimeNri
    failure: Remark | None = None
    cri_obstacle: Remark | None = None
    disabled_plugins: tuple[str, ...] = ()
    required_plugins: tuple[str, ...] = ()
    table: Mapping[str, Any] = field(default_factory=dict)
    table_name: str = NRI

    @property
    def obstacle(self) -> Remark | None:
        """Return why NRI is enabled but never runs, or None."""
        return self.cri_obstacle if self.nri.enabled else None

    @property
    def nri_runs(self) -> bool:
        """Whether NRI runs and calls plugins."""
        return bool(self.nri.enabled) and self.failure is None and self.obstacle is None


def judge(tree: FileTree, rules: Rules, path: str = PATH, *, is_named: bool = False) -> Judgement:
    """Evaluate the main file at `path` and all files that it imports.

    Args:
        is_named: whether the path is on the daemon's command line, so that a missing file is an error.
    """
    config = _Config(tree, rules)
    try:
        config.load(path, is_named=is_named)
        config.check_lists()
        config.check_types()
        config.check_start(path)
        return config.judgement()
    except _Failure as failure:
        nri = config.settings() if failure.is_after_merge else RuntimeNri(NAME)
        return Judgement(
            rules,
            tuple(config.files),
            dataclasses.replace(nri, enabled=None),
            failure.remark,
            disabled_plugins=tuple(config.disabled),
            required_plugins=tuple(config.required),
            table_name=config.plugin_name(NRI),
        )


class _Failure(Exception):
    """The daemon does not start. With `is_after_merge` the files could be merged, and NRI's settings are known."""

    def __init__(self, kind: Kind, where: str, *, is_after_merge: bool = False, **details: Any) -> None:
        self.remark = Remark(kind, where, details)
        self.is_after_merge = is_after_merge


class _Import(NamedTuple):
    """A file to read, and the location of the list that names it, or "" for the main file."""

    path: str
    where: str


class _Config:
    """All files read so far, merged."""

    def __init__(self, tree: FileTree, rules: Rules) -> None:
        self.tree = tree
        self.rules = rules
        self.files: list[ConfigFile] = []
        self.version = 0 if rules.is_1 else rules.newest_version
        self.main_version = 0
        self.disabled: list[str] = []
        self.required: list[str] = []
        self.plugins: dict[str, Any] = {}
        self.top: dict[str, Any] = {"root": "/var/lib/containerd", "state": "/run/containerd"}

    # --- reading and merging ------------------------------------------------------------------------------------------

    def load(self, path: str, *, is_named: bool) -> None:
        """Read the main file and its imports, breadth first, each path once."""
        pending, loaded = [_Import(path, "")], set[str]()
        while pending:
            entry = pending.pop(0)
            if entry.path in loaded:
                continue
            loaded.add(entry.path)
            file = self._read(entry, is_required=is_named or bool(entry.where))
            if file is None:
                return
            self.files.append(file)
            self._check_file(file)
            self._merge(file)
            pending += self._imports(file)

    def _read(self, entry: _Import, *, is_required: bool) -> ConfigFile | None:
        """Read and parse a file. Returns None if it is the main file, which may be missing."""
        where, path = entry.where or entry.path, entry.path
        try:
            data = self.tree.read(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            if not is_required and isinstance(error, FileNotFoundError):
                return None
            raise _Failure(Kind.MISSING_IMPORT if entry.where else Kind.MISSING_FILE, where, path=path) from None
        except PermissionError as error:
            raise _Failure(Kind.DENIED, path, reason=f"cannot be read: {error.strerror}") from None
        except IsADirectoryError:
            raise _Failure(Kind.UNREADABLE, path, reason="is a folder") from None
        except OSError as error:
            raise _Failure(Kind.UNREADABLE, path, reason=f"cannot be read: {error.strerror}") from None
        try:
            source, content = toml_text.parse(path, data, self.rules.toml)
        except ConfigError as error:
            raise _Failure(Kind.INVALID, error.source, reason=error.reason) from None
        return ConfigFile(path, source, content or {})

    def _check_file(self, file: ConfigFile) -> None:
        """Check the types of keys outside of the plugins' tables. Each file must be correct by itself."""
        wrong = first_wrong(file.tree, top_types(self.rules.first), self.rules)
        if wrong is None and self.rules.is_1:
            plugins = spelling(file.tree, "plugins", self.rules)
            for name, table in (file.tree[plugins] if plugins else {}).items():
                wrong = wrong or first_wrong(table, {}, self.rules, (plugins or "", name))
        if wrong is not None:
            kind = _PYTHON_TYPES[wrong.type]
            raise _Failure(Kind.WRONG_TYPE, file.where(*wrong.path), type=kind, value=wrong.value)

    def _plugins_of(self, file: ConfigFile) -> dict[str, Any]:
        """Copy the plugins' tables of a file: in 2.x the tables under all spellings of the key."""
        if self.rules.is_1:
            return copy.deepcopy(self._get(file, "plugins", {}))
        tables: dict[str, Any] = {}
        for key, value in file.tree.items():
            if key.lower() == "plugins":
                _merge_tables(tables, copy.deepcopy(value))
        return tables

    def _get(self, file: ConfigFile, name: str, default: Any) -> Any:
        """Look up a key of a file's top level."""
        key = _top_spelling(file.tree, name, self.rules)
        return default if key is None else file.tree[key]

    def _key_place(self, file: ConfigFile, name: str) -> str:
        key = _top_spelling(file.tree, name, self.rules)
        return file.where(key) if key else file.path

    def _merge(self, file: ConfigFile) -> None:
        """Merge a file into the files before it."""
        version = self._get(file, "version", 0)
        plugins = self._plugins_of(file)
        disabled, required = (list(self._get(file, f"{word}_plugins", [])) for word in ("disabled", "required"))
        top = {name: copy.deepcopy(self._get(file, name, None)) for name in _MERGED_TOP_KEYS}
        if self.rules.is_1:
            self.version = version or self.version
            self.plugins |= plugins
            self.disabled += disabled
            self.required += required
        else:
            plugins, disabled, required, version = self._translate(file, version, plugins, disabled, required)
            if version > 3 and self.rules.newest_version > 3 and self._get(file, "version", 0) > 3:
                top["metrics"] = None  # version 4 has metrics in a plugin's table
            self.version = version or self.version
            _merge_tables(self.plugins, plugins)
            self.disabled += [name for name in dict.fromkeys(disabled) if name not in self.disabled]
            self.required += [name for name in dict.fromkeys(required) if name not in self.required]
        self._merge_top(top)

    def _translate(
        self, file: ConfigFile, version: int, plugins: dict[str, Any], disabled: list[str], required: list[str]
    ) -> tuple[dict[str, Any], list[str], list[str], int]:
        """Translate a file's settings to the version of the files before it, as 2.x does."""
        where = self._key_place(file, "version")
        if self.rules.refuses_newer_drop_in:
            self.main_version = self.main_version or version
            if version > self.main_version:
                raise _Failure(Kind.NEWER_DROP_IN, where, version=version, main=self.main_version)
        is_old = version < self.version if self.rules.translates == "each" else version in (0, 1)
        if not is_old:
            return plugins, disabled, required, version
        if version < 0 or self.version > self.rules.newest_version:
            raise _Failure(Kind.VERSION_CRASH, where, version=version, other=self.version)
        if version < 2 <= self.version:
            plugins = {migration.full_name(name): table for name, table in plugins.items()}
            disabled, required = ([migration.full_name(name) for name in names] for names in (disabled, required))
        if self.rules.translates == "each":
            self._move_cri_settings(plugins, file.path)
        return plugins, disabled, required, self.version

    def _move_cri_settings(self, plugins: dict[str, Any], where: str) -> None:
        try:
            migration.move_cri_settings(plugins)
        except migration.Panic:
            raise _Failure(
                Kind.START, where, reason="containerd crashes, because the CRI plugin has no table"
            ) from None

    def _merge_top(self, top: dict[str, Any]) -> None:
        """Merge the keys outside of the plugins' tables. An empty value has no effect."""
        for name, value in top.items():
            if name in ("timeouts", "proxy_plugins"):
                self.top.setdefault(name, {}).update(value or {})
            elif isinstance(value, dict):
                table = self.top.setdefault(name, {})
                for key, inner in value.items():
                    if inner:
                        table[key.lower() if not self.rules.is_1 or key.isupper() else key] = inner
            elif value:
                self.top[name] = value

    def _imports(self, file: ConfigFile) -> list[_Import]:
        """List the files that a file imports."""
        where = self._key_place(file, "imports")
        entries: list[_Import] = []
        for entry in self._get(file, "imports", []):
            path = glob.clean(posixpath.join(posixpath.dirname(file.path), glob.clean(entry)))
            if "*" not in path:
                entries.append(_Import(path, where))
                continue
            try:
                entries += [_Import(match, where) for match in glob.glob(self.tree, path)]
            except glob.BadPattern:
                raise _Failure(Kind.BAD_PATTERN, where, pattern=entry) from None
        return entries

    # --- checks of all files together ---------------------------------------------------------------------------------

    @property
    def has_short_names(self) -> bool:
        """Whether plugins have the short names of version 1."""
        return self.rules.is_1 and self.version in (0, 1)

    def plugin_name(self, uri: str) -> str:
        """Return the name of a plugin's table in this series."""
        return short_name(uri) if self.has_short_names else uri

    def check_lists(self) -> None:
        """Check the version, and the names of plugins in the lists and, in 1.7, of the tables."""
        newest = self.rules.newest_version
        if self.version > newest:
            raise _Failure(Kind.UNKNOWN_VERSION, self._last_where("version"), version=self.version, newest=newest)
        if self.has_short_names or self.version < 0:
            return
        for key, names in (("disabled_plugins", self.disabled), ("required_plugins", self.required)):
            for name in names:
                if not (_is_uri(name) if self.rules.is_1 else "." in name):
                    raise _Failure(Kind.SHORT_NAME, self._where_listed(key, name), name=name)
        for name in self.plugins if self.rules.is_1 else ():
            if not _is_uri(name):
                raise _Failure(Kind.SHORT_TABLE, self._where_table(name), name=name)

    def check_types(self) -> None:
        """Check the merged tables of the plugins that the release has, and that are not disabled."""
        if self.rules.translates == "merged" and self.version < 3:
            if self.version < 0:
                raise _Failure(Kind.VERSION_CRASH, self._last_where("version"), version=self.version, other=3)
            if CRI not in self.disabled:
                self._move_cri_settings(self.plugins, self._where_table(CRI))
        types_by_plugin = plugin_types(self.rules.first)
        if self.rules.is_1:
            migration.move_embedded_keys(self.plugins.get(self.plugin_name(CRI)), types_by_plugin[CRI], self.rules)
        for uri, types in types_by_plugin.items():
            name = self.plugin_name(uri)
            if name in self.plugins and name not in self.disabled:
                wrong = first_wrong(self.plugins[name], types, self.rules)
                is_ignored = self.rules.toml == "1.0" and wrong is not None and wrong.value == {}
                if wrong is not None and not (is_ignored and wrong.path[-1] not in _EMPTY_LISTS):
                    raise self._wrong_type(name, wrong.path, wrong.type, wrong.value)

    def _wrong_type(self, plugin: str, path: KeyPath, kind: str, value: Any) -> _Failure:
        where = self._where_key(plugin, path)
        if kind == "duration" and isinstance(value, str):
            reason = f'"{value}" is not a duration'
            return _Failure(Kind.NO_DURATION, where, reason=reason, suggestion="write a number with a unit, such as 2s")
        return _Failure(Kind.WRONG_TYPE, where, type=_PYTHON_TYPES[kind], value=value)

    def check_start(self, path: str) -> None:
        """Check the settings that `containerd config dump` does not check."""
        for place, reason in self._start_problems():
            raise _Failure(Kind.START, self._last_where(place) or path, is_after_merge=True, reason=reason)

    def _start_problems(self) -> Iterator[tuple[str, str]]:
        """Generate the reasons why the daemon stops later, each with its top-level key."""
        debug = self.top.get("debug", {})
        level, form = debug.get("level", ""), debug.get("format", "")
        if level and level.lower() not in _LOG_LEVELS:
            yield "debug", f'the log level "{level}" is unknown'
        if form not in _LOG_FORMATS:
            yield "debug", f'the log format "{form}" is unknown'
        if self.top["root"] == self.top["state"]:
            yield "root", "root and state are the same folder"
        for name in ("root", "state", "temp"):
            if is_blocked(self.tree, self.top.get(name, "/")):
                yield name, f"{self.top[name]} is not a folder"
        for timeout in self.top.get("timeouts", {}).values():
            if not is_duration(timeout):
                yield "timeouts", f'the timeout "{timeout}" is not a duration'
        yield from self._proxy_problems()
        yield from self._address_problems()
        address = self.top.get("metrics", {}).get("address", "")
        if self.rules.newest_version > 3:
            table = self.plugins.get(f"{PREFIX}server.v1.metrics", {})
            address = value_at(table, ("address",), self.rules) or address
        if address and not _is_tcp_address(address):
            yield "metrics", f'the metrics address "{address}" is not HOST:PORT'

    def _address_problems(self) -> Iterator[tuple[str, str]]:
        """Generate the reasons why the daemon cannot listen for its own clients."""
        grpc, debug = self.top.get("grpc", {}), self.top.get("debug", {})
        paths = [("grpc", grpc.get("address", "")), ("ttrpc", self.top.get("ttrpc", {}).get("address", ""))]
        paths += [
            ("debug", debug.get("address", "")),
            ("grpc", f"{grpc['address']}.ttrpc" if "address" in grpc else ""),
        ]
        for name, path in paths:
            if path and is_blocked(self.tree, posixpath.dirname(path)):
                yield name, f"a socket cannot be created at {path}"
            if len(path.encode()) > _MAX_DAEMON_SOCKET_BYTES:
                yield name, f"the socket's path {path} is longer than {_MAX_DAEMON_SOCKET_BYTES} bytes"
        if self.rules.newest_version > 3:
            return
        if "tcp_address" in grpc and not _is_tcp_address(grpc["tcp_address"]):
            yield "grpc", f'the tcp_address "{grpc["tcp_address"]}" is not HOST:PORT'
        if "tcp_tls_cert" in grpc and not self.tree.exists(grpc["tcp_tls_cert"]):
            yield "grpc", f"the certificate {grpc['tcp_tls_cert']} does not exist"

    def _proxy_problems(self) -> Iterator[tuple[str, str]]:
        """Generate the reasons why the daemon crashes at a plugin that is a separate program."""
        for name, proxy in self.top.get("proxy_plugins", {}).items():
            kind = value_at(proxy, ("type",), self.rules) or ""
            full = _PROXY_TYPES.get(kind) or next((k for k in _PROXY_TYPES.values() if kind == PREFIX + k), "")
            if not full or (full == "sandbox.controller.v1" and self.rules.is_1):
                yield "proxy_plugins", f'the proxy plugin "{name}" has the unknown type "{kind}"'
            elif f"{PREFIX}{full}.{name}" in existing(self.rules):
                yield "proxy_plugins", f'the proxy plugin "{name}" has the name of a plugin of containerd'

    # --- the judgement ------------------------------------------------------------------------------------------------

    def judgement(self) -> Judgement:
        """Evaluate a configuration with which the daemon starts to load its plugins."""
        nri = self.settings()
        obstacle = self._cri_obstacle()
        self._check_required(obstacle)
        if obstacle is None:
            self._check_stream_port()
        if nri.enabled and obstacle is None:
            self._check_paths(nri)
        return Judgement(
            self.rules,
            tuple(self.files),
            nri,
            cri_obstacle=obstacle,
            disabled_plugins=tuple(self.disabled),
            required_plugins=tuple(self.required),
            table=self.plugins.get(self.plugin_name(NRI), {}),
            table_name=self.plugin_name(NRI),
        )

    def settings(self) -> RuntimeNri:
        """Read NRI's settings from the merged table, each with the location that set it."""
        name = self.plugin_name(NRI)
        if name in self.disabled:  # containerd does not read the table then
            where = self._where_listed("disabled_plugins", name)
            return RuntimeNri(NAME, enabled=False, origin={"disable": where})
        table = self.plugins.get(name, {})
        values: dict[str, Any] = {"enabled": not self.rules.is_1}
        origin: dict[str, str] = {}
        for key, attribute in SETTINGS.items():
            value = value_at(table, (key,), self.rules)
            if value is None or not isinstance(value, (bool, str, int)):
                continue
            origin[key] = self._where_key(name, (key,))
            if key.startswith("disable"):
                values[attribute] = not value
            elif key.endswith("timeout"):
                if seconds_ := seconds(value):
                    values[attribute] = seconds_
            elif value:
                values[attribute] = value
        validator = self._validator(table, name, origin) if self.rules.has_validator else {}
        if validator.get("enable"):
            values["required"] = tuple(validator.get("required_plugins", ()))
            if "default_validator.required_plugins" in origin:
                origin["required"] = origin["default_validator.required_plugins"]
        return RuntimeNri(NAME, validator=validator, origin=origin, **values)

    def _validator(self, table: Any, name: str, origin: dict[str, str]) -> dict[str, Any]:
        """Read the keys of the default validator, and store their locations."""
        validator = value_at(table, ("default_validator",), self.rules)
        values = {key: value_at(validator, (key,), self.rules) for key in sorted(VALIDATOR_KEYS)}
        values = {key: value for key, value in values.items() if value is not None}
        for key in values:
            origin[f"default_validator.{key}"] = self._where_key(name, ("default_validator", key))
        return values

    def _cri_obstacle(self) -> Remark | None:
        settings = CriSettings(
            self.plugins,
            self.disabled,
            self.has_short_names,
            self._proxies("snapshot", "snapshotter.v1"),
            self._proxies("diff", "diff.v1"),
            has_content_proxy=bool(self._proxies("content", "content.v1")),
        )
        obstacle = find_obstacle(settings, self.rules, self.tree)
        if obstacle is None:
            return None
        if obstacle.plugin:
            where = self._where_key(obstacle.plugin, obstacle.path)
        elif not obstacle.disabled:
            where = self._last_where(obstacle.path[0])
        else:
            where = self._where_listed("disabled_plugins", obstacle.disabled)
        fix = (
            f'remove "{self._listed_name(obstacle.disabled)}" from disabled_plugins' if obstacle.disabled else "fix it"
        )
        return Remark(Kind.NEVER_RUNS, where, {"reason": obstacle.reason, "fix": fix})

    def _proxies(self, *kinds: str) -> set[str]:
        """The names of the plugins of these types that are separate programs."""
        types = {*kinds, *(PREFIX + kind for kind in kinds)}
        proxies = self.top.get("proxy_plugins", {})
        return {name for name, proxy in proxies.items() if value_at(proxy, ("type",), self.rules) in types}

    def _check_required(self, obstacle: Remark | None) -> None:
        """Check that all required plugins exist, are not disabled and load."""
        names = {short_name(uri) if self.has_short_names else uri: uri for uri in existing(self.rules)}
        for proxy in self.top.get("proxy_plugins", {}):
            names[proxy if self.has_short_names else f"{PREFIX}snapshotter.v1.{proxy}"] = ""
        for name in self.required:
            if name not in names:
                reason = "containerd has no such plugin"
            elif name in self.disabled:
                reason = "the plugin is disabled"
            elif names[name] == CRI and obstacle is not None:
                reason = f"the plugin does not load: {obstacle.details['reason']}"
            elif names[name] == CRI_IMAGES and needed_by_images(self.rules) & set(self.disabled):
                reason = "a plugin that it needs is disabled"
            elif names[name] in OPTIONAL and name not in self.plugins:
                reason = "containerd skips it on this machine"
            else:
                continue
            where = self._where_listed("required_plugins", name)
            raise _Failure(Kind.REQUIRED, where, is_after_merge=True, name=name, reason=reason)

    def _check_stream_port(self) -> None:
        """Check the port of the CRI's streams. With an invalid port the daemon stops."""
        plugin = self.plugin_name(CRI)
        port = value_at(self.plugins.get(plugin, {}), ("stream_server_port",), self.rules)
        if port is not None and not _is_port(port):
            where = self._where_key(plugin, ("stream_server_port",))
            raise _Failure(Kind.START, where, is_after_merge=True, reason=f'the stream_server_port "{port}" is unknown')

    def _check_paths(self, nri: RuntimeNri) -> None:
        """Check NRI's paths. With an invalid path the daemon stops."""
        if is_blocked(self.tree, nri.plugin_path):
            self._refuse(nri, "plugin_path", f"{nri.plugin_path} is not a folder")
        if not nri.connections:
            return
        path = nri.socket_path
        if len(path.encode()) > MAX_SOCKET_BYTES:
            reason = f"the socket's path has {len(path.encode())} bytes; the kernel accepts {MAX_SOCKET_BYTES}"
            self._refuse(nri, "socket_path", reason)
        if path.endswith("/") or is_blocked(self.tree, posixpath.dirname(path)) or self._is_full_folder(path):
            self._refuse(nri, "socket_path", f"a socket cannot be created at {path}")

    def _is_full_folder(self, path: str) -> bool:
        """Whether the path of the socket is a folder that is not empty."""
        absolute = posixpath.join("/", path)
        return self.tree.is_folder(absolute) and bool(self.tree.names(absolute))

    def _refuse(self, nri: RuntimeNri, key: str, reason: str) -> None:
        raise _Failure(Kind.START, nri.origin.get(key, f"{PATH}: {key}"), is_after_merge=True, reason=reason)

    # --- locations ----------------------------------------------------------------------------------------------------

    def _last_where(self, name: str) -> str:
        """Return the location of a top-level key in the last file that has it. Returns "" if no file has it."""
        for file in reversed(self.files):
            if _top_spelling(file.tree, name, self.rules):
                return self._key_place(file, name)
        return ""

    def _where_listed(self, key: str, name: str) -> str:
        """Return the location of a list with this plugin, in the last file that has it."""
        for file in reversed(self.files):
            names = self._get(file, key, [])
            if name in names or name in map(migration.full_name, names):
                return self._key_place(file, key)
        return self._last_where(key)

    def _listed_name(self, name: str) -> str:
        """Return a disabled plugin's name in the file's spelling."""
        names = [entry for file in self.files for entry in self._get(file, "disabled_plugins", [])]
        return next((entry for entry in names if name in (entry, migration.full_name(entry))), name)

    def _where_table(self, name: str) -> str:
        return self._where_key(name, ())

    def _where_key(self, plugin: str, path: KeyPath) -> str:
        """Return the location of a plugin's key in the last file with it, else of the table around it."""
        path = self._merged_spelling(plugin, path)
        for end in range(len(path), -1, -1):
            for file in reversed(self.files):
                if keys := self._keys_in(file, plugin, path[:end]):
                    return file.where(*keys)
        return self.files[0].path if self.files else PATH

    def _merged_spelling(self, plugin: str, path: KeyPath) -> KeyPath:
        """Return a key of the merged table in the spelling of the file whose value is used."""
        table: Any = self.plugins.get(plugin)
        keys = list(path)
        for number, name in enumerate(path):
            key = spelling(table, name, self.rules)
            if key is None:
                break
            keys[number], table = key, table[key]
        return tuple(keys)

    def _keys_in(self, file: ConfigFile, plugin: str, path: KeyPath) -> KeyPath:
        """Return the keys in the file's spelling. Returns () if the file does not have them."""
        top = _top_spelling(file.tree, "plugins", self.rules)
        tables: dict[str, Any] = file.tree[top] if top else {}
        names = (plugin,) if self.rules.is_1 else (plugin, *_old_names(tables, plugin))
        for name in names:
            if name not in tables:
                continue
            keys: list[str] = []
            table: Any = tables[name]
            for part in path:
                key = part if isinstance(table, dict) and part in table else None
                if key is None:
                    break
                keys.append(key)
                table = table[key]
            else:
                return (top or "", name, *keys)
        return ()


#: Lists without a default: the TOML library of 2.3 accepts an empty table for other values.
_EMPTY_LISTS = ("required_plugins", "unpack_config")
_MERGED_TOP_KEYS = ("root", "state", "temp", "grpc", "ttrpc", "debug", "metrics", "timeouts", "proxy_plugins")


def _old_names(tables: Mapping[str, Any], plugin: str) -> list[str]:
    """List the names that a plugin's settings may have in older files."""
    origin = CRI if plugin.startswith(f"{PREFIX}cri.v1.") else plugin
    return [name for name in tables if name != plugin and migration.full_name(name) == origin]


def _top_spelling(tree: Mapping[str, Any], name: str, rules: Rules) -> str | None:
    """Find a top-level key. Of several spellings in 2.x the last spelling is used."""
    if rules.is_1:
        return spelling(tree, name, rules)
    return next((key for key in reversed(list(tree)) if key.lower() == name), None)


def _merge_tables(tables: dict[str, Any], later: Mapping[str, Any]) -> None:
    """Merge key by key. A later value wins, even if it is empty."""
    for key, value in later.items():
        earlier = tables.get(key)
        if isinstance(earlier, dict) and isinstance(value, dict):
            _merge_tables(earlier, value)
        else:
            tables[key] = value


def _is_uri(name: str) -> bool:
    """Whether containerd 1.7 accepts a string as a plugin's full name."""
    return name.startswith(PREFIX) and name.count(".") >= 3


def _is_tcp_address(text: str) -> bool:
    """Whether a string has the form of an address to listen on."""
    _, colon, port = text.rpartition(":")
    return bool(colon) and _is_port(port)


def _is_port(text: str) -> bool:
    """Whether Go knows a port: a number, or the name of a service."""
    return text in ("", "http", "https") or (text.isdecimal() and text.isascii() and int(text) < 1 << 16)
