"""WebAssembly plugins that loop forever, trap, or cannot be loaded: their cost and the reports."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.peers.health import PluginHealth
from nri.api import messages as m
from nri.errors import NriError, PluginError
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support import wat
from tests.support.adapting import PATIENCE_S, PATIENT, change
from tests.support.commands import unmeasured
from tests.support.needs import need_module
from tests.support.waiting import wait_for

need_module("wasmtime")

SETS_A = wat.reply(m.CreateContainerResponse(adjust=m.ContainerAdjustment(env=[m.KeyValue(key="A", value="1")])))


def health(runtime: FakeRuntime, label: str) -> PluginHealth:
    (row,) = [row for row in runtime.plugins if row.plugin == label]
    return row


def create(runtime: FakeRuntime) -> Any:
    return runtime.create_container(make_pod(), make_container())


def test_an_endless_loop_costs_the_event_its_timeout_and_affects_no_other_plugin(tmp_path: Path) -> None:
    wat.install(tmp_path, "10-endless", wat.plugin({"create_container": wat.NEVER_ENDS}))
    wat.install(tmp_path, "20-good", wat.plugin({"create_container": SETS_A}))
    policy = '["10-endless"]\ntimeout = { CreateContainer = "500ms" }\n'
    with FakeRuntime(plugin_path=str(tmp_path), policy=policy, **PATIENT) as runtime:
        assert runtime.adaptation.ready(["10-endless", "20-good"], PATIENCE_S), runtime.plugins
        began = time.monotonic()
        assert create(runtime).env == {"A": "1"}
        assert time.monotonic() - began < 10
        wait_for(lambda: health(runtime, "10-endless").restarts, "its return")
        assert runtime.adaptation.ready(["10-endless"], PATIENCE_S), runtime.plugins
        assert health(runtime, "20-good").restarts == 0


def test_an_endless_loop_in_a_required_plugin_is_an_error_with_its_name(tmp_path: Path) -> None:
    wat.install(tmp_path, "10-endless", wat.plugin({"create_container": wat.NEVER_ENDS}))
    policy = '["10-endless"]\nrequired = true\ntimeout = { CreateContainer = "500ms" }\n'
    with FakeRuntime(plugin_path=str(tmp_path), policy=policy, **PATIENT) as runtime:
        assert runtime.adaptation.ready(["10-endless"], PATIENCE_S), runtime.plugins
        with pytest.raises(NriError, match="10-endless"):
            create(runtime)


def test_a_trap_is_reported_and_the_plugin_restarts_with_the_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = "(i32.store (i32.const 16) (i32.const 1)) (return (i64.const 0))"
    entry = f"(if (i32.eqz (i32.load (i32.const 16))) (then {first})) (unreachable)"
    wat.install(tmp_path, "10-trap", wat.plugin({"create_container": entry}))
    with FakeRuntime(plugin_path=str(tmp_path)) as runtime:
        assert runtime.adaptation.ready(["10-trap"], PATIENCE_S), runtime.plugins
        create(runtime)
        create(runtime)  # it traps, and the request continues, as when a process dies
        wait_for(lambda: health(runtime, "10-trap").restarts, "its return")
        assert runtime.adaptation.ready(["10-trap"], PATIENCE_S), runtime.plugins
        create(runtime)  # its memory is new
        assert health(runtime, "10-trap").restarts == 1
    texts = [record.getMessage() for record in caplog.records]
    assert any(
        "plugin pre-connected-wasm:10-trap ended: trapped (unreachable) in plugin_create_container" in text
        for text in texts
    ), texts


def test_a_returned_error_fails_the_request_with_the_plugins_name(tmp_path: Path) -> None:
    wat.install(tmp_path, "10-no", wat.plugin({"create_container": wat.error("not on this node")}))
    with FakeRuntime(plugin_path=str(tmp_path)) as runtime:
        assert runtime.adaptation.ready(["10-no"], PATIENCE_S), runtime.plugins
        with pytest.raises(PluginError, match=r"10-no.*not on this node"):
            create(runtime)
        assert health(runtime, "10-no").state == "active"


def test_a_plugin_that_cannot_be_loaded_is_reported_and_the_others_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wat.install(tmp_path, "10-gpu", wat.plugin(imports='(import "env" "gpu_open" (func))'))
    wat.install(tmp_path, "20-good", wat.plugin({"create_container": SETS_A}))
    with FakeRuntime(plugin_path=str(tmp_path)) as runtime:
        assert runtime.adaptation.ready(["20-good"], PATIENCE_S), runtime.plugins
        assert create(runtime).env == {"A": "1"}
        row = health(runtime, "10-gpu")
    assert "it imports env.gpu_open, which this runtime does not provide" in row.last_words
    assert any("10-gpu cannot be launched" in record.getMessage() for record in caplog.records)


def test_a_changed_configuration_reloads_the_plugin(tmp_path: Path) -> None:
    config = tmp_path / "conf.d"
    config.mkdir()
    (config / "10-a.conf").write_text("first")
    log = '(import "env" "log" (func $log (param i32 i32) (result i64)))'
    configure = "(drop (call $log (local.get $place) (local.get $size))) (i64.const 0)"  # field 1 of either is a text
    wat.install(tmp_path / "plugins", "10-a", wat.plugin({"configure": configure}, imports=log))
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("nri.adaptation")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with FakeRuntime(plugin_path=str(tmp_path / "plugins"), plugin_config_path=str(config)) as runtime:
            assert runtime.adaptation.ready(["10-a"], PATIENCE_S), runtime.plugins
            change(config / "10-a.conf", "second")
            wait_for(lambda: any(text.endswith("10-a: second") for text in records), "the new configuration")
            assert any(text.endswith("10-a: first") for text in records)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_the_operators_policy_applies_to_wasm_plugins(tmp_path: Path) -> None:
    wat.install(tmp_path, "10-a", wat.plugin({"create_container": SETS_A}))
    policy = '["10-a"]\nallow = { fields = ["Annotations"] }\n'
    with FakeRuntime(plugin_path=str(tmp_path), policy=policy) as runtime:
        assert runtime.adaptation.ready(["10-a"], PATIENCE_S), runtime.plugins
        with pytest.raises(PluginError, match="10-a"):
            create(runtime)


def test_stopping_the_runtime_does_not_wait_for_an_endless_plugin(tmp_path: Path) -> None:
    wat.install(tmp_path, "10-endless", wat.plugin({"shutdown": wat.NEVER_ENDS}))
    runtime = FakeRuntime(plugin_path=str(tmp_path))
    assert runtime.adaptation.ready(["10-endless"], PATIENCE_S), runtime.plugins
    began = time.monotonic()
    runtime.adaptation.stop()
    assert time.monotonic() - began < 15


LEAVES = """
import logging, sys, threading
from nri.testing import FakeRuntime, make_container, make_pod

