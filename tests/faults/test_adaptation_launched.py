"""Plugins that the runtime launched and then parted with, or cannot stop in time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nri.adaptation.backoff import Backoff
from nri.testing import FakeRuntime
from tests.support.adapting import PATIENCE_S, eventually


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start again without much waiting."""
    monkeypatch.setattr("nri.adaptation.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.02))


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


def test_a_launched_plugin_that_is_cut_off_comes_back_though_it_ends_without_an_error(tmp_path: Path) -> None:
    folder = install(tmp_path / "plugins", "10-slow", SLOW)
    policy = '["10-slow"]\nkeep_connected = false\ntimeout = { StartContainer = "50ms" }\n'
    with FakeRuntime(plugin_path=folder, policy=policy) as runtime:
        assert runtime.adaptation.ready(["10-slow"], PATIENCE_S), runtime.plugins
        runtime.start_container()
        eventually(lambda: runtime.health("10-slow").restarts == 1, "it was started again")
        assert runtime.adaptation.ready(["10-slow"], PATIENCE_S), runtime.plugins
