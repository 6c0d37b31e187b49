"""A plugin's process: start, waiting, reconnection, stop and exit codes."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from nri.api import messages as m
from tests.support.plugin_program import Listener, plugin_file, plugin_program
from tests.support.scripted_runtime import ScriptedRuntime
from tests.support.waiting import wait_for

POD = m.PodSandbox(id="p0", name="web", namespace="default")
CREATE = m.CreateContainerRequest(pod=POD, container=m.Container(id="c0", pod_sandbox_id="p0"))


def env_of(runtime: ScriptedRuntime) -> dict[str, str]:
    response = runtime.call("CreateContainer", CREATE)
    assert not response.code, response.message
    return {e.key: e.value for e in m.CreateContainerResponse.FromString(response.payload).adjust.env}


@pytest.fixture
def sock(tmp_path: Path) -> Path:
    return tmp_path / "nri.sock"


# -- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "expected_text"),
    [
        (["--idx", "1"], 2, 'invalid plugin index "1", must be 2 digits'),
        (["--no-reconnect", "--socket-path", "/nonexistent/nri.sock"], 3, "try: nri doctor"),
        (["--idx", "10", "--frobnicate"], 2, "--frobnicate: unknown argument (see --help)"),
        (["--idx"], 2, "--idx: needs a value"),
        (["--idx", "10", "--name", "a b"], 2, "contains invalid character"),
        (["--idx", "10", "--events", "pods"], 2, 'unknown event "pods"'),
        (["--idx", "10", "--log-level", "loud"], 2, "one of debug, info, warning, error"),
        (["--idx", "10", "--no-reconnect", "--socket-path", "/nonexistent/nri.sock"], 3, "try: nri doctor"),
        (["--idx", "10", "--no-reconnect", "--socket-path", "/tmp/" + "x" * 120], 2, "--socket-path"),
        (["--idx", "10", "--config", "/nonexistent.yaml", "--help"], 0, "--no-reconnect"),
        (["--version"], 0, "NRI v0.12.5"),
    ],
)
def test_a_wrong_start_prints_one_line_and_a_documented_exit_code(tmp_path, arguments, code, expected_text) -> None:
    with plugin_program(tmp_path, plugin_file(tmp_path), *arguments) as program:
        assert program.exit_code() == code, program.text()
        assert expected_text in program.text()
        assert "Traceback" not in program.text()


def test_a_forbidden_socket_exits_with_3_without_waiting(monkeypatch, capsys) -> None:
    """Root may open every socket, so the test replaces the kernel's answer."""
    from nri.stub.plugin import Plugin
    from nri.stub.program import options, reconnect, start

    def refuse(path: str):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reconnect, "connect_unix", refuse)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        parsed = options.parse(["--idx", "10"], {}, "x.py", "x")
        assert start.run(type("X", (Plugin,), {"run_pod_sandbox": lambda self, pod: None}), parsed) == 3
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "permission denied. Run as root, or try: nri doctor" in capsys.readouterr().err


def test_a_registration_refused_the_first_time_exits_with_1(tmp_path, sock) -> None:
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock) as program,
    ):
        runtime = listener.accept()
        runtime.answer(runtime.request(), code=2, text="no such plugin wanted")
        assert program.exit_code() == 1
        assert "the runtime refused plugin 10-pod-name: no such plugin wanted" in program.text()


def test_an_unusable_configuration_exits_with_2(tmp_path, sock) -> None:
    file = plugin_file(tmp_path, "class Config:\n    cpus: int = 1")
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, file, "-idx", "10", "-socket-path", sock) as program,
    ):
        runtime = listener.accept()
        runtime.register()
        assert runtime.configure("cpus: many\n").code == 2
        assert program.exit_code() == 2, program.text()
        assert "cpus: expected a whole number" in program.text() and "Traceback" not in program.text()


@pytest.mark.parametrize(
    ("more", "arguments", "expected_text"),
    [
        ("", ["--events", "StopContainer"], "PodName handles none of the selected events: StopContainer"),
        ("def configure(self):\n    return nri.EventMask(0)", [], "PodName.configure returned an empty mask"),
        ("def configure(self):\n    return 'all'", [], "PodName.configure returned str"),
    ],
)
def test_a_plugin_that_can_never_work_exits_with_1_and_does_not_reconnect(
    tmp_path, sock, more, arguments, expected_text
) -> None:
    file = plugin_file(tmp_path, more or "pass")
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, file, "--idx", "10", "--socket-path", sock, *arguments) as program,
    ):
        runtime = listener.accept()
        runtime.register()
        assert runtime.configure().code
        assert program.exit_code() == 1, program.text()
        assert program.text().count("error: ") == 1 and expected_text in program.text(), program.text()


