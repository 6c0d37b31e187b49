"""Several plugins in one process: separate connections, one common end, and errors that name the plugin."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri
from nri.stub.program import process
from nri.stub.program.options import Options
from nri.stub.program.plugin_group import PluginGroup
from nri.stub.support import log_destination, logs
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.waiting import wait_for


class Env(nri.Plugin):
    """Says in a variable who it is."""

    class Config:
        value: str = "?"

    config: Config

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        self.log.info("asked")
        return nri.Adjustment().add_env(f"BY_{self.config.value}", threading.current_thread().name)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        raise SystemExit(7)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FakeRuntime]:
    """A runtime that listens."""
    with FakeRuntime(socket_path=str(tmp_path / "nri.sock")) as runtime:
        yield runtime


def options_of(runtime_path: str, index: str, name: str = "env", config: Path | None = None) -> Options:
    options = Options()
    options.index, options.name, options.socket = index, name, runtime_path
    options.config = None if config is None else str(config)
    return options


def meanwhile(runtime: FakeRuntime, labels: list[str], then) -> threading.Thread:
    """Do something in a thread when all plugins take part; the plugins have the main thread, for its signals."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            assert runtime.adaptation.ready(labels, 10)
            then()
        except BaseException as error:
            failures.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=run)
    thread.failures = failures  # type: ignore[attr-defined]
    thread.start()
    return thread


def ended(thread: threading.Thread) -> None:
    thread.join(10)
    assert not thread.failures, repr(thread.failures)  # type: ignore[attr-defined]


def test_each_plugin_has_its_index_and_thread_and_a_signal_stops_all(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pairs = []
    for index in ("10", "20", "30"):
        (tmp_path / index).write_text(f"value: '{index}'\n")
        pairs.append((Env(), options_of(runtime.socket_path, index, config=tmp_path / index)))
    replies = []

    def ask() -> None:
        replies.append(runtime.create_container(make_pod(), make_container()).env)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = meanwhile(runtime, ["10-env", "20-env", "30-env"], ask)
    assert PluginGroup(pairs).run() == 0
    ended(thread)
    assert replies == [{"BY_10": "MainThread", "BY_20": "nri-plugin-20-env", "BY_30": "nri-plugin-30-env"}]
    names = {record.name for record in caplog.records if "asked" in record.getMessage()}
    assert names == {f"nri.plugin.{index}-env" for index in (10, 20, 30)}, "the log names the plugin"
    wait_for(lambda: {row.state for row in runtime.plugins} == {"gone"}, "all connections ended")


def test_ctrl_c_exits_with_130(runtime: FakeRuntime) -> None:
    pairs = [(Env(), options_of(runtime.socket_path, index)) for index in ("10", "20")]
    thread = meanwhile(runtime, ["10-env", "20-env"], lambda: os.kill(os.getpid(), signal.SIGINT))
    assert PluginGroup(pairs).run() == 130
    ended(thread)


@pytest.mark.parametrize("bad", ["10", "20"])
def test_a_failing_plugin_ends_all_with_its_name_and_exit_code(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: str
) -> None:
    (tmp_path / "c").write_text("valeu: x\n")
    pairs = [
        (Env(), options_of(runtime.socket_path, index, config=tmp_path / "c" if index == bad else None))
        for index in ("10", "20", "30")
    ]
    assert PluginGroup(pairs).run() == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert lines == [f'error: {bad}-env: {tmp_path}/c:1: valeu: unknown key (did you mean "value"?)']


def test_a_handler_that_exits_ends_all_with_its_code(runtime: FakeRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(Env(), options_of(runtime.socket_path, "10")), (Env(), options_of(runtime.socket_path, "20"))]

    def stop() -> None:
        pod = make_pod()
        runtime.run_pod_sandbox(pod)
        try:
            runtime.stop_pod_sandbox(pod)
        except nri.NriError:
            pass

    thread = meanwhile(runtime, ["10-env", "20-env"], stop)
    assert PluginGroup(pairs).run() == 7
    ended(thread)
    err = capsys.readouterr().err  # the runtime asks both, one after the other, and both may have done it by then
    assert any(f"error: {label}: the plugin has called sys.exit(7)" in err for label in ("10-env", "20-env"))


def test_without_reconnect_a_lost_runtime_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(Env(), options_of(str(tmp_path / "gone.sock"), index)) for index in ("10", "20")]
    for _, options in pairs:
        options.no_reconnect = True
    assert PluginGroup(pairs).run() == 3
    err = capsys.readouterr().err
    assert err.count("error: ") == 1
    assert "-env: cannot connect to" in err


