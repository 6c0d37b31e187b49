"""The functions that WebAssembly can call: the host's ``log``, and WASI preview 1 without a machine behind it.

WASI is wasmtime's own, with no folder, argument, variable or socket; stdout leads nowhere, stderr to a file.
Two functions are ours. ``poll_oneoff``, with which a plugin sleeps, ends at the call's deadline, because nothing can
interrupt a sleep in wasmtime's. ``log`` is the host function of NRI. None of them ever raises: wasmtime's Python
package keeps one exception for all threads, so it could come up in the call of another plugin.
"""

from __future__ import annotations

import logging
import os
import struct
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Protocol

import wasmtime

from nri.api import messages as m
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Guest", "foreign", "linker", "signature"]

log = logging.getLogger("nri.adaptation")

_WASI, _ENV = "wasi_snapshot_preview1", "env"
_BADF, _FAULT, _INVAL, _NOTSUP = 8, 21, 28, 58
#: Sizes of a subscription and of an event, in bytes, and how many of them one call may have.
_SUBSCRIPTION, _EVENT, _MOST = 48, 32, 4096
_REALTIME, _MONOTONIC = 0, 1

#: The longest message of `log` in bytes, and how many a plugin may log in a second.
LOG_BYTES = 64 << 10
LOG_LINES = 200

_LEVELS = {
    m.LogRequest.LEVEL_INFO: logging.INFO,
    m.LogRequest.LEVEL_WARN: logging.WARNING,
    m.LogRequest.LEVEL_ERROR: logging.ERROR,
}


class Guest(Protocol):
    """The run of a plugin that calls the host."""

    @property
    def label(self) -> str:
        """For logs."""

    @property
    def deadline(self) -> float:
        """The end of the present call, in monotonic seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than the call may take."""

    def write(self, data: bytes) -> None:
        """Keep a piece of what the host has to say on stderr."""

    @property
    def stderr_path(self) -> str:
        """The file that the plugin's stderr is written to."""


class _NullGuest:
    """A guest that does nothing, to ask what one would be given."""

    label, deadline, stderr_path = "", 0.0, os.devnull

    def sleep(self, seconds: float) -> None:
        """Nothing."""

    def write(self, data: bytes) -> None:
        """Nothing."""


def foreign(module: Any, engine: Any) -> list[str]:
    """The imports of a module that it cannot be given, each as ``module.name``, with the reason if it is its type."""
    found = []
    store = wasmtime.Store(engine)
    given = linker(engine, store, _NullGuest())
    for wanted in module.imports:
        name = f"{wanted.module}.{wanted.name}"
        try:
            kind = given.get(store, wanted.module, wanted.name or "").type(store)
        except wasmtime.WasmtimeError:
            found.append(name)
            continue
        if signature(kind) != signature(wanted.type):
            found.append(f"{name} as {signature(wanted.type)}")
    given.close()
    store.close()
    return found


def signature(kind: Any) -> str:
    """The type of an import or export, in words."""
    if not isinstance(kind, wasmtime.FuncType):
        return "no function"
    return " ".join([*map(str, kind.params), "->", *map(str, kind.results)])


def linker(engine: Any, store: Any, guest: Guest) -> Any:
    """The functions of the host for one run. Holds `guest` until it is closed. Raises WasmtimeError."""
    wasi = wasmtime.WasiConfig()
    wasi.stderr_file = guest.stderr_path  # never `stderr_custom`, see `stderr`
    store.set_wasi(wasi)
    made = wasmtime.Linker(engine)
    made.allow_shadowing = True
    made.define_wasi()
    i32, i64 = wasmtime.ValType.i32(), wasmtime.ValType.i64()
    poll = wasmtime.FuncType([i32, i32, i32, i32], [i32])
    made.define_func(_WASI, "poll_oneoff", poll, _harmless("poll_oneoff", _poll, guest, _FAULT), access_caller=True)
    line = wasmtime.FuncType([i32, i32], [i64])
    made.define_func(_ENV, "log", line, _harmless("log", _Log(guest), guest, 0), access_caller=True)
    return made


def _harmless(name: str, function: Callable[..., int], guest: Guest, otherwise: int) -> Callable[..., int]:
    def call(caller: Any, *arguments: int) -> int:
        try:
            memory = caller.get("memory")
            return function(guest, _Memory(memory, caller), *(each & 0xFFFFFFFF for each in arguments))
        except Exception as error:  # noqa: BLE001 - as the module says
            guest.write(f"the host could not serve {name}: {error}\n".encode())
            return otherwise

    return call


class _Memory:
    """The plugin's memory during a call of the host. IndexError outside of it."""

    def __init__(self, memory: Any, caller: Any) -> None:
        self._memory, self._caller = memory, caller
        self._size = memory.data_len(caller)

    def read(self, place: int, size: int) -> bytes:
        if place + size > self._size:
            raise IndexError(f"{size} bytes at {place} are outside of its memory")
        return bytes(self._memory.read(self._caller, place, place + size))

    def write(self, place: int, data: bytes) -> None:
        self._memory.write(self._caller, data, place)


class _Log:
    """The host function of NRI: a line in the runtime's log, with the plugin's name. No more than a log can bear."""

    def __init__(self, guest: Guest) -> None:
        self._label = guest.label
        self._second = 0
        self._lines = 0

    def __call__(self, _: Guest, memory: _Memory, place: int, size: int) -> int:
        second = int(monotonic())
        if second != self._second:
            if self._lines > LOG_LINES:
                log.warning("plugin %s: %d more lines in one second", self._label, self._lines - LOG_LINES)
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= LOG_LINES:
            request = m.LogRequest.FromString(memory.read(place, min(size, LOG_BYTES)))
            log.log(_LEVELS.get(request.level, logging.DEBUG), "plugin %s: %s", self._label, plain(request.msg))
        return 0


def _poll(guest: Guest, memory: _Memory, given: int, taken: int, count: int, told: int) -> int:
    """Wait for the first of some times to come. Nothing else ever comes to a plugin, so waiting for it is an error."""
    if not 0 < count <= _MOST:
        return _INVAL
    events: list[tuple[int, int, int]] = []
    clocks: list[tuple[float, int]] = []
    for number in range(count):
        entry = memory.read(given + number * _SUBSCRIPTION, _SUBSCRIPTION)
        user, kind = struct.unpack_from("<QB", entry)
        if kind != 0:
            events.append((user, _BADF, kind))
            continue
        clock, timeout_ns, _, flags = struct.unpack_from("<IxxxxQQH", entry, 16)
        if not flags & 1:
            clocks.append((timeout_ns / 1e9, user))
        elif clock == _REALTIME:
            clocks.append((timeout_ns / 1e9 - time(), user))
        else:
            events.append((user, _NOTSUP, kind))
    if clocks and not events:
        soonest = max(0.0, min(clocks)[0])
        guest.sleep(soonest)
        events = [(user, 0, 0) for seconds, user in clocks if seconds <= soonest]
    for number, (user, error, kind) in enumerate(events):
        memory.write(taken + number * _EVENT, struct.pack("<QHB", user, error, kind).ljust(_EVENT, b"\0"))
    memory.write(told, struct.pack("<I", len(events)))
    return 0