LOUD = """
    log_file = None

    def configure(self):
        import logging
        self.log.info("configured")
        self.log.warning("careful")
        logging.getLogger("library").warning("not by way of the plugin's log")

    def synchronize(self, pods, containers):
        self.log.info("synchronized")
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines_of_configure_and_synchronize_go_to_the_log_file(tmp_path, sock, form) -> None:
    log = tmp_path / "plugin.log"
    arguments = ["--idx", "10", "--socket-path", sock, "--log-file", log, "--log-format", form]
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, plugin_file(tmp_path, LOUD), *arguments) as program,
    ):
        listener.accept().begin()
        assert program.stop() == 0
    assert program.text() == "", "nothing passes the file"
    lines = [line for line in log.read_text().splitlines() if "the runtime allows" not in line]  # on a slow machine
    messages = [json.loads(line)["message"] if form == "json" else line.partition(": ")[2] for line in lines]
    assert messages[:4] == ["configured", "careful", "not by way of the plugin's log", "synchronized"]


@pytest.mark.parametrize("method", ["configure", "synchronize"])
def test_an_exception_of_configure_or_synchronize_is_logged_and_retried(tmp_path, sock, method) -> None:
    arguments = "self" if method == "configure" else "self, pods, containers"
    more = f"""
        tries = 0

        def {method}({arguments}):
            self.tries += 1
            if self.tries == 1:
                raise ConnectionRefusedError("no API server yet")
    """
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, plugin_file(tmp_path, more), "--idx", "10", "--socket-path", sock) as program,
    ):
        runtime = listener.accept()
        runtime.register()
        response = runtime.configure()
        if method == "synchronize":
            response = runtime.call("Synchronize", m.SynchronizeRequest())
        assert response.message == "plugin 10-pod-name: ConnectionRefusedError: no API server yet"
        note = tmp_path / "failed-plugins" / "10-pod-name"
        runtime.close()
        second = listener.accept()
        assert "no API server yet" in json.loads(note.read_text())["error"]
        second.begin()
        program.wait_text("registered")
        assert env_of(second) == {"POD_NAME": "web"}
        assert not note.exists(), "it takes part again"
    assert f"connection lost: {method} failed: ConnectionRefusedError: no API server yet" in program.text()
    assert "Traceback" in program.text()


def test_an_exception_of_configure_without_reconnect_exits_with_1(tmp_path, sock) -> None:
    more = "def configure(self):\n    raise LookupError('no such zone')"
    arguments = ["--idx", "10", "--socket-path", sock, "--no-reconnect"]
    with Listener(sock) as listener, plugin_program(tmp_path, plugin_file(tmp_path, more), *arguments) as program:
        runtime = listener.accept()
        runtime.register()
        runtime.configure()
        runtime.close()
        assert program.exit_code() == 1
        assert "error: configure failed: LookupError: no such zone" in program.text()


def test_a_runtime_that_hangs_up_after_synchronize_is_retried_with_growing_pauses(tmp_path, sock) -> None:
    more = "def synchronize(self, pods, containers):\n    return [nri.Update('gone').set_cpu_shares(512)]"
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, plugin_file(tmp_path, more), "--idx", "10", "--socket-path", sock) as program,
    ):
        for _ in range(4):
            runtime = listener.accept()
            runtime.begin()
            runtime.close()
        program.wait_text("connection lost")
        lines = [line for line in program.text().splitlines() if "connection lost" in line]
    reason = "right after Synchronize: it probably could not apply the 1 update that synchronize returned"
    assert all(reason in line for line in lines), lines


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_the_plugin_cleanly(tmp_path, sock, number, code) -> None:
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock) as program,
    ):
        runtime = listener.accept()
        runtime.begin()
        program.process.send_signal(number)
        assert runtime.closed_by_plugin()
        assert program.exit_code() == code


def test_a_signal_stops_a_plugin_that_waits_for_the_runtime(tmp_path, sock) -> None:
    with plugin_program(tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock) as program:
        program.wait_text("waiting for")
        assert program.stop() == 0


def test_a_signal_during_a_handler_waits_for_its_reply(tmp_path, sock) -> None:
    more = "def start_container(self, pod, container):\n    print('busy', flush=True); import time; time.sleep(0.3)"
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, plugin_file(tmp_path, more), "--idx", "10", "--socket-path", sock) as program,
    ):
        runtime = listener.accept()
        runtime.begin()
        runtime.send("StartContainer", m.StartContainerRequest(pod=POD))
        program.wait_text("busy")
        program.process.send_signal(signal.SIGTERM)
        assert not runtime.response().code
        assert program.exit_code() == 0


# -- waiting and connecting again -------------------------------------------------------------------------------------


def test_a_socket_that_appears_later_is_used(tmp_path, sock) -> None:
    with plugin_program(tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock) as program:
        program.wait_text(f"waiting for {sock}: No such file or directory. Is NRI on? try: nri doctor")
        with Listener(sock) as listener:
            runtime = listener.accept()
            runtime.begin()
            assert env_of(runtime) == {"POD_NAME": "web"}


def test_a_plugin_reconnects_to_a_restarted_runtime_and_is_synchronized(tmp_path, sock) -> None:
    more = "def synchronize(self, pods, containers):\n    print('synchronized', len(pods), flush=True)"
    with plugin_program(tmp_path, plugin_file(tmp_path, more), "--idx", "10", "--socket-path", sock) as program:
        for turn in range(3):
            with Listener(sock) as listener:
                runtime = listener.accept()
                runtime.register()
                runtime.configure()
                runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD] * turn))
                program.wait_text(f"synchronized {turn}")
                assert env_of(runtime) == {"POD_NAME": "web"}
                runtime.close()
        assert program.stop() == 0


def test_a_refusal_after_a_successful_connection_is_retried(tmp_path, sock) -> None:
    with plugin_program(tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock):
        with Listener(sock) as listener:
            first = listener.accept()
            first.begin()
            first.close()
            second = listener.accept()
            second.answer(second.request(), code=2, text="still cleaning up")
            third = listener.accept()
            third.begin()
            assert env_of(third) == {"POD_NAME": "web"}


def test_a_lost_connection_without_reconnect_exits_with_3(tmp_path, sock) -> None:
    with (
        Listener(sock) as listener,
        plugin_program(
            tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock, "--no-reconnect"
        ) as program,
    ):
        runtime = listener.accept()
        runtime.begin()
        runtime.close()
        assert program.exit_code() == 3
        assert f"lost the runtime at {sock}" in program.text()


def test_a_runtime_that_closes_every_connection_is_retried_slowly(tmp_path, sock) -> None:
    """There is no busy loop: it would make thousands of connections in half a minute."""
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock) as program,
    ):
        listener.accept().close()
        before = program.cpu_s()
        until = time.monotonic() + 3
        connections = 0
        listener.sock.settimeout(0.2)
        while time.monotonic() < until:
            try:
                listener.accept().close()
                connections += 1
            except TimeoutError:
                pass
        assert connections < 40, f"{connections} connections in 3 s"
        assert program.cpu_s() - before < 1.0, "the plugin spins"


def test_an_idle_plugin_uses_no_cpu(tmp_path, sock) -> None:
    with (
        Listener(sock) as listener,
        plugin_program(tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock) as program,
    ):
        listener.accept().begin()
        program.wait_text("registered")

        def idle() -> bool:
            before = program.cpu_s()
            time.sleep(1)
            return program.cpu_s() - before <= 0.02

        wait_for(idle, "it comes to rest")  # work after the log line may take a moment


# -- identity and the pre-installed start -----------------------------------------------------------------------------


def test_environment_and_flags_set_the_index_and_the_name(tmp_path, sock) -> None:
    env = {**os.environ, "NRI_PLUGIN_IDX": "33", "NRI_PLUGIN_NAME": "from-env", "NRI_SOCKET": str(sock)}
    with Listener(sock) as listener:
        for arguments, expected in ([], ("33", "from-env")), (["-name=flag", "--idx=44"], ("44", "flag")):
            with plugin_program(tmp_path, plugin_file(tmp_path), *arguments, env=env):
                request = listener.accept().register()
                assert (request.plugin_idx, request.plugin_name) == expected


def test_a_file_called_nn_name_sets_the_index_and_the_name(tmp_path, sock) -> None:
    file = plugin_file(tmp_path, name="07-special.py")
    with Listener(sock) as listener, plugin_program(tmp_path, file, "--socket-path", sock):
        request = listener.accept().register()
        assert (request.plugin_idx, request.plugin_name) == ("07", "special")


def launched(tmp_path: Path, file: Path, remote: socket.socket, extra_env: dict[str, str] | None = None):
    """Start as a runtime does: three variables, the connection on descriptor 3, nothing else."""
    fd = remote.fileno()
    script = tmp_path / "launch.py"
    script.write_text(
        "import os, sys\n"
        f"os.dup2({fd}, 3); os.set_inheritable(3, True)\n"
        f"os.execve({str(sys.executable)!r}, [{str(sys.executable)!r}, {str(file)!r}], "
        f"{ {'NRI_PLUGIN_NAME': 'pre', 'NRI_PLUGIN_IDX': '05', 'NRI_PLUGIN_SOCKET': '3', **(extra_env or {})}!r})\n"
    )
    return plugin_program(tmp_path, script, pass_fds=(fd,))


def test_a_pre_installed_plugin_serves_on_descriptor_3_and_ends_with_the_connection(tmp_path) -> None:
    local, remote = socket.socketpair()
    more = "def synchronize(self, pods, containers):\n    import os; print(sorted(os.environ), flush=True)"
    with launched(tmp_path, plugin_file(tmp_path, more), remote) as program:
        remote.close()
        runtime = ScriptedRuntime(local)
        request = runtime.register()
        assert (request.plugin_idx, request.plugin_name) == ("05", "pre")
        runtime.configure()
        runtime.call("Synchronize", m.SynchronizeRequest())
        assert env_of(runtime) == {"POD_NAME": "web"}
        runtime.close()
        assert program.exit_code() == 0, program.text()
        assert "NRI_PLUGIN_SOCKET" not in program.text(), "a child process would take the descriptor for its own"
        assert "Traceback" not in program.text(), "a missing syslog is reported in one line"


@pytest.mark.parametrize("value", ["three", "-1", "99"])
def test_a_wrong_descriptor_in_the_environment_exits_with_2(tmp_path, value) -> None:
    env = {**os.environ, "NRI_PLUGIN_SOCKET": value, "NRI_PLUGIN_IDX": "10"}
    with plugin_program(tmp_path, plugin_file(tmp_path), env=env) as program:
        assert program.exit_code() == 2
        assert f'invalid socket in environment (NRI_PLUGIN_SOCKET="{value}")' in program.text()


# -- configuration file, health, notification -------------------------------------------------------------------------


def test_a_changed_configuration_file_calls_configure_again(tmp_path, sock) -> None:
    more = """
        class Config:
            zone: str = "a"

        def configure(self):
            print("zone", self.config.zone, flush=True)
    """
    config = tmp_path / "zone.yaml"
    config.write_text("zone: b\n")
    with (
        Listener(sock) as listener,
        plugin_program(
            tmp_path, plugin_file(tmp_path, more), "--idx", "10", "--socket-path", sock, "--config", config
        ) as program,
    ):
        runtime = listener.accept()
        runtime.begin()
        program.wait_text("zone b")
        config.write_text("zone: [broken\n")
        program.wait_text("configuration not changed")
        config.write_text("zone: changed\n")
        program.wait_text("zone changed")
        assert env_of(runtime) == {"POD_NAME": "web"}


def test_the_health_endpoint_is_ready_only_while_synchronized(tmp_path, sock) -> None:
    import urllib.error
    import urllib.request

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def status(path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    with (
        Listener(sock) as listener,
        plugin_program(
            tmp_path,
            plugin_file(tmp_path),
            "--idx",
            "10",
            "--socket-path",
            sock,
            "--health-addr",
            address,
            "--metrics",
            address,
        ) as program,
    ):
        runtime = listener.accept()
        assert (status("/healthz"), status("/readyz"), status("/other")) == (200, 503, 404)
        runtime.begin()
        program.wait_text("registered")
        assert (status("/readyz"), status("/metrics")) == (200, 200)


def test_systemd_is_notified_of_the_start_and_the_stop(tmp_path, sock) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(10)
        env = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with (
            Listener(sock) as listener,
            plugin_program(tmp_path, plugin_file(tmp_path), "--idx", "10", "--socket-path", sock, env=env) as program,
        ):
            listener.accept().begin()
            assert notify.recv(100) == b"READY=1"
            program.process.send_signal(signal.SIGTERM)
            assert notify.recv(100) == b"STOPPING=1"