def test_all_plugins_reconnect_after_a_restart_of_the_runtime(tmp_path: Path) -> None:
    path = str(tmp_path / "nri.sock")
    pairs = [(Env(), options_of(path, index)) for index in ("10", "20")]
    first = FakeRuntime(socket_path=path)
    observed = []

    def restart() -> None:
        first.close()
        with FakeRuntime(socket_path=path) as second:
            assert second.adaptation.ready(["10-env", "20-env"], 10)
            observed.append(len(second.plugins))
            os.kill(os.getpid(), signal.SIGTERM)

    thread = meanwhile(first, ["10-env", "20-env"], restart)
    assert PluginGroup(pairs).run() == 0
    ended(thread)
    assert observed == [2]


def test_the_process_is_ready_when_all_plugins_are(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        several = PluginGroup([(Env(), options_of(runtime.socket_path, index)) for index in ("10", "20")])
        answers = [several.health()]

        def look() -> None:
            assert systemd.recv(100) == b"READY=1"
            answers.append(several.health())
            os.kill(os.getpid(), signal.SIGTERM)

        thread = meanwhile(runtime, ["10-env", "20-env"], look)
        assert several.run() == 0
        ended(thread)
        waits = "not synchronized with a runtime\n"
        assert answers == [(False, f"10-env: {waits}20-env: {waits}"), (True, "10-env: ready\n20-env: ready\n")]
        assert systemd.recv(100) == b"STOPPING=1"


def test_two_plugins_with_one_index_and_name_are_refused() -> None:
    pairs = [(Env(), options_of("/x", "10")), (Env(), options_of("/x", "10"))]
    with pytest.raises(nri.ConfigError, match=r"command line: 10-env: two plugins have this index and name \(change"):
        PluginGroup(pairs)


def test_the_log_file_of_a_class_has_only_its_plugins_lines(
    runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    apart = type("Apart", (Env,), {"log_file": str(tmp_path / "log"), "name": "apart"})
    lost = type("Lost", (Env,), {"log_file": str(tmp_path / "no/log"), "name": "lost"})
    pairs = [
        (created(), options_of(runtime.socket_path, index, created.name))
        for index, created in (("10", Env), ("20", apart), ("30", lost))
    ]
    thread = meanwhile(runtime, ["10-env", "20-apart", "30-lost"], lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        assert PluginGroup(pairs).run() == 0
        ended(thread)
        text = (tmp_path / "log").read_text()
        assert "as 20-apart" in text and "as 10-env" not in text
        assert "as 20-apart" not in caplog.text and "as 10-env" in caplog.text
        assert f"cannot log to {tmp_path}/no/log: No such file" in caplog.text
    finally:
        logs.send_to_file(logging.getLogger("nri.plugin.20-apart"), "")


def test_the_log_is_created_before_the_first_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    imports: list[list[str]] = []
    monkeypatch.setattr(logs, "set_up", lambda level, *_, **__: texts.append(level))
    monkeypatch.setattr(process.Program, "serve", lambda _: imports.append(list(texts)))
    log_destination.choose(log_destination.Destination("DEBUG"))
    try:
        PluginGroup([(Env(), options_of("/nowhere", index)) for index in ("10", "20")]).run()
    finally:
        log_destination.take()
    assert imports == [["DEBUG"], ["DEBUG"]]


def test_metrics_of_all_plugins_are_served(tmp_path: Path) -> None:
    class Measured(Env):
        def measurements(self) -> str:
            return "gauge 1\n"

    path = str(tmp_path / "nri.sock")
    plugins = {"10": Measured(), "20": Env(), "30": Measured()}
    group = PluginGroup([(plugin, options_of(path, index)) for index, plugin in plugins.items()])
    assert group.measurements() == "gauge 1\n" * 2
