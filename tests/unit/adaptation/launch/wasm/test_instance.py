"""Functions of a WebAssembly plugin that return, fail, or never end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from time import monotonic

import pytest
import wasmtime

from nri.adaptation.launch.wasm.instance import failure_text, frames
from nri.api import messages as m
from nri.errors import ConnectionClosed, DeadlineExceeded, RemoteProtocolError, RpcError
from tests.support import wat
from tests.support.needs import need_module

need_module("wasmtime")


from nri.adaptation.launch.wasm import instance  # noqa: E402 - needs wasmtime
from nri.adaptation.launch.wasm.instance import Instance  # noqa: E402
from nri.adaptation.launch.wasm.program import MEMORY_BYTES, TABLE_ELEMENTS, TABLES, Program  # noqa: E402
from tests.support.waiting import wait_for  # noqa: E402

Start = Callable[..., Instance]
CREATE = "plugin_create_container"


@pytest.fixture
def start() -> Iterator[Start]:
    """Runs of plugins, each looked after by a thread, as a supervisor does."""
    runs: list[tuple[Instance, threading.Thread]] = []

    def begin(body: object = wat.NOTHING, **options: object) -> Instance:
        code = wat.plugin({"create_container": body}, **options)  # type: ignore[dict-item, arg-type]
        run = Instance("10-a", Program("10-a", code))
        thread = threading.Thread(target=run.wait, args=(lambda: 1.0,), daemon=True)
        thread.start()
        runs.append((run, thread))
        return run

    yield begin
    for run, thread in runs:
        run.kill()
        thread.join(10)
        assert not thread.is_alive(), "a run has ended, and its thread has not"


def call(run: Instance, payload: bytes = b"", within_s: float = 5.0) -> bytes:
    return run.call(CREATE, payload, monotonic() + within_s)


def ended(run: Instance) -> str:
    until = monotonic() + 10
    while not run.status and monotonic() < until:
        threading.Event().wait(0.01)
    return run.status


def test_a_reply_is_read_from_memory(start: Start) -> None:
    adjusted = m.CreateContainerResponse(adjust=m.ContainerAdjustment(env=[m.KeyValue(key="A", value="B")]))
    assert call(start(wat.reply(adjusted))) == adjusted.SerializeToString()


def test_a_request_is_written_to_the_allocated_memory(start: Start) -> None:
    echo = (
        "(i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32)) (i64.extend_i32_u (local.get $size)))"
    )
    run = start(echo)
    assert call(run, b"a request") == b"a request"
    assert call(run, b"") == b""


def test_a_returned_error_keeps_the_run(start: Start) -> None:
    run = start(wat.error("not \x1b this one"))
    for _ in range(2):
        with pytest.raises(RpcError, match=r"not \\x1b this one"):
            call(run)
    assert run.status == ""


def test_an_endless_loop_ends_at_the_deadline(start: Start) -> None:
    run = start(wat.NEVER_ENDS)
    with pytest.raises(DeadlineExceeded, match=CREATE):
        call(run, within_s=0.2)
    assert ended(run) == f"interrupted: it took too long in {CREATE}"
    assert run.failed
    with pytest.raises(ConnectionClosed, match="took too long"):
        call(run)


def test_a_sleep_ends_at_the_deadline(start: Start) -> None:
    imports = '(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))'
    hour_ns = 3600 * 10**9
    body = f"""(i64.store (i32.const 24) (i64.const {hour_ns}))
        (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))
        (loop $rest (br_if $rest (i32.const 0))) (i64.const 0)"""
    run = start(body, imports=imports)
    with pytest.raises(DeadlineExceeded):
        call(run, within_s=0.2)
    assert "took too long" in ended(run)


def test_a_trap_ends_the_run_and_names_the_function(start: Start) -> None:
    run = start("(call $deep)", more="(func $deep (result i64) (unreachable))")
    with pytest.raises(ConnectionClosed, match="trapped"):
        call(run)
    assert ended(run) == f"trapped (unreachable) in {CREATE}"
    assert run.last_words.splitlines()[0].strip() == "in deep"


def test_an_exit_ends_the_run_with_its_code(start: Start) -> None:
    imports = '(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))'
    run = start("(call $exit (i32.const 7)) (i64.const 0)", imports=imports)
    with pytest.raises(ConnectionClosed):
        call(run)
    assert ended(run) == f"exit code 7 in {CREATE}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("(i64.const 0x7fffff0000000010)", "outside of the plugin's memory"),
        (f"(i64.const {5 << 20})", "outside of the plugin's memory"),
        (f"(drop (memory.grow (i32.const 100))) (i64.const {5 << 20})", "at most 4194304"),
    ],
    ids=["far away", "too long for it", "too long for us"],
)
def test_an_invalid_reply_ends_the_run(start: Start, body: str, reason: str) -> None:
    run = start(body)
    with pytest.raises(RemoteProtocolError, match=reason):
        call(run)
    assert reason in ended(run)


@pytest.mark.parametrize("place", ["0", "-16"], ids=["none", "outside"])
def test_a_failed_allocation_for_a_request_ends_the_run(start: Start, place: str) -> None:
    run = start(malloc=f"(i32.const {place})")
    with pytest.raises(RemoteProtocolError, match=r"malloc\(4\) returned no memory"):
        call(run, b"four")
    assert "malloc" in ended(run)


def test_memory_has_a_limit_that_the_plugin_sees(start: Start) -> None:
    pages = MEMORY_BYTES >> 16
    body = f"(if (i32.ne (memory.grow (i32.const {pages})) (i32.const -1)) (then (unreachable))) (i64.const 0)"
    assert call(start(body)) == b""


def test_tables_have_limits(start: Start) -> None:
    grown = f"(table.grow $names (ref.null func) (i32.const {TABLE_ELEMENTS}))"
    body = f"(if (i32.ne {grown} (i32.const -1)) (then (unreachable))) (i64.const 0)"
    assert call(start(body, more="(table $names 1 funcref)")) == b""
    with pytest.raises(ConnectionClosed, match="table"):
        call(start(more="(table 1 funcref)" * (TABLES + 1)))


def test_another_api_version_is_refused_with_both_versions(start: Start) -> None:
    run = start(version=2)
    with pytest.raises(RemoteProtocolError, match="API version mismatch, host: 1, plugin: 2"):
        call(run)
    assert ended(run)


def test_the_plugin_is_initialized_before_the_first_call(start: Start) -> None:
    more = '(func (export "_initialize") (i32.store8 (i32.const 0) (i32.const 65)))'
    assert call(start("(i64.const 1)", more=more)) == b"A"


def test_killing_a_run_releases_its_caller_at_once(start: Start) -> None:
    run = start(wat.NEVER_ENDS)
    threading.Timer(0.2, run.kill).start()
    began = monotonic()
    with pytest.raises(ConnectionClosed, match="ended by the runtime"):
        call(run, within_s=60)
    assert monotonic() - began < 30
    assert not run.failed


def test_a_run_killed_before_its_start_does_not_start(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(more='(func (export "_initialize") (loop $again (br $again)))')
    store = wasmtime.Store

    def late(engine: object) -> object:
        run.kill()
        return store(engine)

    monkeypatch.setattr(wasmtime, "Store", late)
    began = monotonic()
    with pytest.raises(ConnectionClosed, match="ended by the runtime"):
        call(run, within_s=15)
    assert monotonic() - began < 10


def test_no_run_starts_while_the_process_exits(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    run, ended_all = start(), threading.Event()
    monkeypatch.setattr(instance, "ended", ended_all)
    instance.end_all()
    with pytest.raises(ConnectionClosed, match="this process ends"):
        call(run)
    assert "this process ends" in ended(run)


def test_two_concurrent_calls_run_one_after_the_other(start: Start) -> None:
    run = start(wat.NEVER_ENDS)
    failures: list[Exception] = []

    def call_first() -> None:
        try:
            call(run, within_s=1.0)
        except DeadlineExceeded as error:
            failures.append(error)

    first = threading.Thread(target=call_first)
    first.start()
    wait_for(run.calling.locked, "the first call is under way")
    with pytest.raises(DeadlineExceeded):
        call(run, within_s=0.1)
    first.join()
    assert failures


def test_an_ended_run_leaves_no_callback(start: Start) -> None:
    from wasmtime._func import FUNCTIONS

    def count_callbacks() -> int:
        return len(FUNCTIONS.handles)

    before = count_callbacks()
    runs = [start() for _ in range(3)]
    for run in runs:
        call(run)
        run.kill()
    until = monotonic() + 10
    while count_callbacks() > before and monotonic() < until:
        threading.Event().wait(0.01)
    assert count_callbacks() == before


def trap(body: str) -> BaseException:
    """What running this code raises."""
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    module = wasmtime.Module(engine, f'(module (func $named (export "run") {body}))')
    run = wasmtime.Instance(store, module, []).exports(store)["run"]
    with pytest.raises(wasmtime.Trap) as raised:
        run(store)
    return raised.value


def test_a_trap_is_reported_with_its_kind_and_functions() -> None:
    error = trap("unreachable")
    assert failure_text(error) == "trapped (unreachable)"
    assert frames(error) == ["named"]


def test_a_deep_stack_is_shortened() -> None:
    error = trap("call $named")
    assert failure_text(error) == "trapped (stack overflow)"
    assert len(frames(error)) == 8


def test_an_error_that_is_not_a_trap_is_reported_by_its_last_line() -> None:
    error = RuntimeError("first\nthe cause\x1b[31m\n\n")
    assert failure_text(error) == "the cause\\x1b[31m"
    assert frames(error) == []


def test_an_error_without_a_message_is_reported_as_such() -> None:
    assert failure_text(RuntimeError("")) == "an error without a message"


WRITE = '(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))'


def written(size: int) -> str:
    """A function body that writes this many bytes to stderr: zeros, and after each 100 of them a line's end."""
    return f"""(i32.store (i32.const 24) (i32.const 65536)) (i32.store (i32.const 28) (i32.const {size}))
        (drop (call $write (i32.const 2) (i32.const 24) (i32.const 1) (i32.const 32)))"""


