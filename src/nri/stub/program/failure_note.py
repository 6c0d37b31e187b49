"""Notes with the reason why a plugin failed, for `nri doctor`: a plugin that a runtime launched has no stderr.

A note is a file in a folder next to the runtime's socket. The plugin removes it once it takes part again.
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

#: Longer error texts are cut.
MAX_ERROR_CHARS = 2000
_MAX_NOTE_BYTES = 1 << 16


class FailureNote(NamedTuple):
    """The reason why a plugin failed.

    Attributes:
        plugin: the plugin's ``NN-name``.
        error: type and text of the exception, or the program's last error line.
        time_s: the time of the failure, in seconds since the epoch.
        pid: the plugin's process id, in its own pid namespace.
    """

    plugin: str
    error: str
    time_s: float
    pid: int


def note_path(socket_path: str, plugin: str) -> str:
    """The path of a plugin's note."""
    return os.path.join(os.path.dirname(socket_path), FAILED_DIR, plugin)


def write_note(socket_path: str, plugin: str, error: str) -> None:
    """Write a plugin's note, or replace it. Errors are ignored."""
    path = note_path(socket_path, plugin)
    text = json.dumps({"error": error[:MAX_ERROR_CHARS], "time": time.time(), "pid": os.getpid()}, ensure_ascii=False)
    try:
        with suppress(FileExistsError):
            os.mkdir(
                os.path.dirname(path), 0o755
            )  # its parents are not created: without them, the runtime has no socket
        write_whole(path, text.encode("utf-8", "surrogateescape"), 0o644, sync=False)
    except OSError:
        return


def remove_note(socket_path: str, plugin: str) -> None:
    """Remove a plugin's note if it exists."""
    with suppress(OSError):
        os.unlink(note_path(socket_path, plugin))


def read_notes(folder: str) -> list[FailureNote]:
    """All notes in the folder of a socket, by the plugins' names."""
    notes = []
    try:
        names = sorted(os.listdir(os.path.join(folder, FAILED_DIR)))
    except OSError:
        return []
    for name in names:
        if name.startswith("."):
            continue  # a temporary file
        try:
            content = parse_json(read_regular(os.path.join(folder, FAILED_DIR, name), _MAX_NOTE_BYTES))
            notes.append(FailureNote(name, str(content["error"]), float(content["time"]), int(content["pid"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return notes
