"""The parts of the engine's program that need no process of their own; the tests of its verb run it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from nri.cli.errors import Failure
from nri.cli.settings import Settings
from nri.cli.support.engine import process as engine_process
from nri.engine.check import Check
from nri.engine.config import EngineConfig, LoadedConfig, NriConfig
from tests.support.signals import signal_in_a_wait


@pytest.fixture
def quiet_root() -> logging.Logger:
    """The root logger as a new process has it."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    root.handlers.clear()
    yield root
    root.handlers[:] = kept
    root.setLevel(level)


@pytest.mark.parametrize(
    ("verbose", "quiet", "level"), [(0, False, "ERROR"), (1, False, "DEBUG"), (0, True, "WARNING")]
)
def test_flags_win_over_the_level_of_the_settings(quiet_root, verbose: int, quiet: bool, level: str) -> None:
    settings = Settings()
    settings.verbose, settings.quiet = verbose, quiet
    engine_process.log_to(settings, "error")
    assert logging.getLevelName(quiet_root.level) == level


def test_without_root_only_a_dry_engine_starts(quiet_root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Failure, match="needs root"):
        engine_process.serve(Settings(), LoadedConfig(EngineConfig(), {}, (), ()))


def test_an_engine_that_cannot_start_names_the_examination(quiet_root, tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    config = EngineConfig(dry=True, root=tmp_path / "root", state=tmp_path / "state", socket=tmp_path / "s")
    kept = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    try:
        with pytest.raises(Failure, match=r"the engine cannot start: .*root.* try: nri engine check"):
            engine_process.serve(Settings(), LoadedConfig(config, {}, (), ("a note",)))
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), kept, strict=True):
            signal.signal(number, handler)


def test_a_signal_in_the_instant_before_the_wait_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_process, "LOOK_UP_S", 0.5)
    with signal_in_a_wait(signal.SIGTERM):
        assert engine_process.Signals().wait() == signal.SIGTERM


def test_the_first_signal_counts_and_the_second_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(os, "_exit", ended.append)
    signals = engine_process.Signals()
    signals._take(signal.SIGTERM, None)
    assert (signals.wait(), ended) == (signal.SIGTERM, [])
    signals._take(signal.SIGINT, None)
    assert ended == [1]


def test_a_package_that_is_missing_is_named_with_how_to_install_it(
    quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class NotThere:
        """Finds the daemon, and that it cannot be loaded."""

        def __init__(self, missing: str) -> None:
            self.missing = missing

        def find_spec(self, name: str, *_: object) -> None:
            if name == "nri.engine.daemon":
                raise ModuleNotFoundError(f"No module named {self.missing!r}", name=self.missing)

    config = EngineConfig(dry=True, root=tmp_path / "root", state=tmp_path / "state", socket=tmp_path / "s")
    monkeypatch.delitem(sys.modules, "nri.engine.daemon", raising=False)
    monkeypatch.setattr(sys, "meta_path", [NotThere("grpc"), *sys.meta_path])
    with pytest.raises(Failure, match="the engine needs grpc, which is not installed"):
        engine_process.serve(Settings(), LoadedConfig(config, {}, (), ()))
    monkeypatch.setattr(sys, "meta_path", [NotThere("nri.gone"), *sys.meta_path[1:]])
    with pytest.raises(ModuleNotFoundError):  # a defect of ours is no missing package
        engine_process.serve(Settings(), LoadedConfig(config, {}, (), ()))


def test_a_signal_during_the_start_ends_it_without_a_word_of_being_ready(
    quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Signalled:
        first = signal.SIGTERM

        def wait(self) -> int:
            return self.first

    monkeypatch.setattr(engine_process, "Signals", Signalled)
    nri = NriConfig(disable=True)
    config = EngineConfig(dry=True, root=tmp_path / "root", state=tmp_path / "state", socket=tmp_path / "s", nri=nri)
    assert engine_process.serve(Settings(), LoadedConfig(config, {}, (), ())) == 0
    assert "stopping after SIGTERM" in caplog.text and "ready" not in caplog.text


def test_each_missing_program_is_a_line_at_the_start(
    quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stopped:
        first = signal.SIGTERM

        def wait(self) -> int:
            return self.first

    monkeypatch.setattr(engine_process, "Signals", Stopped)
    rows = [Check("conmon", "missing", "no program conmon", "apt-get install conmon"), Check("a", "missing", "b", "c")]
    monkeypatch.setattr("nri.engine.check.lacking", lambda _: rows)
    config = EngineConfig(
        dry=True, root=tmp_path / "r", state=tmp_path / "s", socket=tmp_path / "c", nri=NriConfig(disable=True)
    )
    assert engine_process.serve(Settings(), LoadedConfig(config, {}, (), ())) == 0
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["conmon: no program conmon. apt-get install conmon", "a: b. c"]
