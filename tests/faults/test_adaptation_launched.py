"""Launched plugins that the runtime disconnected or cannot stop in time."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.launch import installed
from nri.adaptation.launch.discovery import PluginFile
from nri.adaptation.launch.process import Process
from nri.adaptation.launch.supervisor import Supervisor
from nri.adaptation.launch.trusted import TrustedFile
from nri.adaptation.registration.handshake import RuntimeSettings
from nri.backoff import Backoff
from nri.testing import FakeRuntime
from tests.support.adapting import PATIENCE_S, PATIENT
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start again without much waiting."""
    monkeypatch.setattr("nri.adaptation.launch.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.02))


def install(folder: Path, name: str, text: str) -> str:
    """Write a plugin; returns its folder."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return str(folder)


SLOW = """
import time
import nri

class Slow(nri.Plugin):
    def start_container(self, pod, container):
        time.sleep(0.5)

Slow.main()
"""


def test_a_disconnected_launched_plugin_is_restarted_although_it_exits_without_an_error(tmp_path: Path) -> None:
    folder = install(tmp_path / "plugins", "10-slow", SLOW)
    policy = '["10-slow"]\nkeep_connected = false\ntimeout = { StartContainer = "50ms" }\n'
    with FakeRuntime(plugin_path=folder, policy=policy, **PATIENT) as runtime:
        assert runtime.adaptation.ready(["10-slow"], PATIENCE_S), runtime.plugins
        runtime.start_container()
        wait_for(lambda: runtime.health("10-slow").restarts == 1, "it was started again")
        assert runtime.adaptation.ready(["10-slow"], PATIENCE_S), runtime.plugins


def test_a_plugin_that_is_being_launched_during_the_stop_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[Process] = []
    stopped = threading.Event()

    def launch(matches: PluginFile, file: TrustedFile) -> Process:
        stopped.wait(PATIENCE_S)
        created.append(Process(matches, file))
        return created[0]

    monkeypatch.setattr("nri.adaptation.launch.start.Process", launch)
    folder = install(tmp_path / "plugins", "10-late", "import time\ntime.sleep(1000)\n")

    def patient(matches: PluginFile, config: str, settings: RuntimeSettings, *other_entries: Any) -> Supervisor:
        return Supervisor(matches, config, replace(settings, registration_timeout_s=1000.0), *other_entries)

    monkeypatch.setattr(installed, "Supervisor", patient)
    FakeRuntime(plugin_path=folder, registration_timeout_s=0.01, request_timeout_s=0.01).close()
    stopped.set()
    try:
        wait_for(lambda: created and created[0].status == "killed by SIGKILL", "it was killed and reaped")
    finally:
        created[0].kill()
