"""One WebAssembly file, compiled and looked at: what it needs from its host, and what it has to have for one.

The ABI is that of go-plugin, in which the reference's plugins are made: a function ``plugin_<method>`` for each method
takes a request's place and length in the plugin's memory and returns the reply's, and ``malloc`` and ``free`` give
and take back the room for them. A plugin may import WASI preview 1 and the function ``log`` of module ``env``. Each
program has an engine of its own, because to interrupt a function is to interrupt all of an engine.

Compiled code is kept on disk, so that a runtime that starts again need not compile for seconds. It runs in this
process, so it is read only from files and folders that root and our own user alone decide about
(`nri.adaptation.launch.trusted`), as plugins are. A file is named after the program's content; wasmtime refuses code
of another release or for another processor, and then it is compiled again.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import wasmtime

from nri.adaptation.launch.trusted import TrustedFile, UntrustedError
from nri.adaptation.launch.wasm import host
from nri.adaptation.launch.wasm_file import MAGIC
from nri.api.events import EVENTS
from nri.errors import ConfigError
from nri.files import write_whole
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MEMORY_BYTES", "TABLES", "TABLE_ELEMENTS", "Program", "digest_of"]

log = logging.getLogger("nri.adaptation")

#: How much memory a plugin may have, in bytes.
MEMORY_BYTES = 256 << 20
#: How many tables, and how many functions or references in each (8 bytes); the Go compiler makes one of some 10,000.
TABLES, TABLE_ELEMENTS = 8, 1 << 20

_METHODS = ("synchronize", "shutdown", "state_change", *(spec.method for spec in EVENTS))
#: The functions that a plugin exports, with what they take and return.
_SIGNATURES = {
    "malloc": "i32 -> i32",
    "free": "i32 ->",
    "plugin_api_version": "-> i64",
    **{f"plugin_{method}": "i32 i32 -> i64" for method in ("configure", *_METHODS)},
    "_initialize": "->",
}
#: Those that a plugin for an older or a smaller API may lack; the reference wants all but the last of the table.
_OPTIONAL = frozenset(f"plugin_{method}" for method in _METHODS)
#: Features of WebAssembly that a plugin cannot use; see `_config`.
_REFUSED = ("stack_switching", "exceptions", "gc", "function_references")
#: In a file: the section of types, a function's, and i32 to f64, funcref and externref.
_TYPE_SECTION, _FUNCTION_TYPE, _PLAIN_TYPES = 1, 0x60, b"\x7f\x7e\x7d\x7c\x70\x6f"
#: Compiled programs that are kept; those that were not used for longest go.
KEPT = 16
#: Their names.
_OURS = re.compile(r"[0-9a-f]{64}\.cwasm")
#: Names of missing imports or exports in one report.
_NAMED = 8


class Program:
    """A compiled file.

    Attributes:
        digest: of the file's content.
        engine, module: what wasmtime knows it by.
        names: what it exports.
    """

    def __init__(self, path: str, data: bytes, *, cache: str | None = None, all_events: bool = False) -> None:
        """Compile a file. Takes seconds for a plugin in Go; other threads run meanwhile.

        Args:
            path: for errors.
            cache: the folder in which compiled code is kept; None for none.
            all_events: it must have the functions of all events, as the reference wants.

        Raises:
            ConfigError: it is no WebAssembly, needs what it cannot be given, or lacks what it must have.
        """
        self.digest = digest_of(data)
        self.engine = wasmtime.Engine(_config())
        try:
            self.module = _compiled(self.engine, data, self.digest, cache)
        except wasmtime.WasmtimeError as error:
            raise ConfigError(path, "", f"it cannot be compiled: {_first_line(error)}") from None
        if not has_plain_types(data):
            raise ConfigError(path, "", "it cannot be loaded: it has a function that takes or returns a vector")
        self.names = frozenset(export.name for export in self.module.exports)
        foreign = host.foreign(self.module, self.engine)
        if foreign:
            raise ConfigError(path, "", f"it imports {_named(foreign)}, which a plugin cannot be given here")
        self._check_exports(path, all_events=all_events)

    def _check_exports(self, path: str, *, all_events: bool) -> None:
        found = {export.name: export.type for export in self.module.exports}
        wanted = ["memory", *_SIGNATURES]
        wanted.remove("_initialize")
        missing = [name for name in wanted if name not in found and (all_events or name not in _OPTIONAL)]
        if missing:
            raise ConfigError(path, "", f"it is no NRI plugin: it does not export {_named(missing)}")
        for name, signature in _SIGNATURES.items():
            if name in found and host.signature(found[name]) != signature:
                reason = f"it exports {name} as {host.signature(found[name])}, and a plugin has it as {signature}"
                raise ConfigError(path, "", reason)
        if not isinstance(found["memory"], wasmtime.MemoryType):
            raise ConfigError(path, "", "it is no NRI plugin: its export memory is no memory")


def _config() -> Any:
    """The compiler's settings: interruptible, and without references of the newer kinds; see `has_plain_types`."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.wasm_threads = False  # none runs beside a call
    for feature in _REFUSED:
        setattr(config, f"wasm_{feature}", False)
    return config


def digest_of(data: bytes) -> bytes:
    """By which a file's content is known again."""
    return sha256(data).digest()


def has_plain_types(data: bytes) -> bool:
    """Whether all functions of a valid file take and return plain numbers and references alone.

    Wasmtime's C interface ends the whole process when it is asked for the type of another one.
    """
    at = len(MAGIC)
    while at < len(data):
        section = data[at]
        size, at = _number(data, at + 1)
        if section == _TYPE_SECTION:
            count, at = _number(data, at)
            for _ in range(count):
                if data[at] != _FUNCTION_TYPE:
                    return False
                at += 1
                for _ in ("takes", "returns"):
                    many, at = _number(data, at)
                    if data[at : at + many].strip(_PLAIN_TYPES):
                        return False
                    at += many
            return True
        at += size
    return True


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and the place behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _named(names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    more = len(names) - _NAMED
    return ", ".join(plain(name, 80) for name in names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _first_line(error: Exception) -> str:
    """Wasmtime's error without its causes, or with them where the first line says nothing."""
    words = [line.strip() for line in str(error).split("\n") if line.strip() and line.strip() != "Caused by:"]
    return plain(": ".join(words[:3]))


def _compiled(engine: Any, data: bytes, digest: bytes, folder: str | None) -> Any:
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
        log.warning("%s: compiled code can neither be loaded from there nor saved: %s", path, error)
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
