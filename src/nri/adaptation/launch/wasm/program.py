"""A compiled WebAssembly file, with checks of its imports and exports.

The ABI comes from go-plugin, which NRI's Go library uses. For each method there is a function ``plugin_<method>`` that
gets the address and length of a request in the plugin's memory and returns the address and length of the reply;
``malloc`` and ``free`` manage the memory. A plugin may import WASI preview 1 and the function ``log`` of module
``env``. Each program has its own engine, because an interrupt affects all functions of an engine.

Compiled code is stored on disk, because compiling takes seconds. The code runs in this process, so it is only read from
files and folders that only root and the runtime's user can change (`nri.adaptation.launch.trusted`). A file is named
after the program's content. Wasmtime refuses code of another release or processor; the program is then compiled again.
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

log = logging.getLogger("nri.adaptation")

#: The limit of a plugin's memory, in bytes.
MEMORY_BYTES = 256 << 20
#: The limit of tables, and of functions or references (8 bytes) in each; the Go compiler creates a table of about
#: 10,000.
TABLES, TABLE_ELEMENTS = 8, 1 << 20

_METHODS = ("synchronize", "shutdown", "state_change", *(spec.method for spec in EVENTS))
#: The functions that a plugin exports, with their signatures.
_SIGNATURES = {
    "malloc": "i32 -> i32",
    "free": "i32 ->",
    "plugin_api_version": "-> i64",
    **{f"plugin_{method}": "i32 i32 -> i64" for method in ("configure", *_METHODS)},
    "_initialize": "->",
}
#: Functions that a plugin for an older or smaller API may lack; the Go library requires all but `_initialize`.
_OPTIONAL = frozenset(f"plugin_{method}" for method in _METHODS)
#: Features of WebAssembly that a plugin cannot use; see `_config`.
_REFUSED = ("stack_switching", "exceptions", "gc", "function_references")
#: Codes in a file: the section of types, a function type, and i32 to f64, funcref and externref.
_TYPE_SECTION, _FUNCTION_TYPE, _PLAIN_TYPES = 1, 0x60, b"\x7f\x7e\x7d\x7c\x70\x6f"
#: The limit of compiled programs in the cache; the least recently used are deleted.
MAX_CACHED = 16
#: The names of compiled programs.
_CACHED_NAME = re.compile(r"[0-9a-f]{64}\.cwasm")
#: A message names at most this many missing imports or exports.
_MAX_NAMES = 8


class Program:
    """A compiled file.

    Attributes:
        digest: the digest of the file's content.
        engine, module: wasmtime's objects.
        names: the exported names.
    """

    def __init__(self, path: str, data: bytes, *, cache: str | None = None, all_events: bool = False) -> None:
        """Compile a file. Takes seconds for a plugin in Go; other threads run meanwhile.

        Args:
            path: the file's path, for errors.
            cache: the folder for compiled code; None disables the cache.
            all_events: the file must have the functions of all events, as the Go library requires.

        Raises:
            ConfigError: the file is not WebAssembly, has an unknown import, or lacks an export.
        """
        self.digest = digest_of(data)
        self.engine = wasmtime.Engine(_config())
        try:
            self.module = _compiled_module(self.engine, data, self.digest, cache)
        except wasmtime.WasmtimeError as error:
            raise ConfigError(path, "", f"it cannot be compiled: {_first_line(error)}") from None
        if not has_plain_types(data):
            raise ConfigError(path, "", "it cannot be loaded: a function takes or returns a vector")
        self.names = frozenset(export.name for export in self.module.exports)
        unsupported = host.unsupported_imports(self.module, self.engine)
        if unsupported:
            raise ConfigError(path, "", f"it imports {_name_list(unsupported)}, which this runtime does not provide")
        self._check_exports(path, all_events=all_events)

    def _check_exports(self, path: str, *, all_events: bool) -> None:
        exports = {export.name: export.type for export in self.module.exports}
        required = ["memory", *_SIGNATURES]
        required.remove("_initialize")
        missing = [name for name in required if name not in exports and (all_events or name not in _OPTIONAL)]
        if missing:
            raise ConfigError(path, "", f"it is not an NRI plugin: it does not export {_name_list(missing)}")
        for name, signature in _SIGNATURES.items():
            if name in exports and host.signature(exports[name]) != signature:
                reason = f"it exports {name} as {host.signature(exports[name])}; a plugin must export it as {signature}"
                raise ConfigError(path, "", reason)
        if not isinstance(exports["memory"], wasmtime.MemoryType):
            raise ConfigError(path, "", "it is not an NRI plugin: its export memory is not a memory")


def _config() -> Any:
    """The compiler's settings: interruptible, and without newer kinds of references; see `has_plain_types`."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.wasm_threads = False  # no thread runs during a call
    for feature in _REFUSED:
        setattr(config, f"wasm_{feature}", False)
    return config


def digest_of(data: bytes) -> bytes:
    """The digest of a file's content."""
    return sha256(data).digest()


def has_plain_types(data: bytes) -> bool:
    """Whether all functions of a valid file take and return only plain numbers and references.

    Wasmtime's C interface aborts the process when the type of any other function is read.
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
                    length, at = _number(data, at)
                    if data[at : at + length].strip(_PLAIN_TYPES):
                        return False
                    at += length
            return True
        at += size
    return True


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and the position after it."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _name_list(names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    more = len(names) - _MAX_NAMES
    return ", ".join(plain(name, 80) for name in names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _first_line(error: Exception) -> str:
    """The first lines of wasmtime's error, without its backtrace."""
    words = [line.strip() for line in str(error).split("\n") if line.strip() and line.strip() != "Caused by:"]
    return plain(": ".join(words[:3]))


def _compiled_module(engine: Any, data: bytes, digest: bytes, folder: str | None) -> Any:
    """The module of a program, from the cache folder, or compiled and stored in it. Raises WasmtimeError."""
    if folder is None:
        return wasmtime.Module(engine, data)
    path = os.path.join(folder, f"{digest.hex()}.cwasm")
    try:
        with TrustedFile(path) as file:
            with suppress(OSError):  # a file of another user, or a read-only disk
                os.utime(path)
            return wasmtime.Module.deserialize_file(engine, file.executable)
    except FileNotFoundError:
        pass
    except UntrustedError as error:
        log.warning("%s: compiled code cannot be loaded or stored: %s", path, error)
        return wasmtime.Module(engine, data)
    except (OSError, wasmtime.WasmtimeError) as error:
        log.debug("%s: compiled code cannot be loaded: %s", path, error)
    module = wasmtime.Module(engine, data)
    try:
        _write_cache(path, bytes(module.serialize()))
    except OSError as error:
        log.debug("%s: compiled code cannot be stored: %s", path, error.strerror)
    return module


def _write_cache(path: str, code: bytes) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, 0o700, exist_ok=True)
    write_whole(
        path, code
    )  # written with fsync: the format has no checksum, so wasmtime would run a partly written file
    cached = [
        entry for entry in os.scandir(folder) if _CACHED_NAME.fullmatch(entry.name)
    ]  # the folder may have other files
    cached.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime, reverse=True)
    for entry in cached[MAX_CACHED:]:
        os.unlink(entry.path)
