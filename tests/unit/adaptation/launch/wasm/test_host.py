"""Host functions for plugins: log lines and sleeps, without access to the machine."""

from __future__ import annotations

import logging
import struct
import tempfile
from typing import Any

import pytest

from nri.api import messages as m
from tests.support.needs import need_module

need_module("wasmtime")

import wasmtime  # noqa: E402 - an extra

from nri.adaptation.launch.wasm import host  # noqa: E402 - needs wasmtime

LOG = '(import "env" "log" (func $log (param i32 i32) (result i64)))'
POLL = '(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))'
SUBSCRIPTIONS, EVENTS, COUNT = 1024, 8192, 16384


class Guest:
    """A plugin's run as the host sees it."""

    label, deadline = "pre-connected-wasm:10-a", 0.0

    def __init__(self, text: str) -> None:
        self.slept: list[float] = []
        self.written = b""
        self.stderr = tempfile.NamedTemporaryFile()  # noqa: SIM115  as long as the guest
        engine = wasmtime.Engine(wasmtime.Config())
        self.store = wasmtime.Store(engine)
        module = wasmtime.Module(engine, wasmtime.wat2wasm(f'(module {text} (memory (export "memory") 1))'))
        self.exports: Any = host.linker(engine, self.store, self).instantiate(self.store, module).exports(self.store)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def write(self, data: bytes) -> None:
        self.written += data

    @property
    def stderr_path(self) -> str:
        return self.stderr.name

    def call(self, name: str, *arguments: int) -> Any:
        return self.exports[name](self.store, *arguments)

    def put(self, place: int, data: bytes) -> None:
        self.exports["memory"].write(self.store, data, place)

    def take(self, place: int, size: int) -> bytes:
        return bytes(self.exports["memory"].read(self.store, place, place + size))


def logger() -> Guest:
    text = '(func (export "say") (param i32 i32) (result i64) (call $log (local.get 0) (local.get 1)))'
    return Guest(f"{LOG} {text}")


def say(guest: Guest, text: str, level: int) -> None:
    request = m.LogRequest(msg=text, level=level).SerializeToString()
    guest.put(64, request)
    assert guest.call("say", 64, len(request)) == 0


@pytest.mark.parametrize(
    ("level", "present"),
    [
        (m.LogRequest.LEVEL_INFO, logging.INFO),
        (m.LogRequest.LEVEL_WARN, logging.WARNING),
        (m.LogRequest.LEVEL_ERROR, logging.ERROR),
        (m.LogRequest.LEVEL_UNSPECIFIED, logging.DEBUG),
        (99, logging.DEBUG),
    ],
)
def test_a_line_is_logged_at_its_level_with_the_plugins_name(
    caplog: pytest.LogCaptureFixture, level: int, present: int
) -> None:
    caplog.set_level(logging.DEBUG, "nri.adaptation")
    say(logger(), "two\nlines", level)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (present, "plugin pre-connected-wasm:10-a: two\\nlines")
    ]


def test_a_flood_of_lines_is_limited(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG, "nri.adaptation")
    clock = [1000.0]
    monkeypatch.setattr(host, "monotonic", lambda: clock[0])
    guest = logger()
    for _ in range(host.MAX_LOG_LINES_PER_S + 50):
        say(guest, "again", 0)
    clock[0] += 1
    say(guest, "later", 0)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == host.MAX_LOG_LINES_PER_S + 2
    assert texts[-2:] == [
        "plugin pre-connected-wasm:10-a: 50 more lines in one second",
        "plugin pre-connected-wasm:10-a: later",
    ]


def test_an_invalid_message_address_or_text_is_harmless() -> None:
    guest = logger()
    assert guest.call("say", 1 << 30, 10) == 0
    guest.put(64, b"\xff\xff")
    assert guest.call("say", 64, 2) == 0
    assert b"outside of the plugin's memory" in guest.written
    assert guest.written.count(b"the host function log failed") == 2


def clock(user: int, timeout_ns: int, *, clock: int = 1, absolute: bool = False) -> bytes:
    return struct.pack("<QBxxxxxxxIxxxxQQHxxxxxx", user, 0, clock, timeout_ns, 0, int(absolute))


def poll(*subscriptions: bytes, count: int | None = None) -> tuple[Guest, int, list[tuple[int, int, int]]]:
    text = f"(call $poll (i32.const {SUBSCRIPTIONS}) (i32.const {EVENTS}) (local.get 0) (i32.const {COUNT}))"
    guest = Guest(f'{POLL} (func (export "wait") (param i32) (result i32) {text})')
    guest.put(SUBSCRIPTIONS, b"".join(subscriptions) or b" ")
    code = guest.call("wait", len(subscriptions) if count is None else count)
    (messages,) = struct.unpack("<I", guest.take(COUNT, 4))
    events = [struct.unpack_from("<QHB", guest.take(EVENTS + number * 32, 32)) for number in range(messages)]
    return guest, code, [(user, error, kind) for user, error, kind in events]


def test_a_sleep_ends_at_the_first_of_its_clocks() -> None:
    guest, code, events = poll(clock(7, 2 * 10**9), clock(8, 10**9))
    assert (code, guest.slept, events) == (0, [1.0], [(8, 0, 0)])


def test_a_time_in_the_past_is_not_waited_for() -> None:
    guest, code, events = poll(clock(7, 10**9, clock=0, absolute=True))
    assert (code, guest.slept, events) == (0, [0.0], [(7, 0, 0)])


def test_unsupported_subscriptions_are_errors_at_once() -> None:
    reading = struct.pack("<QBxxxxxxxI", 9, 1, 0).ljust(48, b"\0")
    guest, code, events = poll(reading, clock(7, 5, absolute=True), clock(8, 10**9))
    assert (code, guest.slept, events) == (0, [], [(9, 8, 1), (7, 58, 0)])


@pytest.mark.parametrize("count", [0, 1 << 20])
def test_none_or_too_many_subscriptions_are_an_error(count: int) -> None:
    assert poll(count=count)[1] == 28


def test_addresses_outside_the_memory_are_an_error() -> None:
    guest, code, _ = poll(count=4000)
    assert code == 21
    assert b"the host function poll_oneoff failed: 48 bytes at " in guest.written


def test_a_plugin_has_no_folders_arguments_or_variables_but_a_stderr() -> None:
    expected = {
        "fd_prestat_get": (3, 64),
        "args_sizes_get": (64, 68),
        "environ_sizes_get": (72, 76),
        "fd_write": (2, 128, 1, 136),
    }
    imports, exports = "", ""
    for name, arguments in expected.items():
        parameters = "i32 " * len(arguments)
        imports += f'(import "wasi_snapshot_preview1" "{name}" (func ${name} (param {parameters}) (result i32)))'
        values = " ".join(f"(i32.const {argument})" for argument in arguments)
        exports += f'(func (export "{name}") (result i32) (call ${name} {values}))'
    guest = Guest(imports + exports)
    assert guest.call("fd_prestat_get") == 8, "a folder is open"
    guest.call("args_sizes_get")
    guest.call("environ_sizes_get")
    assert guest.take(64, 4) + guest.take(72, 4) == bytes(8)
    guest.put(128, struct.pack("<II", 160, 5))
    guest.put(160, b"words")
    assert guest.call("fd_write") == 0
    assert guest.stderr.read() == b"words"
