"""Files of other programs on the machine, written whole or not at all.

Rules: a reader sees the old text or the new one, never half of it; nothing outside of the folder is met, whatever
links are in it; a write that changes nothing is none. Next: :mod:`nri.agent.transports.standalone.terway`.
"""

from __future__ import annotations

import contextlib
import os

from nri.host import Outcome, Result, Root
from nri.host.outcome import explain

__all__ = ["remove", "replace"]

_FOLDER = os.O_PATH | os.O_DIRECTORY


def replace(root: Root, folder: str, name: str, text: str) -> Result:
    """Put a file with this text into a folder that is there, in one step.

    Args:
        root: the machine.
        folder: its path.
        name: of the file.
        text: all of it.
    """
    path = f"{folder}/{name}"
    if root.find(path) == text:
        return Result(path, "file", len(text), Outcome.UNCHANGED)
    try:
        parent = root.open(folder, _FOLDER)
    except OSError as error:
        return Result(path, "file", len(text), *explain(error))
    hidden = f".{name}.nri"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden, dir_fd=parent)
        made = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=parent)
        with os.fdopen(made, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(hidden, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(hidden, dir_fd=parent)
        return Result(path, "file", len(text), *explain(error))
    finally:
        os.close(parent)
    return Result(path, "file", len(text), Outcome.APPLIED)


def remove(root: Root, folder: str, name: str) -> Result:
    """Take a file away; unchanged if it is not there."""
    path = f"{folder}/{name}"
    try:
        parent = root.open(folder, _FOLDER)
    except OSError:
        return Result(path, "file", "none", Outcome.UNCHANGED)
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return Result(path, "file", "none", Outcome.UNCHANGED)
    except OSError as error:
        return Result(path, "file", "none", *explain(error))
    finally:
        os.close(parent)
    return Result(path, "file", "none", Outcome.APPLIED)