def test_stderr_output_before_a_trap_is_kept(start: Start) -> None:
    text = '(data (i32.const 65536) "the cause\\nof the trap\\n")'
    run = start(f"{written(22)} (unreachable)", imports=WRITE, more=text)
    with pytest.raises(ConnectionClosed, match="trapped"):
        call(run)
    assert run.last_words.splitlines() == ["the cause", "of the trap"]


def test_large_stderr_output_neither_blocks_nor_is_kept(start: Start) -> None:
    run = start(f"(memory.fill (i32.const 65536) (i32.const 97) (i32.const 300000)) {written(300_000)} (unreachable)",
                imports=WRITE, more='(data (i32.const 0) "")')  # fmt: skip
    with pytest.raises(ConnectionClosed):
        call(run)
    assert len(run.last_words) < 10_000


def test_an_ended_run_has_no_descriptor_and_no_thread(start: Start) -> None:
    before = len(os.listdir("/proc/self/fd"))
    run = start(wat.NEVER_ENDS)
    with pytest.raises(DeadlineExceeded):
        call(run, within_s=0.1)
    ended(run)
    assert run.closed.wait(20)
    assert [entry.name for entry in threading.enumerate() if entry.name == "nri-wasm-stderr"] == []
    assert len(os.listdir("/proc/self/fd")) == before
