"""The process of a plugin: exit codes, sessions, readiness and notes."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.api import naming
from nri.stub.program import process
from nri.stub.program.failure_note import read_notes, write_note
from nri.stub.program.options import Options
from nri.stub.program.process import Program
from nri.stub.session import settings
from nri.stub.session.session import Session
from tests.support.plugin_program import Listener
from tests.support.scripted_runtime import ScriptedRuntime
from tests.support.waiting import wait_for
from tests.unit.stub.plugins import CREATE, Names


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    options = Options()
    options.index, options.name, options.socket, options.no_reconnect = "10", "names", str(tmp_path / "nri.sock"), True
    return options


def run(program: Program, *scripts: Callable[[ScriptedRuntime], None]) -> int:
    """Run a program against a runtime that runs each script on its own connection, one after the other."""
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            for script in scripts:
                script(listener.accept())
        except BaseException as error:
            failures.append(error)

    with Listener(Path(program.options.socket)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        code = program.run()
        thread.join(10)
    assert not failures, repr(failures[0])
    return code


def begin_and_close(runtime: ScriptedRuntime) -> None:
    runtime.begin()
    runtime.close()


def refuse(runtime: ScriptedRuntime) -> None:
    runtime.answer(runtime.request(), code=2, text="no such plugin wanted")


def test_without_reconnect_a_lost_runtime_exits_with_3(options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Program(Names(), options), begin_and_close) == 3
    assert f"error: lost the runtime at {options.socket}" in capsys.readouterr().err


def test_a_refused_registration_exits_with_1(options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Program(Names(), options), refuse) == 1
    assert "error: the runtime refused plugin 10-names: no such plugin wanted" in capsys.readouterr().err


def test_a_refusal_after_a_good_connection_is_retried(options: Options) -> None:
    options.no_reconnect = False

    def begin_and_stop(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        os.kill(os.getpid(), signal.SIGTERM)

    assert run(Program(Names(), options), begin_and_close, refuse, begin_and_stop) == 0


def test_events_without_a_handler_exit_with_1_without_a_retry(
    options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    options.no_reconnect, options.events = False, nri.EventMask.of("StopContainer")

    def configure(runtime: ScriptedRuntime) -> None:
        runtime.register()
        assert runtime.configure().code == 2

    assert run(Program(Names(), options), configure) == 1
    assert "error: Names handles none of the selected events: StopContainer" in capsys.readouterr().err


def test_an_invalid_configuration_exits_with_2_and_leaves_a_note(options: Options, tmp_path: Path) -> None:
    class Pin(Names):
        class Config:
            cpus: int = 1

    def configure(runtime: ScriptedRuntime) -> None:
        runtime.register()
        assert runtime.configure("cpus: many").code == 2

    assert run(Program(Pin(), options), configure) == 2
    (note,) = read_notes(str(tmp_path))
    assert note.plugin == "10-names" and "cpus: expected a whole number" in note.error


def test_a_refused_registration_leaves_no_note(options: Options, tmp_path: Path) -> None:
    assert run(Program(Names(), options), refuse) == 1
    assert read_notes(str(tmp_path)) == []


def test_a_wrong_choice_of_events_ends_the_program_on_any_connection(
    options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plugin's own mistake does not change; only a refusal by the runtime may."""
    options.no_reconnect = False
    masks = iter([None, nri.EventMask(0)])

    class Chooses(Names):
        def configure(self):
            return next(masks)

    def configure(runtime: ScriptedRuntime) -> None:
        runtime.register()
        assert runtime.configure().code
        assert runtime.closed_by_plugin()

    assert run(Program(Chooses(), options), begin_and_close, configure) == 1
    assert "Chooses.configure returned an empty mask" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("updates", "calls", "suspicion"),
    [
        (0, ["Configure"], "right after Configure: it probably refused the events CreateContainer"),
        (2, ["Configure", "Synchronize"], "it probably could not apply the 2 updates that synchronize returned"),
        (0, ["Configure", "Synchronize"], None),
        (2, ["Configure", "Synchronize", "CreateContainer"], None),
    ],
)
def test_a_disconnect_is_logged_with_the_last_request_as_the_likely_cause(
    options: Options, capsys: pytest.CaptureFixture[str], updates: int, calls: list[str], suspicion: str | None
) -> None:
    class Asks(Names):
        def synchronize(self, pods, containers):
            return [nri.Update(f"c{i}").set_cpu_shares(512) for i in range(updates)]

    def hang_up(runtime: ScriptedRuntime) -> None:
        runtime.register()
        runtime.configure()
        for call in calls[1:]:
            assert not runtime.call(call, CREATE if call == "CreateContainer" else b"").code
        runtime.close()

    assert run(Program(Asks(), options), hang_up) == 3
    err = capsys.readouterr().err
    assert (suspicion in err) if suspicion else "right after" not in err, err


