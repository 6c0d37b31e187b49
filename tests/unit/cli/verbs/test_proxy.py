"""`nri proxy` in front of a dry engine: settings, messages and signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.cli.settings import Settings
from nri.cli.verbs.agent.agent import AGENT_OPTIONS
from nri.cli.verbs.proxy import PROXY_OPTIONS
from nri.cli.verbs.proxy import command as proxy_command
from nri.cri.client import CriClient
from nri.errors import NriError
from nri.trace.history import Event, Note, Trace
from tests.unit.cli.conftest import command, environment
from tests.unit.cli.dry_engine import TIMEOUT_S, engine, pod_with_container


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plugins").mkdir()
    return tmp_path


@contextmanager
def proxy(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A proxy before the dry engine in a folder, ready; killed at the end if it still runs."""
    argv = command(
        "proxy", "--config", "/dev/null", "--listen", f"{folder}/p.sock", "--runtime-endpoint", f"{folder}/cri.sock",
        "--plugin-path", f"{folder}/plugins", "--policy", "", "--state", f"{folder}/known",
        "--socket-path", f"{folder}/pnri.sock", "--set", "nri.admin_socket=", *arguments,
    )  # fmt: skip
    log = folder / "proxy.log"
    with log.open("wb") as output, subprocess.Popen(argv, stderr=output, env=environment()) as process:
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while " ready: " not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def test_engine_and_proxy_record_their_events(folder: Path) -> None:
    traces = {where: folder / where for where in ("engine", "proxy")}
    with (
        engine(folder, "--record", str(traces["engine"])) as behind,
        proxy(folder, "--record", str(traces["proxy"]), "--record-max-size", "1") as process,
    ):
        with CriClient(f"{folder}/p.sock") as cri:
            pod_with_container(cri, folder)
        for item in (process, behind):
            item.send_signal(signal.SIGTERM)
            assert item.wait(TIMEOUT_S) == 0
    for where, path in traces.items():
        items = list(Trace(path).items())
        opened, names = items[0], [item.name for item in items if isinstance(item, Event)]
        assert isinstance(opened, Note)
        assert where in opened.about["command"]
        assert opened.about["redact"] == "values"
        assert "RunPodSandbox" in names
        assert "CreateContainer" in names


def test_the_proxy_logs_its_socket_and_pods_are_created_through_it(nri, folder: Path) -> None:
    with engine(folder), proxy(folder) as process:
        with CriClient(f"{folder}/p.sock") as cri:
            created = pod_with_container(cri, folder)
        listed = nri("pod", "ps", "-o", "json", "--cri-socket", f"{folder}/p.sock")
        assert [row["id"] for row in json.loads(listed.stdout)[0]["containers"]] == [created]
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        (ready,) = [line for line in (folder / "proxy.log").read_text().splitlines() if " ready: " in line]
        assert f"CRI at {folder}/p.sock" in ready
        assert f"NRI at {folder}/pnri.sock" in ready
        # The container runs on without it.
        assert created[:13] in nri("pod", "ps", "--cri-socket", f"{folder}/cri.sock").stdout


def test_ctrl_c_exits_with_130(folder: Path) -> None:
    with engine(folder), proxy(folder) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130


def test_an_unusable_socket_exits_with_1(nri, folder: Path) -> None:
    (folder / "file").touch()
    result = nri(
        "proxy", "--config", "/dev/null", "--listen", f"{folder}/file/p.sock", "--runtime-endpoint", f"{folder}/c.sock",
        "--state", f"{folder}/known", "--socket-path", f"{folder}/n.sock", "--plugin-path", f"{folder}/plugins",
        "--policy", "", "--set", "nri.admin_socket=",
    )  # fmt: skip
    assert result.returncode == 1
    assert "error: the proxy cannot start: " in result.stderr
    assert "Errno" not in result.stderr


@pytest.mark.parametrize("option", ["listen", "runtime_endpoint", "state"])
def test_flags_of_the_proxy_equal_keys_of_the_agents_proxy(option: str) -> None:
    options = {"files": ("/dev/null",), "assignments": ()}
    proxy = PROXY_OPTIONS.load(Settings(), options | {f"set_{option}": "/flag"}).settings
    assert str(getattr(proxy, option)) == "/flag"
    agent = AGENT_OPTIONS.load(Settings(), options | {"assignments": (f"proxy.{option}=/agent",)}).settings
    assert str(getattr(agent.proxy, option)) == "/agent"


def test_a_folder_of_hook_servers_enables_them() -> None:
    options = {"files": ("/dev/null",), "assignments": (), "set_hook_servers": "/hooks"}
    enabled = PROXY_OPTIONS.load(Settings(), options).settings.hook_servers
    assert (enabled.enable, str(enabled.folder)) == (True, "/hooks")


@pytest.mark.parametrize("module", ["nri.proxy.settings", "nri.proxy.program"])
def test_without_its_extra_the_error_has_the_install_command(
    monkeypatch: pytest.MonkeyPatch, folder: Path, module: str
) -> None:
    class WithoutGrpc:
        @staticmethod
        def find_spec(name: str, _path: object, _target: object = None) -> None:
            if name == module:
                raise ModuleNotFoundError("No module named 'grpc'", name="grpc")

    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [WithoutGrpc, *sys.meta_path])
    arguments = ["--config", "/dev/null", "--state", str(folder), "--policy", ""]
    with pytest.raises(NriError, match=r"the proxy requires grpc, which is not installed.*\[engine\]"):
        proxy_command.main(arguments, obj=Settings(), standalone_mode=False)
