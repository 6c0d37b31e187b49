"""Plugins that failed and have not taken part since: their own words, left beside the runtime's socket.

Next: `nri.stub.program.failure_note`, which leaves them there.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from nri.cli.doctor.findings import Finding
from nri.config.root import inside
from nri.stub.program.failure_note import note_path, read_notes

if TYPE_CHECKING:
    from collections.abc import Iterable


def check(root: str, sockets: Iterable[str], findings: list[Finding]) -> None:
    """Report the note of every plugin that failed, once for each folder that holds one of these sockets."""
    folders: set[str] = set()
    for socket in sockets:
        folder = inside(root, os.path.dirname(socket))
        if folder in folders:
            continue
        folders.add(folder)
        for note in read_notes(folder):
            path = note_path(socket, note.plugin)
            what = f"plugin {note.plugin} failed {_ago(time.time() - note.time_s)} (process {note.pid}): {note.error}"
            step = f"repair it and start it again, which takes this note away; if the plugin is gone: rm {path}"
            findings.append(Finding("problem", what, path, step))


def _ago(seconds: float) -> str:
    """Say how long ago something was, in its largest unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{max(0, seconds):.0f} s ago"
