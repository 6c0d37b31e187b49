"""The result of reading a runtime's configuration: its NRI settings, and remarks on mistakes in the files."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RuntimeNri:
    """A runtime's NRI settings. `enabled` is None if it depends on the release, or if the runtime does not start.

    Attributes:
        name: "containerd", "cri-o" or "isulad".
        connections: whether plugins may connect by themselves.
        registration_timeout_s: the timeout of a plugin's registration, in seconds.
        request_timeout_s: the timeout of a plugin's answer, in seconds.
        required: plugins that the default validator requires.
        validator: the default validator's table in containerd's configuration.
        origin: the location of each setting, as "file:line: key"; other settings have their default.
        path: the main file, if it is not the runtime's default file.
    """

    name: str
    enabled: bool | None = None
    connections: bool = True
    socket_path: str = "/var/run/nri/nri.sock"
    plugin_path: str = "/opt/nri/plugins"
    plugin_config_path: str = "/etc/nri/conf.d"
    registration_timeout_s: float = 5.0
    request_timeout_s: float = 2.0
    required: tuple[str, ...] = ()
    validator: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    path: str = ""


class Kind(enum.Enum):
    """The kinds of remarks. The comment after each kind lists the keys of `details`."""

    DENIED = "permission to read the file is missing"  # reason
    UNREADABLE = "the file cannot be read"  # reason
    INVALID = "the file's syntax is invalid"  # reason
    MISSING_COMMA = "the file's syntax is invalid, probably because a comma is missing"  # reason
    EQUALS_SIGN = "the file has an equals sign instead of a colon"
    EXTRA_COMMA = "the file has a comma after the last value, which its format does not allow"
    NO_TABLE = "the file is not a mapping of keys to values"
    COMMENT = "the file has a comment, which its format does not allow"
    UNKNOWN_KEY = "the runtime does not know the key"  # key, suggestion
    FOREIGN_KEY = "the key belongs to another runtime"  # key, right
    OLD_SPELLING = "the key has the spelling of old releases"  # right
    FIXED_SOCKET = "the runtime does not support another socket path"  # value
    MISPLACED = "the key is in the wrong table"  # key, table
    UNKNOWN_TABLE = "the runtime does not know the table"  # table
    UNVERSIONED = "containerd 1.x does not know the table without a version line"
    OLD_TABLE = "only containerd 1.x knows the table, and without a version line"
    WRONG_TYPE = "the value is of another type"  # type, value
    IGNORED_VALUE = "the value is of another type, and ignored"  # type, value
    SECOND_KEY = "the key is given twice, and the first value counts"  # key
    NO_DURATION = "the value is not a duration"  # reason, suggestion
    NO_SECONDS = "the value is a duration instead of a number of seconds"  # value, seconds
    MISSING_FILE = "the file does not exist"  # path
    MISSING_IMPORT = "the imported file does not exist"  # path
    BAD_PATTERN = "the pattern of imported files is malformed"  # pattern
    UNKNOWN_VERSION = "the release does not know the configuration's version"  # version, newest
    NEWER_DROP_IN = "an imported file has a higher version than the main file"  # version, main
    VERSION_CRASH = "the runtime crashes with these versions together"  # version, other
    SHORT_NAME = "the list has a plugin's short name, but the full name is required"  # name
    SHORT_TABLE = "the table has a plugin's short name, but the full name is required"  # name
    REQUIRED = "a required plugin is missing"  # name, reason
    START = "the runtime does not start with the value"  # reason
    NEVER_RUNS = "NRI is enabled but never runs"  # reason, fix
    NOT_IMPORTED = "the file is not imported"
    REPLACED = "the table replaces the entire table of an earlier file"  # first, lost
    RELEASE_DECIDES = "the release decides whether NRI is enabled"  # of containerd: off, on
    RELEASES_REFUSE = "some releases do not start"  # releases, failure
    NO_VALIDATOR = "the release has no default validator"  # releases
    OTHER_CASE = "the key has no effect in this spelling"  # key, right


class Remark(NamedTuple):
    """A remark on a configuration for its author.

    Attributes:
        where: the location: the file, or "file:line", or "file:line: key".
        details: the values, by the names in `Kind`.
    """

    kind: Kind
    where: str
    details: Mapping[str, Any] = _NOTHING

    def __str__(self) -> str:
        """The remark as one line for a log."""
        parties = ", ".join(f"{name} {value}" for name, value in self.details.items())
        return f"{self.where}: {self.kind.value}{f' ({parties})' if parties else ''}"


#: Mistakes in any file with which the runtime does not start.
FATAL = frozenset({
    Kind.UNREADABLE, Kind.INVALID, Kind.NO_TABLE, Kind.MISSING_FILE, Kind.MISSING_IMPORT, Kind.BAD_PATTERN,
    Kind.MISSING_COMMA, Kind.EQUALS_SIGN, Kind.EXTRA_COMMA, Kind.COMMENT,
    Kind.WRONG_TYPE, Kind.NO_DURATION, Kind.UNKNOWN_VERSION, Kind.NEWER_DROP_IN, Kind.VERSION_CRASH, Kind.SHORT_NAME,
    Kind.SHORT_TABLE, Kind.REQUIRED, Kind.START,
})  # fmt: skip


class Reading(NamedTuple):
    """The result of reading a runtime's configuration. `nri` is None if the runtime does not exist."""

    runtime: str
    nri: RuntimeNri | None
    remarks: list[Remark]

    @property
    def failure(self) -> Remark | None:
        """Return the first reason why the runtime does not start, or None."""
        return next((remark for remark in self.remarks if remark.kind in FATAL), None)

    @property
    def obstacle(self) -> Remark | None:
        """Return the reason why NRI is enabled but never runs, or None."""
        return next((remark for remark in self.remarks if remark.kind is Kind.NEVER_RUNS), None)


class Draft:
    """The settings of a runtime while its files are read. Settings of later files override earlier settings."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self.settings = settings
        self.origin: dict[str, str] = {}

    def put(self, setting: str, value: Any, key: str, where: str) -> None:
        """Store a setting, which has the key `key` at `where`."""
        self.settings[setting] = value
        self.origin[key] = where

    def finish(self) -> RuntimeNri:
        """Return all settings."""
        return RuntimeNri(self.name, origin=self.origin, **self.settings)
