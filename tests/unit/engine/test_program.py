"""Failed starts of the engine's program, and its unit. The tests of the verb run the program."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest

from nri.config.settings import LoadedSettings
from nri.engine import program
from nri.engine.check import Check
from nri.engine.config import EngineConfig, NriConfig
from nri.engine.unit import unit_text
from nri.errors import NriError
from nri.service import daemon
from nri.signals import Stop


@pytest.fixture
def quiet_root() -> logging.Logger:
    """The root logger as a new process has it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


class Signalled(Stop):
    """A stop that SIGTERM has asked for already, and that takes no signals of this process."""

    def listen(self, *_: int) -> None:
        self.take(signal.SIGTERM)


def test_without_root_only_a_dry_engine_starts(quiet_root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NriError, match="requires root"):
        program.serve(LoadedSettings(EngineConfig(), {}, (), ()))


def test_a_failed_start_recommends_the_check(quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    config = EngineConfig(dry=True, root=tmp_path / "root", state=tmp_path / "state", socket=tmp_path / "s")
    monkeypatch.setattr(daemon, "Stop", Signalled)
    with pytest.raises(NriError, match=r"the engine cannot start: .*root.* try: nri engine check"):
        program.serve(LoadedSettings(config, {}, (), ("a note",)))


def test_a_signal_during_the_start_ends_the_program_before_it_is_ready(
    quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(daemon, "Stop", Signalled)
    nri = NriConfig(disable=True)
    config = EngineConfig(dry=True, root=tmp_path / "root", state=tmp_path / "state", socket=tmp_path / "s", nri=nri)
    assert program.serve(LoadedSettings(config, {}, (), ())) == 0
    assert "stopping after SIGTERM" in caplog.text and "ready" not in caplog.text


def test_each_missing_program_is_a_line_at_the_start(
    quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(daemon, "Stop", Signalled)
    rows = [Check("conmon", "missing", "no program conmon", "apt-get install conmon"), Check("a", "missing", "b", "c")]
    monkeypatch.setattr("nri.engine.program.missing_parts", lambda _: rows)
    config = EngineConfig(
        dry=True, root=tmp_path / "r", state=tmp_path / "s", socket=tmp_path / "c", nri=NriConfig(disable=True)
    )
    assert program.serve(LoadedSettings(config, {}, (), ())) == 0
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["conmon: no program conmon. apt-get install conmon", "a: b. c"]


def test_the_unit_has_the_escaped_path_of_the_interpreter() -> None:
    assert "\nExecStart=/opt/nri/bin/python -m nri engine serve\n" in unit_text("/opt/nri/bin/python")
    assert "ExecStart='/o p/50%%/python' -m" in unit_text("/o p/50%/python")


def test_the_unit_has_no_unfilled_marker() -> None:
    assert "@" not in unit_text("/p")