at_work = threading.Event()
logger = logging.getLogger("nri.adaptation")
logger.setLevel(logging.DEBUG)
for handler, level in ((logging.StreamHandler(), logging.WARNING), (logging.Handler(), logging.DEBUG)):
    handler.setLevel(level)
    logger.addHandler(handler)
handler.emit = lambda record: ":10-busy: " in record.getMessage() and at_work.set()
runtime = FakeRuntime(plugin_path=sys.argv[1], request_timeout_s=30.0)
assert runtime.adaptation.ready(["10-busy"], 20), runtime.plugins
for _ in range(4):
    threading.Thread(target=lambda: runtime.create_container(make_pod(), make_container()), daemon=True).start()
assert at_work.wait(20)
print("leaving", flush=True)
"""


def test_a_process_that_exits_first_ends_a_busy_plugin(tmp_path: Path) -> None:
    log = '(import "env" "log" (func $log (param i32 i32) (result i64)))'
    busy = "(loop $again (drop (call $log (i32.const 0) (i32.const 0))) (br $again)) (i64.const 0)"
    wat.install(tmp_path, "10-busy", wat.plugin({"create_container": busy}, imports=log))
    process = subprocess.run(
        [sys.executable, "-c", LEAVES, str(tmp_path)], capture_output=True, text=True, check=False, timeout=100
    )
    assert (process.returncode, process.stdout) == (0, "leaving\n"), process.stderr[-2000:]
    assert "ended by the runtime" in process.stderr, process.stderr[-2000:]  # whichever side logs it first


# Each of 50 children loads the plugin, calls it and ends as a program does; the modules are imported only once.
SPEAKS = """
import os, sys
import nri.adaptation.launch.wasm.instance, nri.adaptation.launch.wasm.program
from nri.testing import FakeRuntime, make_container, make_pod

for _ in range(50):
    child = os.fork()
    if not child:
        break
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"a child ended with {status}")
else:
    sys.exit()
runtime = FakeRuntime(plugin_path=sys.argv[1], request_timeout_s=30.0)
assert runtime.adaptation.ready(["10-speaks"], 20), runtime.plugins
for _ in range(2):
    runtime.create_container(make_pod(), make_container())
"""


@pytest.mark.timeout(600)
def test_a_process_with_a_plugin_that_wrote_to_stderr_exits_cleanly(tmp_path: Path) -> None:
    write = '(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))'
    body = """(i32.store (i32.const 24) (i32.const 65536)) (i32.store (i32.const 28) (i32.const 3000))
        (drop (call $write (i32.const 2) (i32.const 24) (i32.const 1) (i32.const 32))) (i64.const 0)"""
    wat.install(tmp_path, "10-speaks", wat.plugin({"create_container": body, "shutdown": body}, imports=write))
    process = subprocess.run(
        [sys.executable, "-c", SPEAKS, str(tmp_path)],
        env=unmeasured(), capture_output=True, text=True, check=False, timeout=580,
    )  # fmt: skip
    assert (process.returncode, "panicked" in process.stderr) == (0, False), process.stderr[-2000:]
