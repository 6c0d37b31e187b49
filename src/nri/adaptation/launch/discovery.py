"""Find the installed plugins of this machine: `NN-name` in the plugin folder, with their configuration.

A file that cannot be a plugin is reported and skipped (in reference mode, it fails the start of NRI). A plugin runs
with the runtime's rights, so a file that other users can change is refused (`nri.adaptation.launch.trusted`), both
during discovery and at each start.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

from nri.adaptation.launch.trusted import TrustedFile, UntrustedError, check_interpreter
from nri.adaptation.launch.wasm_file import INSTALL, is_wasm, missing
from nri.api import naming
from nri.errors import ConfigError
from nri.files import open_regular
from nri.rules import Rules

#: The longest configuration of a plugin, in bytes.
MAX_CONFIG_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PluginFile:
    """The file of a plugin that can be launched, or loaded if it is WebAssembly."""

    path: str
    index: str
    name: str
    wasm: bool = False

    @property
    def label(self) -> str:
        """``NN-name``."""
        return f"{self.index}-{self.name}"


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not launched, with the reason."""

    path: str
    reason: str


def discover(folder: str, rules: Rules = Rules.DEFAULT) -> tuple[list[PluginFile], list[SkippedFile]]:
    """The plugins of a folder in the order of their names. A missing folder has no plugins.

    Raises ConfigError for a bad name in reference mode, and for a folder that cannot be read.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise ConfigError(folder, "", f"failed to discover plugins: {error.strerror}") from None
    plugins: list[PluginFile] = []
    skipped: list[SkippedFile] = []
    for entry in entries:
        # As in the Go library, the entry itself is checked: a link always counts as executable.
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue  # removed in the meantime
        if stat.S_ISDIR(mode) or not mode & 0o111:
            continue
        reason, wasm = _examine(entry.path)
        try:
            index, name = naming.split_file_name(entry.name)
        except ValueError as error:
            if not rules.bad_files_skipped:
                raise ConfigError(folder, "", f"failed to discover plugins: {error}") from None
            skipped.append(SkippedFile(entry.path, str(error)))
            continue
        if reason and rules.bad_files_skipped:
            skipped.append(SkippedFile(entry.path, reason))
        else:
            plugins.append(PluginFile(entry.path, index, name, wasm))
    return plugins, skipped


def _examine(path: str) -> tuple[str, bool]:
    """The reason why a file with a valid name is not launched, or ""; and whether the file is WebAssembly."""
    if not _is_text(path):
        return "its name is not UTF-8 text", False  # messages cannot contain it
    if not os.path.basename(path).isprintable():
        return "its name has unprintable characters", False  # it could forge a log line
    try:
        with TrustedFile(path) as file:
            if is_wasm(file):
                return INSTALL if missing() else "", True
            check_interpreter(file)
    except UntrustedError as error:
        return str(error), False
    except OSError as error:
        return f"it cannot be examined: {error.strerror}", False
    return "", False


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(path: str) -> bytes:
    """Read a regular file. Raises OSError if it is too long or, without waiting for it, if it is not regular."""
    with open(path, "rb", opener=open_regular) as file:
        data = file.read(MAX_CONFIG_BYTES + 1)
    if len(data) > MAX_CONFIG_BYTES:
        raise OSError(errno.EFBIG, f"more than {MAX_CONFIG_BYTES >> 20} MiB")
    return data


def _read_trusted(path: str) -> bytes:
    """Read a regular file like `_read`, if only root and the runtime's user can change it."""
    try:
        with TrustedFile(path) as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except UntrustedError as error:
        if not os.path.lexists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
        raise OSError(errno.EPERM, str(error)) from None
    if len(data) > MAX_CONFIG_BYTES:
        raise OSError(errno.EFBIG, f"more than {MAX_CONFIG_BYTES >> 20} MiB")
    return data


def config_text(folder: str, index: str, name: str, *, trusted: bool = False) -> tuple[str, str | None]:
    """A plugin's drop-in configuration and its path: the first file that exists, else ("", None).

    Args:
        trusted: read only a file that only root and the runtime's user can change.

    Raises ConfigError if a file exists and cannot be read.
    """
    read = _read_trusted if trusted else _read
    for file_name in naming.config_file_names(index, name):
        path = os.path.join(folder, file_name)
        try:
            return read(path).decode(), path
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ConfigError(
                path, "", f"the configuration of plugin {index}-{name} cannot be read: {reason}"
            ) from None
    return "", None