def test_a_disconnect_after_the_plugins_own_error_has_no_suspected_cause(
    options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    options.no_reconnect = False

    class Fails(Names):
        def synchronize(self, pods, containers):
            raise ValueError("the cache is bad")

    def hang_up(runtime: ScriptedRuntime) -> None:
        runtime.register()
        runtime.configure()
        assert runtime.call("Synchronize").code
        runtime.close()

    def begin_and_stop(runtime: ScriptedRuntime) -> None:
        runtime.register()
        os.kill(os.getpid(), signal.SIGTERM)

    assert run(Program(Fails(), options), hang_up, begin_and_stop) == 0
    assert "connection lost: synchronize failed: ValueError: the cache is bad; connecting again" in caplog.text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_program_with_its_code(options: Options, number: int, code: int) -> None:
    def begin_and_signal(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        os.kill(os.getpid(), number)
        assert runtime.closed_by_plugin()

    assert run(Program(Names(), options), begin_and_signal) == code


@pytest.mark.parametrize("leaves", ["handler", "background", "background, after a signal"])
def test_sys_exit_ends_the_program_with_its_code(options: Options, leaves: str) -> None:
    class Leaves(Names):
        @nri.every(0.01)
        def work(self):
            if leaves == "handler":
                return
            if leaves != "background":
                os.kill(os.getpid(), signal.SIGTERM)
                wait_for(lambda: bool(program.stop), "the signal")
            sys.exit(7)

        def create_container(self, pod, container):
            sys.exit(7)

    def begin_and_ask(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        if leaves == "handler":
            runtime.send("CreateContainer", CREATE)
        assert runtime.closed_by_plugin()

    options.no_reconnect = False
    program = Program(Leaves(), options)
    with pytest.raises(SystemExit) as raised:
        run(program, begin_and_ask)
    assert raised.value.code == 7


def test_a_signal_just_before_the_wait_is_not_lost(options: Options) -> None:
    def begin_and_signal(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        time.sleep(0.3)  # the main thread waits by now
        # Another thread takes the signal, so the main thread continues to wait, as if it had begun to wait afterwards.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        assert runtime.closed_by_plugin()

    assert run(Program(Names(), options), begin_and_signal) == 0


def test_without_a_runtime_the_program_exits_with_3(options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    assert Program(Names(), options).run() == 3
    assert "Is NRI on? try: nri doctor" in capsys.readouterr().err


def test_background_work_runs_and_ends_with_the_program(options: Options) -> None:
    ran = threading.Event()

    class Works(Names):
        @nri.every(0.01)
        def work(self) -> None:
            ran.set()

    def wait(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        assert ran.wait(10)
        runtime.close()

    before = threading.enumerate()
    assert run(Program(Works(), options), wait) == 3
    assert not [one for one in threading.enumerate() if one.name == "nri-every-work" and one not in before]


def test_the_options_reach_the_session(options: Options) -> None:
    options.events = nri.EventMask.of("StartContainer")
    entries: list[Any] = []

    class Two(Names):
        def start_container(self, pod, container): ...

    def look(runtime: ScriptedRuntime) -> None:
        request = runtime.register()
        reply = m.ConfigureResponse.FromString(runtime.configure().payload)
        entries.append((request.plugin_idx, request.plugin_name, nri.EventMask(reply.events)))

    run(Program(Two(), options), lambda runtime: (look(runtime), runtime.close())[1])
    assert entries == [("10", "names", options.events)]


def test_every_session_calls_the_reporter(options: Options) -> None:
    begun: list[str] = []

    class Reporter:
        def event_begins(self, event: str, serial: int, request: bytes) -> None:
            begun.append(event)

        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

    def create(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        assert not runtime.call("CreateContainer", CREATE).code
        runtime.close()

    run(Program(Names(), options, reporter=Reporter()), create)
    assert begun == ["Configure", "Synchronize", "CreateContainer"]


def test_an_inherited_connection_is_served_once(
    options: Options, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    near_end, far_end = socket.socketpair()
    runtime = ScriptedRuntime(near_end)
    monkeypatch.setenv(naming.ENV_SOCKET, "3")
    options.socket_fd = far_end.detach()
    thread = threading.Thread(target=begin_and_close, args=(runtime,), daemon=True)
    thread.start()
    with caplog.at_level("INFO"):
        assert Program(Names(), options).run() == 0
    thread.join(10)
    assert naming.ENV_SOCKET not in os.environ, "a child process would take the descriptor for its own"
    assert "connection closed by the runtime" in caplog.text


def test_an_invalid_descriptor_exits_with_2_and_is_logged(
    options: Options, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    options.socket_fd = 999
    assert Program(Names(), options).run() == 2
    assert 'invalid socket in environment (NRI_PLUGIN_SOCKET="999")' in capsys.readouterr().err
    assert 'invalid socket in environment (NRI_PLUGIN_SOCKET="999")' in caplog.text


def test_readiness_follows_the_connection_and_systemd_is_notified(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[tuple[bool, str]] = []
    program = Program(Names(), options)
    readiness = program.health

    def look(runtime: ScriptedRuntime) -> None:
        answers.append(readiness())
        runtime.begin()
        assert notify.recv(100) == b"READY=1"
        answers.append(readiness())
        runtime.close()

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        run(program, look)
        assert notify.recv(100) == b"STOPPING=1"
    assert answers == [(False, "not synchronized with a runtime\n"), (True, "ready\n")]


def test_the_process_is_not_ready_while_a_handler_hangs(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HANG_S", 0.05)
    begun, end = threading.Event(), threading.Event()
    answers: list[tuple[bool, str]] = []

    class Hangs(Names):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            begun.set()
            end.wait(60)

    program = Program(Hangs(), options)

    def look(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        thread = threading.Thread(target=runtime.call, args=("CreateContainer", CREATE))
        thread.start()
        assert begun.wait(20)
        answers.append(program.health())
        end.set()
        thread.join(20)
        runtime.close()

    run(program, look)
    assert answers == [(False, "a handler has not returned for 0.05 s\n")]


def test_a_configuration_file_overrides_the_runtimes_text_and_is_watched(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.stub.program.config_watch.WATCH_S", 0.01)
    file = tmp_path / "pin.yaml"
    file.write_text("cpus: 2\n")
    options.config = str(file)

    class Pin(Names):
        class Config:
            cpus: int = 1
            mems: int = 1

    plugin = Pin()

    def change(runtime: ScriptedRuntime) -> None:
        runtime.register()
        assert not runtime.configure("cpus: 3\nmems: 4\n").code
        assert (plugin.config.cpus, plugin.config.mems) == (2, 4)
        (tmp_path / "new").write_text("cpus: 5\n")
        (tmp_path / "new").replace(file)
        wait_for(lambda: (plugin.config.cpus, plugin.config.mems) == (5, 4), "the new configuration")
        runtime.close()

    assert run(Program(plugin, options), change) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [("cpus: many\n", "pin.yaml:1: cpus: expected a whole number"), (None, "pin.yaml: cannot read it")],
)
def test_an_invalid_configuration_file_exits_with_2_without_a_runtime(
    options: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    class Pin(Names):
        class Config:
            cpus: int = 1

    options.config, options.no_reconnect = str(tmp_path / "pin.yaml"), False
    if text is not None:
        (tmp_path / "pin.yaml").write_text(text)
    program = Program(Pin(), options)
    program.reconnect.connect = lambda: pytest.fail("it waits for the runtime")  # type: ignore[method-assign]
    assert program.run() == 2
    assert message in capsys.readouterr().err
    assert message in read_notes(str(tmp_path))[0].error


def test_an_invalid_file_at_a_reconnect_keeps_the_last_valid_configuration(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nri.stub.program.config_watch.WATCH_S", 0.01)
    options.config, options.no_reconnect = str(tmp_path / "pin.yaml"), False

    class Pin(Names):
        class Config:
            cpus: int = 1

    plugin = Pin()

    def write(text: str) -> None:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(tmp_path / "pin.yaml")

    def good(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        runtime.close()
        write("cpus: many\n")

    def broken(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        assert plugin.config.cpus == 2
        write("cpus: 3\n")
        wait_for(lambda: plugin.config.cpus == 3, "the changed configuration")
        os.kill(os.getpid(), signal.SIGTERM)

    write("cpus: 2\n")
    program = Program(plugin, options)
    monkeypatch.setattr(
        program.reconnect, "pause", lambda seconds: wait_for(lambda: "many" in (tmp_path / "pin.yaml").read_text())
    )
    assert run(program, good, broken) == 0
    assert "pin.yaml:1: cpus: expected a whole number" in caplog.text
    assert "the previous configuration stays in use" in caplog.text


def test_an_invalid_text_of_a_reconnected_runtime_is_an_error(options: Options) -> None:
    class Pin(Names):
        class Config:
            cpus: int = 1

    def good(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        runtime.close()

    def wrong(runtime: ScriptedRuntime) -> None:
        runtime.register()
        assert "cpus: expected a whole number" in runtime.configure("cpus: many\n").message

    options.no_reconnect = False
    program = Program(Pin(), options)
    assert run(program, good, wrong) == 2


def test_a_change_just_after_the_file_was_read_is_noticed(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.stub.program.config_watch.WATCH_S", 0.01)
    file = tmp_path / "pin.yaml"
    file.write_text("cpus: 2\n")
    options.config = str(file)
    apply, news = settings.apply, ["cpus: 5\n"]

    def read_and_changed(*argument: Any) -> None:
        apply(*argument)
        if news:
            (tmp_path / "new").write_text(news.pop())
            (tmp_path / "new").replace(file)

    monkeypatch.setattr(settings, "apply", read_and_changed)

    class Pin(Names):
        class Config:
            cpus: int = 1

    plugin = Pin()

    def begin(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        try:
            wait_for(lambda: plugin.config.cpus == 5, "the new configuration")
        finally:
            runtime.close()

    assert run(Program(plugin, options), begin) == 3


def test_a_successful_start_removes_the_note_of_a_failure(options: Options) -> None:
    write_note(options.socket, "10-names", "no disk")
    folder = os.path.dirname(options.socket)
    assert read_notes(folder)
    assert run(Program(Names(), options), begin_and_close) == 3
    assert not read_notes(folder)


def test_with_reconnect_a_failed_configure_is_retried(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    options.no_reconnect = False
    chances: list[int] = []

    class Fails(Names):
        def configure(self) -> None:
            chances.append(1)
            if len(chances) == 1:
                raise OSError("the disk is not there yet")

    def failing(runtime: ScriptedRuntime) -> None:
        runtime.register()
        assert "the disk is not there yet" in runtime.configure().message
        runtime.close()

    def working(runtime: ScriptedRuntime) -> None:
        runtime.begin()
        os.kill(os.getpid(), signal.SIGTERM)

    program = Program(Fails(), options)
    monkeypatch.setattr(program.reconnect, "pause", lambda seconds: None)
    assert run(program, failing, working) == 0
    assert len(chances) == 2


def test_an_internal_error_is_not_a_lost_connection(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    run_session = Session.run

    def broken(self: Session) -> str:
        with suppress(nri.NriError):
            run_session(self)
        raise ZeroDivisionError("in the session")

    monkeypatch.setattr("nri.stub.program.process.Session.run", broken)
    with pytest.raises(ZeroDivisionError):
        run(Program(Names(), options), lambda runtime: runtime.close())


def test_the_plugins_metrics_are_served_and_their_errors_logged(
    options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    class Measured(Names):
        def measurements(self) -> str:
            return f"gauge {1 / self.parts}\n"

        parts = 1

    plugin = Measured()
    program = Program(plugin, options)
    assert program.measurements() == "gauge 1.0\n"
    plugin.parts = 0
    assert program.measurements() == ""
    assert "measurements cannot be reported" in caplog.text
    assert Names().measurements() == ""
