"""The functions that WebAssembly can call: the host's ``log``, and WASI preview 1 without access to the machine.

WASI comes from wasmtime. Plugins get no folder, argument, variable or socket; stdout is dropped, stderr goes to a file.
Two functions are defined here. ``poll_oneoff``, with which a plugin sleeps, ends at the call's deadline, because
wasmtime's own sleep cannot be interrupted. ``log`` is the host function of NRI. Neither raises an exception: wasmtime's
Python package stores one exception for all threads, so it could be raised in the call of another plugin.
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

log = logging.getLogger("nri.adaptation")

_WASI, _ENV = "wasi_snapshot_preview1", "env"
_BADF, _FAULT, _INVAL, _NOTSUP = 8, 21, 28, 58
#: The size of a subscription in bytes, the size of an event in bytes, and the limit of subscriptions in a call.
_SUBSCRIPTION_BYTES, _EVENT_BYTES, _MAX_SUBSCRIPTIONS = 48, 32, 4096
_REALTIME, _MONOTONIC = 0, 1

#: A message of `log` has at most this many bytes.
MAX_LOG_BYTES = 64 << 10
#: A plugin may log this many messages in a second.
MAX_LOG_LINES_PER_S = 200

_LEVELS = {
    m.LogRequest.LEVEL_INFO: logging.INFO,
    m.LogRequest.LEVEL_WARN: logging.WARNING,
    m.LogRequest.LEVEL_ERROR: logging.ERROR,
}


class Guest(Protocol):
    """The run of a plugin that calls functions of the host."""

    @property
    def label(self) -> str:
        """The plugin's label, for logs."""

    @property
    def deadline(self) -> float:
        """The end of the current call, in monotonic seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than the call may take."""

    def write(self, data: bytes) -> None:
        """Add a message of the host to the plugin's stderr."""

    @property
    def stderr_path(self) -> str:
        """The file for the plugin's stderr."""


class _NullGuest:
    """A guest that does nothing, for examining the host's functions."""

    label, deadline, stderr_path = "", 0.0, os.devnull

    def sleep(self, seconds: float) -> None:
        """Do nothing."""

    def write(self, data: bytes) -> None:
        """Do nothing."""


def unsupported_imports(module: Any, engine: Any) -> list[str]:
    """The imports of a module that the host does not have, as ``module.name``, with the type if the type is wrong."""
    unsupported = []
    store = wasmtime.Store(engine)
    host_functions = linker(engine, store, _NullGuest())
    for import_ in module.imports:
        name = f"{import_.module}.{import_.name}"
        try:
            kind = host_functions.get(store, import_.module, import_.name or "").type(store)
        except wasmtime.WasmtimeError:
            unsupported.append(name)
            continue
        if signature(kind) != signature(import_.type):
            unsupported.append(f"{name} as {signature(import_.type)}")
    host_functions.close()
    store.close()
    return unsupported


def signature(kind: Any) -> str:
    """The type of an import or export, as text."""
    if not isinstance(kind, wasmtime.FuncType):
        return "not a function"
    return " ".join([*map(str, kind.params), "->", *map(str, kind.results)])


def linker(engine: Any, store: Any, guest: Guest) -> Any:
    """Create the host's functions for a run. Keeps `guest` alive until it is closed. Raises WasmtimeError."""
    wasi = wasmtime.WasiConfig()
    wasi.stderr_file = guest.stderr_path  # never `stderr_custom`, see `stderr`
    store.set_wasi(wasi)
    linker_ = wasmtime.Linker(engine)
    linker_.allow_shadowing = True
    linker_.define_wasi()
    i32, i64 = wasmtime.ValType.i32(), wasmtime.ValType.i64()
    poll = wasmtime.FuncType([i32, i32, i32, i32], [i32])
    linker_.define_func(
        _WASI, "poll_oneoff", poll, _without_exceptions("poll_oneoff", _poll, guest, _FAULT), access_caller=True
    )
    line = wasmtime.FuncType([i32, i32], [i64])
    linker_.define_func(_ENV, "log", line, _without_exceptions("log", _Log(guest), guest, 0), access_caller=True)
    return linker_


def _without_exceptions(name: str, function: Callable[..., int], guest: Guest, error_value: int) -> Callable[..., int]:
    def call(caller: Any, *arguments: int) -> int:
        try:
            memory = caller.get("memory")
            return function(guest, _Memory(memory, caller), *(argument & 0xFFFFFFFF for argument in arguments))
        except Exception as error:  # noqa: BLE001 - an exception could reach another plugin's call
            guest.write(f"the host function {name} failed: {error}\n".encode())
            return error_value

    return call


class _Memory:
    """The plugin's memory during a call of the host. Raises IndexError for addresses outside of it."""

    def __init__(self, memory: Any, caller: Any) -> None:
        self._memory, self._caller = memory, caller
        self._size = memory.data_len(caller)

    def read(self, place: int, size: int) -> bytes:
        if place + size > self._size:
            raise IndexError(f"{size} bytes at {place} are outside of the plugin's memory")
        return bytes(self._memory.read(self._caller, place, place + size))

    def write(self, place: int, data: bytes) -> None:
        self._memory.write(self._caller, data, place)


class _Log:
    """The host function of NRI: a line in the runtime's log with the plugin's name, at a limited rate."""

    def __init__(self, guest: Guest) -> None:
        self._label = guest.label
        self._second = 0
        self._lines = 0

    def __call__(self, _: Guest, memory: _Memory, place: int, size: int) -> int:
        second = int(monotonic())
        if second != self._second:
            if self._lines > MAX_LOG_LINES_PER_S:
                log.warning("plugin %s: %d more lines in one second", self._label, self._lines - MAX_LOG_LINES_PER_S)
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= MAX_LOG_LINES_PER_S:
            request = m.LogRequest.FromString(memory.read(place, min(size, MAX_LOG_BYTES)))
            log.log(_LEVELS.get(request.level, logging.DEBUG), "plugin %s: %s", self._label, plain(request.msg))
        return 0


def _poll(guest: Guest, memory: _Memory, subscriptions: int, results: int, count: int, result_count: int) -> int:
    """Wait until the first of the requested times.

    Waiting for anything else is an error, because a plugin has no files.
    """
    if not 0 < count <= _MAX_SUBSCRIPTIONS:
        return _INVAL
    events: list[tuple[int, int, int]] = []
    clocks: list[tuple[float, int]] = []
    for number in range(count):
        entry = memory.read(subscriptions + number * _SUBSCRIPTION_BYTES, _SUBSCRIPTION_BYTES)
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
        memory.write(results + number * _EVENT_BYTES, struct.pack("<QHB", user, error, kind).ljust(_EVENT_BYTES, b"\0"))
    memory.write(result_count, struct.pack("<I", len(events)))
    return 0
