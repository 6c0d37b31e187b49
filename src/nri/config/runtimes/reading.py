"""The values that reading a runtime's configuration gives: its NRI settings, and remarks on mistakes in the files."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["FATAL", "Draft", "Kind", "Reading", "Remark", "RuntimeNri"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RuntimeNri:
    """A runtime's NRI as configured. `enabled` None: it depends on the release, or the runtime does not start.

    Attributes:
        name: "containerd", "cri-o" or "isulad".
        connections: plugins may connect by themselves.
        registration_timeout_s: how long a plugin may take to register, in seconds.
        request_timeout_s: how long a plugin may take to answer, in seconds.
        required: plugins that the default validator wants to be there.
        validator: containerd's table of the default validator, as it is there.
        origin: where each setting was made, as "file:line: key"; a setting that is not here has its default.
        path: the main file, if it is not in the runtime's usual place.
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
    """The things that a remark can be about; behind each the `details` that it has."""

    DENIED = "the file may not be read"  # reason
    UNREADABLE = "the file cannot be read"  # reason
    INVALID = "the file is not in its format"  # reason
    MISSING_COMMA = "the file is not in its format, as if a comma were missing"  # reason
    EQUALS_SIGN = "an equals sign in a format that has a colon there"
    EXTRA_COMMA = "a comma after the last value, in a format that has none there"
    NO_TABLE = "the file is not a mapping of keys"
    COMMENT = "a comment in a format that has none"
    UNKNOWN_KEY = "the runtime does not know the key"  # key, suggestion
    FOREIGN_KEY = "the key is another runtime's"  # key, right
    OLD_SPELLING = "the key is spelt as in old releases"  # right
    FIXED_SOCKET = "the runtime takes no other socket path"  # value
    MISPLACED = "the key is in the wrong table"  # key, table
    UNKNOWN_TABLE = "the runtime does not know the table"  # table
    UNVERSIONED = "without a version line containerd 1.x does not know the table"
    OLD_TABLE = "only containerd 1.x knows the table, and without a version line"
    WRONG_TYPE = "the value is of another type"  # type, value
    NO_DURATION = "the value is not a duration"  # reason, suggestion
    NO_SECONDS = "the value is a duration where a number of seconds is wanted"  # value, seconds
    MISSING_FILE = "the file does not exist"  # path
    MISSING_IMPORT = "the imported file does not exist"  # path
    BAD_PATTERN = "the pattern of imported files is malformed"  # pattern
    UNKNOWN_VERSION = "the release does not know the configuration's version"  # version, newest
    NEWER_DROP_IN = "an imported file has a higher version than the main file"  # version, main
    VERSION_CRASH = "the runtime crashes at these versions together"  # version, other
    SHORT_NAME = "the list has a plugin's short name where a full one is required"  # name
    SHORT_TABLE = "the table has a plugin's short name where a full one is required"  # name
    REQUIRED = "a required plugin is missing"  # name, reason
    START = "the runtime does not start with the value"  # reason
    NEVER_RUNS = "NRI is on and never runs"  # reason, fix
    NOT_IMPORTED = "nothing imports the file"
    REPLACED = "the table replaces that of an earlier file as a whole"  # first, lost
    RELEASE_DECIDES = "releases differ in whether NRI is on"  # of containerd: off, on
    RELEASES_REFUSE = "some releases do not start"  # releases, failure
    NO_VALIDATOR = "the release has no default validator"  # releases
    OTHER_CASE = "the key does not count in this case"  # key, right


class Remark(NamedTuple):
    """One thing about a configuration that its author should know.

    Attributes:
        where: the file, or "file:line", or "file:line: key".
        details: the parties, by the names that `Kind` has for them.
    """

    kind: Kind
    where: str
    details: Mapping[str, Any] = _NOTHING

    def __str__(self) -> str:
        """The remark as one line for a log."""
        parties = ", ".join(f"{name} {value}" for name, value in self.details.items())
        return f"{self.where}: {self.kind.value}{f' ({parties})' if parties else ''}"


#: Mistakes with which the runtime does not start, in whichever of its files they are.
FATAL = frozenset({
    Kind.UNREADABLE, Kind.INVALID, Kind.NO_TABLE, Kind.MISSING_FILE, Kind.MISSING_IMPORT, Kind.BAD_PATTERN,
    Kind.WRONG_TYPE, Kind.NO_DURATION, Kind.UNKNOWN_VERSION, Kind.NEWER_DROP_IN, Kind.VERSION_CRASH, Kind.SHORT_NAME,
    Kind.SHORT_TABLE, Kind.REQUIRED, Kind.START,
})  # fmt: skip


class Reading(NamedTuple):
    """The outcome of reading one runtime's configuration; `nri` None means that the runtime does not exist."""

    runtime: str
    nri: RuntimeNri | None
    remarks: list[Remark]

    @property
    def failure(self) -> Remark | None:
        """Return the first reason for which the runtime does not start, or None."""
        return next((remark for remark in self.remarks if remark.kind in FATAL), None)

    @property
    def obstacle(self) -> Remark | None:
        """Return the reason for which NRI is on and never runs, or None."""
        return next((remark for remark in self.remarks if remark.kind is Kind.NEVER_RUNS), None)


class Draft:
    """The settings of one runtime while its files are read, those of later files over those of earlier ones."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self.settings = settings
        self.origin: dict[str, str] = {}

    def put(self, setting: str, value: Any, key: str, where: str) -> None:
        """Let a setting take effect that was made under `key` at `where`."""
        self.settings[setting] = value
        self.origin[key] = where

    def put_validator(self, key: str, value: Any, where: str) -> None:
        """Let a key of the default validator's table take effect."""
        self.settings["validator"] = {**self.settings.get("validator", {}), key: value}
        self.origin[f"default_validator.{key}"] = where

    def forget(self) -> None:
        """Go back to the defaults, as if no file had been read yet."""
        self.settings.clear()
        self.origin.clear()

    def finish(self) -> RuntimeNri:
        """Make the value of all settings."""
        return RuntimeNri(self.name, origin=self.origin, **self.settings)
