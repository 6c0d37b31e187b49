"""Settings of a running engine that change without a restart, seen in real containers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_for
from tools.runtimes.cri import Pod
from tools.runtimes.engine import Engine


@pytest.fixture
def settings(engine: Engine) -> Iterator[str]:
    """The settings before the test, which are in force again afterwards."""
    text = engine.settings.read_text()
    yield text
    engine.settings.write_text(text)
    assert reload(engine).returncode == 0


@pytest.fixture
def pod(engine: Engine) -> Pod:
    return engine.cri.run_pod("reload")


def reload(engine: Engine) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "nri", "engine", "reload", "--cri-socket", str(engine.cri_socket)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def adds(engine: Engine, settings: str, text: str) -> subprocess.CompletedProcess[str]:
    """Write the settings of the start and some more, and reload."""
    engine.settings.write_text(f"{settings}\n{text}\n")
    return reload(engine)


def test_new_containers_get_changed_defaults_and_running_ones_stay(engine: Engine, settings: str, pod: Pod) -> None:
    cri = engine.cri
    before = cri.run(pod, "before")
    result = adds(engine, settings, 'default_env = ["MADE=after"]\ndefault_ulimits = ["nofile=77:88"]')
    assert result.returncode == 0, result.stderr
    assert result.stdout == "changed: containers.default_ulimits\nchanged: containers.default_env\n"
    after = cri.run(pod, "after")
    ask = ("/bin/sh", "-c", "echo $MADE $(ulimit -Sn)")
    assert cri.exec(after, *ask) == "after 77\n"
    assert "after" not in cri.exec(before, *ask)


def test_a_new_oci_runtime_can_be_used_at_once(engine: Engine, settings: str, tmp_path: Path) -> None:
    mark = tmp_path / "used"
    wrapper = tmp_path / "runc-wrapper"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >>{mark}\nexec runc "$@"\n')
    wrapper.chmod(0o755)
    result = adds(engine, settings, f'[runtimes.runc]\npath = "runc"\n[runtimes.marked]\npath = "{wrapper}"')
    assert "changed: runtimes.marked.path" in result.stdout, result.stderr
    pod = engine.cri.run_pod("marked", handler="marked")
    container = engine.cri.run(pod, "c")
    assert container in mark.read_text()
    engine.settings.write_text(settings)
    assert "runtimes.marked.path: the new value requires a restart" in reload(engine).stderr
    assert engine.cri.exec(container, "/bin/echo", "alive") == "alive\n"


@pytest.mark.parametrize("mistake", ['pids_limit = "x"', 'hooks_dir = ["/proc/self"]\n['])
def test_an_invalid_file_changes_nothing_and_is_logged(engine: Engine, settings: str, pod: Pod, mistake: str) -> None:
    result = adds(engine, settings, mistake)
    assert result.returncode == 1 and "the previous settings stay in force" in result.stderr
    assert "the previous settings stay in force" in engine.log.read_text()
    container = engine.cri.run(pod, "after")
    assert engine.cri.exec(container, "/bin/echo", "alive") == "alive\n"


def test_sighup_reloads_and_ends_nothing(engine: Engine, settings: str, pod: Pod) -> None:
    container = engine.cri.run(pod, "stays")
    engine.settings.write_text(f'{settings}\ndefault_env = ["BY=signal"]\n')
    os.kill(engine.pid, signal.SIGHUP)
    wait_for(lambda: "reload: changed settings: containers.default_env" in engine.log.read_text(), "the reload", 20)
    assert engine.cri.exec(engine.cri.run(pod, "new"), "/bin/sh", "-c", "echo $BY") == "signal\n"
    assert engine.cri.exec(container, "/bin/echo", "alive") == "alive\n"
