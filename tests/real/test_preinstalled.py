"""A plugin that containerd launches from its plugin directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.api.naming import DEFAULT_SOCKET
from nri.cli.doctor import Finding
from nri.cli.doctor import plugin_processes as launched
from nri.config.runtimes.reading import RuntimeNri
from nri.stub.program.failure_note import note_path
from tests.real.conftest import Start
from tests.real.plugin_process import RECORDER
from tests.real.support_matrix import FACTS, YES
from tools.runtimes import Containerd, MissingError


def read_lines(log: Path) -> list[dict[str, object]]:
    """What the plugin wrote."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def wait_for_end(pid: int) -> bool:
    """Whether the process ends soon."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(autouse=True)
def _no_note_stays() -> Iterator[None]:
    """A plugin that a runtime starts notes its failure at the usual place, if this machine has a runtime there."""
    note = Path(note_path(DEFAULT_SOCKET, "05-pre"))
    was_there = note.exists()
    yield
    if not was_there:
        note.unlink(missing_ok=True)


@pytest.fixture
def daemon(start: Start, tmp_path: Path) -> Containerd:
    """A containerd with the recorder as 05-pre in its plugin directory, and a drop-in configuration for it."""

    def prepare(new: Containerd) -> None:
        program = new.plugin_dir / "05-pre"
        # There is no PATH: the interpreter is named in full, as `nri enable` does it.
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {RECORDER} "$@"\n')
        program.chmod(0o755)
        (new.plugin_config_dir / "05-pre.conf").write_text(json.dumps({"log": str(tmp_path / "log")}))

    return start(prepare=prepare)


def test_a_launched_plugin_has_its_socket_name_and_index(daemon: Containerd, tmp_path: Path) -> None:
    configured = read_lines(tmp_path / "log")[0]
    assert configured["event"] == "Configure"
    environ = configured["environ"]
    assert isinstance(environ, dict)
    assert {name: environ.get(name) for name in ("NRI_PLUGIN_NAME", "NRI_PLUGIN_IDX", "NRI_PLUGIN_SOCKET")} == {
        "NRI_PLUGIN_NAME": "pre",
        "NRI_PLUGIN_IDX": "05",
        "NRI_PLUGIN_SOCKET": "3",
    }


def test_a_launched_plugin_is_synchronized_before_the_runtime_serves_where_documented(
    key: str, daemon: Containerd, tmp_path: Path
) -> None:
    came = [line["event"] for line in read_lines(tmp_path / "log")]
    assert came == ["Configure", *(["Synchronize"] if FACTS["preinstalled-sync"][key] == YES else [])]


def test_a_launched_plugin_adjusts_containers(daemon: Containerd) -> None:
    pod = daemon.cri.run_pod("pre", annotations={"test/adjust": "env"})
    assert "ADDED=yes" in daemon.cri.exec(daemon.cri.run(pod, "main"), "/bin/env")


def test_a_launched_plugin_ends_with_its_runtime(daemon: Containerd, tmp_path: Path) -> None:
    pid = read_lines(tmp_path / "log")[0]["pid"]
    assert isinstance(pid, int)
    daemon.kill()
    assert wait_for_end(pid), f"process {pid} outlives the containerd that started it"


def test_a_launched_plugin_is_restarted_with_its_runtime(daemon: Containerd, tmp_path: Path) -> None:
    daemon.kill()
    daemon.start()
    pids = {line["pid"] for line in read_lines(tmp_path / "log") if line["event"] == "Configure"}
    assert len(pids) == 2, "each containerd starts its own process"
    pod = daemon.cri.run_pod("again", annotations={"test/adjust": "env"})
    assert "ADDED=yes" in daemon.cri.exec(daemon.cri.run(pod, "main"), "/bin/env")


def test_the_doctor_reports_a_launched_plugin_that_ended(daemon: Containerd, tmp_path: Path) -> None:
    def look() -> list[str]:
        findings: list[Finding] = []
        nri = RuntimeNri("containerd", socket_path=str(daemon.nri_socket))
        launched.check("/", nri, {"05-pre": str(daemon.plugin_dir / "05-pre")}, findings, listens=True)
        return [finding.what for finding in findings]

    assert look() == []
    pid = read_lines(tmp_path / "log")[0]["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    assert wait_for_end(pid)
    assert look() == ["plugin 05-pre was launched and has ended"]


BROKEN = {
    "ends at once": "#!/bin/sh\nexit 0\n",
    "no interpreter": "#!/nowhere/interpreter\n",
    "never registers": "#!/bin/sh\nexec /bin/sleep 60\n",
    "bad configuration": f'#!/bin/sh\nexec {sys.executable} {RECORDER} "$@"\n',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_plugin_that_fails_to_start_blocks_the_runtimes_start_where_documented(
    key: str, start: Start, kind: str
) -> None:
    def prepare(new: Containerd) -> None:
        program = new.plugin_dir / "05-pre"
        program.write_text(BROKEN[kind])
        program.chmod(0o755)
        (new.plugin_config_dir / "05-pre.conf").write_text('{"no such key": 1}')

    if FACTS["preinstalled-broken"][key] == YES:
        assert start(prepare=prepare).cri.version()
        return
    with pytest.raises(MissingError, match=r"level=fatal .*failed to set up NRI for CRI service"):
        start(prepare=prepare)


@pytest.mark.parametrize("kind", BROKEN)
def test_enable_refuses_a_plugin_that_fails_to_start(tmp_path: Path, kind: str) -> None:
    program, config = tmp_path / "pre", tmp_path / "pre.conf"
    program.write_text(BROKEN[kind])
    program.chmod(0o755)
    config.write_text('{"no such key": 1}')
    words = ["enable", program, "--idx", "05", "--config", config, "--timeout", "3s"]
    places = ["--plugin-dir", tmp_path / "plugins", "--config-dir", tmp_path / "conf.d"]
    command = [sys.executable, "-m", "nri", *words, *places]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert result.returncode == (2 if kind == "no interpreter" else 1), result.stdout
    assert "does not start as the runtime would start it" in result.stderr
    assert not (tmp_path / "plugins").exists()
