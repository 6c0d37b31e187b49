"""`nri engine`: a dry daemon, the check, settings and the unit."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from nri.cli.settings import Settings
from nri.cli.verbs.engine import ENGINE_OPTIONS, serve
from nri.cri.client import INSTALL, CriClient
from nri.errors import ConfigError, NriError
from tests.support.cri_server import CriServer
from tests.unit.cli.conftest import command, environment
from tests.unit.cli.dry_engine import (
    TIMEOUT_S,
    engine,
    pod_with_container,
    settings,
    starting_engine,
    wait_logged,
)
from tests.unit.engine.images.test_archive import archive

NO_PROGRAM = "program /none/conmon not found"


def test_the_engine_logs_its_socket_and_serves_pods(nri, tmp_path: Path) -> None:
    with engine(tmp_path):
        with CriClient(str(tmp_path / "cri.sock")) as cri:
            created = pod_with_container(cri, tmp_path)
        assert created[:13] in nri("pod", "ps", "--cri-socket", str(tmp_path / "cri.sock")).stdout
        assert nri("why", "--plugins", "--admin-socket", str(tmp_path / "admin.sock")).returncode == 0
        (ready,) = [line for line in (tmp_path / "log").read_text().splitlines() if " ready: " in line]
    for what in (
        "CRI at {}/cri.sock",
        "NRI at {}/nri.sock",
        "nri why at {}/admin.sock",
        "exec and attach at http://127.",
    ):
        assert what.format(tmp_path) in ready, ready


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_engine_cleanly(tmp_path: Path, number: int, code: int) -> None:
    with engine(tmp_path) as process:
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == code
    text = (tmp_path / "log").read_text()
    assert f"stopping after {signal.Signals(number).name}; containers keep running" in text
    assert text.rstrip().endswith("stopped")
    assert not (tmp_path / "cri.sock").exists()
    assert not (tmp_path / "nri.sock").exists()


def test_systemd_is_notified_of_start_and_stop(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(TIMEOUT_S)
        with engine(tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify")) as process:
            assert notified.recv(100) == b"READY=1"
            process.terminate()
            assert notified.recv(100) == b"STOPPING=1"
            assert process.wait(TIMEOUT_S) == 0


def test_sighup_and_the_verb_reload_the_settings(nri, tmp_path: Path) -> None:
    file, log, reload = tmp_path / "engine.toml", tmp_path / "log", ["engine", "reload", "--cri-socket"]
    with engine(tmp_path) as process:
        reload.append(str(tmp_path / "cri.sock"))
        assert "no setting changed" in nri(*reload).stderr
        settings(tmp_path, 'log_level = "debug"\n[http]\naddress = "127.0.0.1:1"\n')
        result = nri(*reload)
        assert (result.returncode, result.stdout) == (0, "changed: log_level\n")
        assert "http.address: the new value requires a restart of the engine" in result.stderr
        settings(tmp_path, "log_level = 7\n")
        result = nri(*reload)
        assert result.returncode == 1 and f"{file}:5: log_level: " in result.stderr
        assert "the previous settings stay in force" in result.stderr
        settings(tmp_path)
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + TIMEOUT_S
        while log.read_text().count("reload: changed settings: log_level") < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert json.loads(nri(*reload, "-o", "json").stdout)["adopted"] == []
        assert nri(*reload, "-q").stdout == ""
    assert log.read_text().count("reload: changed settings: log_level") == 2
    assert f"reload: {file}:5: log_level: " in log.read_text()


@pytest.mark.parametrize("moment", ["SigBlk", "settings: "])
def test_a_sighup_during_the_start_takes_effect_when_the_engine_is_ready(tmp_path: Path, moment: str) -> None:
    """At the first instructions of the command, and when it has just read its settings."""
    with starting_engine(tmp_path) as process:
        if moment == "SigBlk":
            while not blocks(process.pid, signal.SIGHUP):
                assert process.poll() is None
        else:
            wait_logged(process, tmp_path, moment)
            settings(tmp_path, 'log_level = "debug"\n')
        process.send_signal(signal.SIGHUP)
        wait_logged(process, tmp_path, "reload: changed settings: ")
        log = (tmp_path / "log").read_text()
        assert log.index(" ready: ") < log.index("reload: changed settings: ")
        assert ("changed settings: log_level" in log) == (moment != "SigBlk")
        assert not blocks(process.pid, signal.SIGHUP)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    assert log.count("reload: changed settings: ") == 1


def test_many_sighups_neither_end_the_engine_nor_are_the_last_lost(tmp_path: Path) -> None:
    with starting_engine(tmp_path) as process:
        while not blocks(process.pid, signal.SIGHUP):
            time.sleep(0.001)
        while " ready: " not in (tmp_path / "log").read_text():
            assert process.poll() is None, (tmp_path / "log").read_text()
            process.send_signal(signal.SIGHUP)
            time.sleep(0.002)
        settings(tmp_path, 'log_level = "debug"\n')
        process.send_signal(signal.SIGHUP)
        wait_logged(process, tmp_path, "changed settings: log_level")


def test_sighup_ends_other_verbs() -> None:
    with subprocess.Popen(command("version"), stdout=subprocess.DEVNULL, env=environment()) as process:
        while not blocks(process.pid, signal.SIGHUP):
            assert process.poll() is None
        process.send_signal(signal.SIGHUP)
        assert process.wait(TIMEOUT_S) == -signal.SIGHUP


def blocks(pid: int, number: int) -> bool:
    """Whether a process blocks a signal."""
    rows = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(rows["SigBlk"], 16) >> (number - 1) & 1)


def test_a_second_engine_on_the_same_folders_is_refused(nri, tmp_path: Path) -> None:
    with engine(tmp_path):
        result = nri("engine", "serve", "--config", str(tmp_path / "engine.toml"))
    assert result.returncode == 1
    assert "error: the engine cannot start: another engine uses " in result.stderr
    assert "try: nri engine check" in result.stderr


def test_pods_survive_a_restart(nri, tmp_path: Path) -> None:
    with engine(tmp_path) as process:
        with CriClient(str(tmp_path / "cri.sock")) as cri:
            created = pod_with_container(cri, tmp_path)
        process.kill()
        process.wait()
    with engine(tmp_path):
        deadline = time.monotonic() + TIMEOUT_S
        state = ""
        while "EXITED" not in state and time.monotonic() < deadline:  # a dry container ends with its engine
            document = json.loads(
                nri("pod", "ps", "-a", "-o", "json", "--cri-socket", str(tmp_path / "cri.sock")).stdout
            )
            document = document[0]["containers"]
            state = document[0]["state"]
        assert (document[0]["id"], state) == (created, "CONTAINER_EXITED")


def test_mistakes_in_settings_exit_with_2(nri, tmp_path: Path) -> None:
    result = nri("engine", "serve", "--config", settings(tmp_path, 'sockt = "/x"\n'))
    assert result.returncode == 2
    assert f'error: {tmp_path}/engine.toml:5: sockt: unknown key (did you mean "socket"?)' in result.stderr


def test_an_unusable_address_is_an_error_and_leaves_no_socket(nri, tmp_path: Path) -> None:
    result = nri("engine", "serve", "--config", settings(tmp_path), "--set", "streaming.address=192.0.2.1")
    assert result.returncode == 1
    assert "cannot listen on 192.0.2.1:0 for exec and attach" in result.stderr
    assert not (tmp_path / "nri.sock").exists()


def test_the_log_can_be_json(tmp_path: Path) -> None:
    argv = command("engine", "serve", "--config", settings(tmp_path), "--log-format", "json", "-v")
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
    assert first["logger"] == "nri.engine"


def test_without_root_the_start_fails_first(tmp_path: Path) -> None:
    script = "import os, sys; os.geteuid = lambda: 1000; from nri.cli.main import main; main(sys.argv[1:])"
    arguments = ["engine", "serve", "--config", settings(tmp_path), "--set", "dry=false"]
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, env=environment()
    )
    assert result.returncode == 1
    assert "the engine requires root. Run it with sudo, or with --dry DIR, which runs no containers" in result.stderr
    assert not (tmp_path / "root").exists()


def test_the_check_lists_problems_with_the_next_step(nri, tmp_path: Path) -> None:
    settings_of = ["--config", settings(tmp_path), "--set", "dry=false", "--set", "conmon=/none/conmon"]
    arguments = ["engine", "check", *settings_of]
    result = nri(*arguments)
    assert result.returncode == 1
    assert [line for line in result.stdout.splitlines() if line.split() == ["conmon", "missing", *NO_PROGRAM.split()]]
    assert "  conmon (missing): apt-get install conmon, or set its path in engine.toml\n" in result.stdout
    document = json.loads(nri(*arguments, "-o", "json").stdout)
    conmon = next(row for row in document if row["what"] == "conmon")
    assert conmon == {
        "what": "conmon",
        "state": "missing",
        "found": NO_PROGRAM,
        "next": "apt-get install conmon, or set its path in engine.toml",
    }
    quiet = nri(*arguments, "-q").stdout
    assert "conmon: program /none/conmon not found; apt-get install conmon" in quiet
    assert "namespaces" not in quiet


def test_a_dry_engine_requires_little(nri, tmp_path: Path) -> None:
    result = nri("engine", "check", "--config", settings(tmp_path), "-o", "json")
    assert result.returncode == 0
    assert [row["what"] for row in json.loads(result.stdout)] == [
        "dry",
        "grpcio, for the CRI",
        "CRI socket",
        "NRI socket",
    ]


def test_the_unit_runs_this_interpreter(nri) -> None:
    text = nri("engine", "unit").stdout
    assert f"ExecStart={sys.executable} -m nri engine serve\n" in text
    assert "Type=notify\n" in text
    assert "KillMode=process\n" in text
    assert json.loads(nri("engine", "unit", "-o", "json").stdout)["unit"] == text


def test_without_its_packages_the_error_names_them(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError(\"No module named 'grpc'\", name='grpc')\n")
    argv = command("engine", "serve", "--dry", str(tmp_path / "dry"))
    variables = environment(PYTHONPATH=str(tmp_path))
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert result.returncode == 1
    assert f"error: the engine requires grpc, which is not installed. Install the extra: {INSTALL}\n" in result.stderr


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        (
            "nri.plugin_request_timeout=-5s",
            "nri: plugin_request_timeout -5 s is too short for a timeout; write 1ms or more",
        ),
        ("runtimes.runc.timeout=0", "runtimes.runc: timeout 0 s is too short for a timeout; write 1ms or more"),
        ("streaming.port=99999", "streaming: port 99999 must be 0, for any free port, or 1 to 65535"),
        ("cgroups.parent=../x", 'cgroups: parent "../x" must not contain ".."'),
        ("containers.pids_limit=-5", "containers: pids_limit -5 must not be negative; 0 means no limit"),
        ("images.size_limit=-1", "images: size_limit -1 must not be negative; 0 means no limit"),
        ("socket=nri.sock", 'socket "nri.sock" must be an absolute path'),
        (f"socket=/{'s' * 107}", "exceeds 107 bytes, the longest path of a socket"),
    ],
)
def test_an_impossible_value_is_an_error_before_the_start(nri, setting: str, complaint: str) -> None:
    for verb in (("engine", "serve"), ("engine", "check"), ("engine", "config", "show")):
        result = nri(*verb, "--set", setting)
        assert (result.returncode, complaint in result.stderr) == (2, True), result.stderr


def test_without_problems_only_notes_are_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nri.cli.verbs import engine as verb
    from nri.config.settings import LoadedSettings
    from nri.engine.config import EngineConfig

    config = EngineConfig(dry=True, root=tmp_path / "root", state=tmp_path / "state", socket=tmp_path / "s")
    monkeypatch.setattr(
        verb.ENGINE_OPTIONS, "load", lambda *_: LoadedSettings(config, {}, (), ("config.toml:3: is old",))
    )
    check = verb.check.callback
    assert check is not None
    with click.Context(verb.check, obj=Settings()):
        assert check() == 0
    captured = capsys.readouterr()
    assert "note: config.toml:3: is old" in captured.err
    assert "nothing is missing" in captured.out and "Next steps" not in captured.out


def test_effective_settings_have_their_origin(nri, tmp_path: Path) -> None:
    file = tmp_path / "engine.toml"
    file.write_text('\nroot = "/r"\n')
    shown = ["engine", "config", "show", "--config", str(file), "--socket", "/s", "--set", "nri.disable=true"]
    result = nri(*shown, env={"NRI_ENGINE_LOG_LEVEL": "debug"})
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["KEY", "VALUE", "FROM"],
        ["socket", "/s", "--socket"],
        ["root", "/r", f"{file}:2"],
        ["log_level", "debug", "NRI_ENGINE_LOG_LEVEL"],
        ["nri.disable", "true", "--set"],
    ]
    effective = json.loads(nri(*shown, "--effective", "-o", "json").stdout)
    assert {"key": "nri.disable", "value": True, "from": "--set"} in effective
    assert {"key": "conmon", "value": "conmon", "from": "default"} in effective


def test_mistakes_exit_with_2_and_one_line_each(nri, tmp_path: Path) -> None:
    file = tmp_path / "engine.toml"
    file.write_text("a = 1\nb = 2\n")
    result = nri("engine", "config", "show", "--config", str(file))
    assert (result.returncode, result.stdout) == (2, "")
    assert [line.startswith(f"error: {file}:{number}: ") for number, line in enumerate(result.stderr.splitlines(), 1)]


def test_without_a_source_the_output_says_so(nri, tmp_path: Path) -> None:
    file = tmp_path / "engine.toml"
    file.write_text("")
    result = nri("engine", "config", "show", "--config", str(file))
    assert (result.returncode, result.stdout) == (0, "")
    assert "--effective shows them" in result.stderr


def test_notes_on_another_runtimes_file_go_to_standard_error(nri, tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    file.write_text('{"nri_support": true}')
    result = nri("engine", "config", "show", "--config", str(file))
    assert f"{file}:1" in result.stdout
    assert 'the key has an old spelling, and iSulad ignores it (write "nri-support")' in result.stderr


def test_keys_are_described_and_an_unknown_prefix_is_an_error(nri) -> None:
    result = nri("engine", "config", "keys", "nri.plugin_request")
    assert result.stdout.split("\n")[1].startswith('nri.plugin_request_timeout  duration  "2s"')
    assert nri("engine", "config", "keys", "sockets").returncode == 2


def test_a_dry_engine_has_all_its_files_in_one_folder(tmp_path: Path) -> None:
    options = {"files": (), "assignments": ("nri.policy_path=",), "set_dry": str(tmp_path)}
    settings = ENGINE_OPTIONS.load(Settings(), options).settings
    assert settings.dry
    assert {path.parent for path in (settings.root, settings.state, settings.socket)} == {tmp_path}
    assert (settings.nri.admin_socket, settings.nri.policy_path) == (f"{tmp_path}/admin.sock", "")
    with pytest.raises(ConfigError, match=r"--dry: /dev/null is not a folder"):
        ENGINE_OPTIONS.load(Settings(), options | {"set_dry": "/dev/null"})


def test_an_archive_is_loaded_under_a_name(nri, tmp_path: Path) -> None:
    file = archive(tmp_path / "app.tar", "./manifest.json")
    with engine(tmp_path):
        result = nri("engine", "load", str(file), "app:1", "--cri-socket", str(tmp_path / "cri.sock"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("app:1: sha256:")


def test_only_the_engine_loads_archives_over_the_cri(nri, tmp_path: Path) -> None:
    file = archive(tmp_path / "app.tar", "oci-layout")
    with CriServer().listening(tmp_path / "cri.sock") as path:
        result = nri("engine", "load", str(file), "app:1", "--cri-socket", path)
    assert result.returncode == 1
    assert f"cannot load archives over the CRI. Use: ctr -n k8s.io images import {file}" in result.stderr


def test_only_the_engine_is_reloaded(nri, tmp_path: Path) -> None:
    with CriServer().listening(tmp_path / "cri.sock") as path:
        result = nri("engine", "reload", "--cri-socket", path)
    assert result.returncode == 1
    assert "is not nri's engine. Restart it, or see its documentation" in result.stderr


def test_an_engine_that_is_older_than_the_command_is_not_reloaded(nri, tmp_path: Path) -> None:
    server = CriServer()
    server.runtime = "nri-engine"
    with server.listening(tmp_path / "cri.sock") as path:
        result = nri("engine", "reload", "--cri-socket", path)
    assert result.returncode == 1
    assert "the running engine is older than this command and cannot reload its settings: restart it" in result.stderr


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("more than one image in oci, choose an image", "try: nri engine load oci-archive:{}:NAME app"),
        ("no space left on device", "no space left on device"),
    ],
)
def test_for_an_archive_with_several_images_a_name_is_required(nri, tmp_path: Path, answer: str, text: str) -> None:
    file = archive(tmp_path / "app.tar", "oci-layout")
    server = CriServer()
    server.runtime, server.pull_error = "nri-engine", answer
    with server.listening(tmp_path / "cri.sock") as path:
        result = nri("engine", "load", str(file), "app", "--cri-socket", path)
    assert result.returncode == 1
    assert text.format(file) in result.stderr


def test_a_missing_package_is_an_error_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class NotThere:
        """Finds the daemon, and that it cannot be loaded."""

        def __init__(self, missing: str) -> None:
            self.missing = missing

        def find_spec(self, name: str, *_: object) -> None:
            if name == "nri.engine.program":
                raise ModuleNotFoundError(f"No module named {self.missing!r}", name=self.missing)

    monkeypatch.delitem(sys.modules, "nri.engine.program", raising=False)
    monkeypatch.setattr(sys, "meta_path", [NotThere("grpc"), *sys.meta_path])
    with pytest.raises(NriError, match="the engine requires grpc, which is not installed"):
        serve.main(["--dry", str(tmp_path)], obj=Settings(), standalone_mode=False)
    monkeypatch.setattr(sys, "meta_path", [NotThere("nri.gone"), *sys.meta_path[1:]])
    with pytest.raises(ModuleNotFoundError):  # a defect of our code is not a missing package
        serve.main(["--dry", str(tmp_path)], obj=Settings(), standalone_mode=False)
