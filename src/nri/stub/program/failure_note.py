"""A file that says why a plugin failed, for `nri doctor`: a plugin that the runtime starts has no stderr to say it on.

One job: write, find and remove these notes. They lie beside the runtime's socket, one for each plugin, and the plugin
itself takes its own away as soon as it takes part. Rules: a note is written where the runtime's folder is there already
and may be written to, else not; nothing raises. Loaded when a plugin has failed. Next: `nri.cli.doctor.plugins`.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import NamedTuple

from nri.api.naming import FAILED_DIR
from nri.config.syntax import parse_json
from nri.files import read_regular, write_whole

__all__ = ["FailureNote", "note_path", "read_notes", "remove_note", "write_note"]

#: No error's text in a note is longer, in characters.
LONGEST = 2000
_MOST_BYTES = 1 << 16


class FailureNote(NamedTuple):
    """The reason why a plugin failed.

    Attributes:
        plugin: its ``NN-name``.
        error: type and text of the exception, or the line that the program ended with.
        time_s: when that was, in seconds since the epoch.
        pid: its process, as it was called where it ran.
    """

    plugin: str
    error: str
    time_s: float
    pid: int


def note_path(socket_path: str, plugin: str) -> str:
    """The place of a plugin's note."""
    return os.path.join(os.path.dirname(socket_path), FAILED_DIR, plugin)


def write_note(socket_path: str, plugin: str, error: str) -> None:
    """Write why a plugin has failed, over what it wrote before."""
    path = note_path(socket_path, plugin)
    text = json.dumps({"error": error[:LONGEST], "time": time.time(), "pid": os.getpid()}, ensure_ascii=False)
    try:
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o755)  # not what is above it: no runtime has its socket there
        write_whole(path, text.encode("utf-8", "surrogateescape"), 0o644, sync=False)
    except OSError:
        return


def remove_note(socket_path: str, plugin: str) -> None:
    """Take a plugin's note away, if there is one: it takes part again."""
    with suppress(OSError):
        os.unlink(note_path(socket_path, plugin))


def read_notes(folder: str) -> list[FailureNote]:
    """All notes in the folder of a socket, by the plugins' names."""
    found = []
    try:
        names = sorted(os.listdir(os.path.join(folder, FAILED_DIR)))
    except OSError:
        return []
    for name in names:
        if name.startswith("."):
            continue  # half written
        try:
            told = parse_json(read_regular(os.path.join(folder, FAILED_DIR, name), _MOST_BYTES))
            found.append(FailureNote(name, str(told["error"]), float(told["time"]), int(told["pid"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
