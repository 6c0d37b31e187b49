"""Find the plugins that are installed on this machine: `NN-name` in the plugin folder, its configuration beside.

Reads, decides, and starts nothing. A file that cannot be a plugin is reported and skipped (reference mode: it ends the
start of NRI). A plugin runs with the runtime's rights, so a file that others may write is refused, and one in a folder
that others may write. Next: `nri.adaptation.launching`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from nri.adaptation.rules import Rules
from nri.api import naming
from nri.errors import ConfigError

__all__ = ["Found", "Skipped", "config_text", "discover"]


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin that can be launched."""

    path: str
    index: str
    name: str

    @property
    def label(self) -> str:
        """``NN-name``."""
        return f"{self.index}-{self.name}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not launched, and why."""

    path: str
    reason: str


def discover(folder: str, rules: Rules = Rules.DEFAULT) -> tuple[list[Found], list[Skipped]]:
    """The plugins of a folder in order of their names. A folder that is missing has none.

    Raises ConfigError for a bad name in reference mode, and for a folder that cannot be read.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise ConfigError(folder, "", f"failed to discover plugins: {error.strerror}") from None
    found: list[Found] = []
    skipped: list[Skipped] = []
    for entry in entries:
        # Like the reference, the entry itself is looked at: a link always counts as executable.
        info = entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False) or not info.st_mode & 0o111:
            continue
        reason = _unusable(entry.path)
        try:
            index, name = naming.split_file_name(entry.name)
        except ValueError as error:
            if not rules.bad_files_skipped:
                raise ConfigError(folder, "", f"failed to discover plugins: {error}") from None
            skipped.append(Skipped(entry.path, str(error)))
            continue
        if reason and rules.bad_files_skipped:
            skipped.append(Skipped(entry.path, reason))
        else:
            found.append(Found(entry.path, index, name))
    return found, skipped


def _unusable(path: str) -> str:
    """Why a file with a good name is not launched; "" if it is."""
    if path.endswith(".wasm"):
        return "plugins in WebAssembly are not supported; run it as an external plugin"
    try:
        info = os.stat(path)
        folder = os.stat(os.path.dirname(os.path.realpath(path)))
    except OSError as error:
        return f"it cannot be looked at: {error.strerror}"
    if not stat.S_ISREG(info.st_mode):
        return "it is not a file"
    for what, mode in (("it", info.st_mode), ("its folder", folder.st_mode)):
        if mode & 0o022 and not (what == "its folder" and mode & stat.S_ISVTX):
            return f"{what} can be written by group or others (mode {stat.S_IMODE(mode):04o}); remedy: chmod go-w"
    return ""


def config_text(folder: str, index: str, name: str) -> tuple[str, str | None]:
    """A plugin's drop-in configuration and the file that it comes from: the first that exists, else ("", None).

    Raises ConfigError for a file that is there and cannot be read.
    """
    for file_name in naming.config_file_names(index, name):
        path = os.path.join(folder, file_name)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read(), path
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(
                path, "", f"the configuration of plugin {index}-{name} cannot be read: {reason}"
            ) from None
    return "", None
