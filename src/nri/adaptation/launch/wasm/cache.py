"""Compiled programs on disk, so that a runtime that starts again need not compile for seconds.

Compiled code runs in this process, so it is read only from files and folders that root and our own user alone decide
about (`nri.adaptation.launch.trusted`), as plugins are. A file is named after the program's content; wasmtime refuses
what another release or for another processor made, and then it is compiled anew. Without such a folder nothing is kept.
Next: `nri.adaptation.launch.wasm.program`.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from typing import Any

import wasmtime

from nri.adaptation.launch.trusted import TrustedFile, UntrustedError
from nri.files import write_whole

__all__ = ["compiled"]

log = logging.getLogger("nri.adaptation")

#: Programs that are kept; those that were not used for longest go.
KEPT = 16
#: Their names.
_OURS = re.compile(r"[0-9a-f]{64}\.cwasm")


def compiled(engine: Any, data: bytes, digest: bytes, folder: str | None) -> Any:
    """The module of a program, from the folder or made and kept there; None for no folder. WasmtimeError."""
    if folder is None:
        return wasmtime.Module(engine, data)
    path = os.path.join(folder, f"{digest.hex()}.cwasm")
    try:
        with TrustedFile(path) as file:
            with suppress(OSError):  # of another user, or on a disk that is only read
                os.utime(path)
            return wasmtime.Module.deserialize_file(engine, file.executable)
    except FileNotFoundError:
        pass
    except UntrustedError as error:
        log.warning("%s: compiled code is neither taken from there nor kept: %s", path, error)
        return wasmtime.Module(engine, data)
    except (OSError, wasmtime.WasmtimeError) as error:
        log.debug("%s: compiled code is not taken from there: %s", path, error)
    module = wasmtime.Module(engine, data)
    try:
        _keep(path, bytes(module.serialize()))
    except OSError as error:
        log.debug("%s: compiled code cannot be kept: %s", path, error.strerror)
    return module


def _keep(path: str, code: bytes) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, 0o700, exist_ok=True)
    write_whole(path, code)  # on the disk: wasmtime would run what a lost write leaves, its format has no checksum
    ours = [entry for entry in os.scandir(folder) if _OURS.fullmatch(entry.name)]  # the folder may hold other things
    ours.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime, reverse=True)
    for entry in ours[KEPT:]:
        os.unlink(entry.path)
