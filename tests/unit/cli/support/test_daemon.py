"""Engine and proxy as programs, as far as that needs no process of its own; the tests of their verbs run those."""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from nri.cli.errors import Failure
from nri.cli.settings import Settings
from nri.cli.support import daemon
from nri.cli.support.daemon import unit_text
from nri.config.settings import Loaded
from nri.engine.check import Check
from nri.engine.config import EngineConfig, NriConfig
from nri.metrics import Observer
from nri.service.http import Server
from nri.signals import Stop

#: An address of this process alone: all of 127/8 is this machine.
ADDRESS = f"127.{os.getpid() >> 16 & 255}.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}:9317"


def get(path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://{ADDRESS}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def quiet_root() -> logging.Logger:
    """The root logger as a new process has it."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    root.handlers.clear()
    yield root
    root.handlers[:] = kept
    root.setLevel(level)


class Signalled(Stop):
    """A stop that SIGTERM has asked for already, and that takes no signals of this process."""

    def listen(self, *_: int) -> None:
        self.take(signal.SIGTERM)


@pytest.mark.parametrize(
    ("verbose", "quiet", "level"), [(0, False, "ERROR"), (1, False, "DEBUG"), (0, True, "WARNING")]
)
def test_flags_win_over_the_level_of_the_settings(quiet_root, verbose: int, quiet: bool, level: str) -> None:
    settings = Settings()
    settings.verbose, settings.quiet = verbose, quiet
    daemon.log_to(settings, "error")
    assert logging.getLevelName(quiet_root.level) == level


def test_without_root_only_a_dry_engine_starts(quiet_root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Failure, match="needs root"):
        daemon.serve_engine(Settings(), Loaded(EngineConfig(), {}, (), ()))


def test_an_engine_that_cannot_start_names_the_examination(
    quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "root").touch()
    config = EngineConfig(dry=True, root=tmp_path / "root", state=tmp_path / "state", socket=tmp_path / "s")
    monkeypatch.setattr(daemon, "Stop", Signalled)
    with pytest.raises(Failure, match=r"the engine cannot start: .*root.* try: nri engine check"):
        daemon.serve_engine(Settings(), Loaded(config, {}, (), ("a note",)))


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
        daemon.serve_engine(Settings(), Loaded(config, {}, (), ()))
    monkeypatch.setattr(sys, "meta_path", [NotThere("nri.gone"), *sys.meta_path[1:]])
    with pytest.raises(ModuleNotFoundError):  # a defect of ours is no missing package
        daemon.serve_engine(Settings(), Loaded(config, {}, (), ()))


def test_a_signal_during_the_start_ends_it_without_a_word_of_being_ready(
    quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(daemon, "Stop", Signalled)
    nri = NriConfig(disable=True)
    config = EngineConfig(dry=True, root=tmp_path / "root", state=tmp_path / "state", socket=tmp_path / "s", nri=nri)
    assert daemon.serve_engine(Settings(), Loaded(config, {}, (), ())) == 0
    assert "stopping after SIGTERM" in caplog.text and "ready" not in caplog.text


def test_each_missing_program_is_a_line_at_the_start(
    quiet_root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(daemon, "Stop", Signalled)
    rows = [Check("conmon", "missing", "no program conmon", "apt-get install conmon"), Check("a", "missing", "b", "c")]
    monkeypatch.setattr("nri.engine.check.lacking", lambda _: rows)
    config = EngineConfig(
        dry=True, root=tmp_path / "r", state=tmp_path / "s", socket=tmp_path / "c", nri=NriConfig(disable=True)
    )
    assert daemon.serve_engine(Settings(), Loaded(config, {}, (), ())) == 0
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["conmon: no program conmon. apt-get install conmon", "a: b. c"]


class Nothing:
    """A daemon that has nothing to serve; its health and metrics are asked for while it starts, runs and ends."""

    def __init__(self, observer: Observer | None) -> None:
        self.observer, self.seen = observer, []

    def start(self) -> None:
        self.seen.append(get("/readyz"))
        if self.observer is not None:
            self.observer.update_plugin_count(3)

    def stop(self) -> None:
        self.seen += [get("/readyz"), get("/healthz"), "nri_active_plugins_total 3.0\n" in get("/metrics")[1]]

    def describe(self) -> str:
        self.seen.append(get("/readyz"))
        return "nowhere"


def test_health_and_metrics_are_served_from_its_start_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Nothing] = []

    def make(observer: Observer | None) -> Nothing:
        made.append(Nothing(observer))
        return made[-1]

    class Later(Stop):
        """A stop that comes when it is waited for."""

        def listen(self, *_: int) -> None: ...

        def wait_for_signal(self) -> int:
            made[0].seen.append(get("/readyz"))
            self.take(signal.SIGINT)
            return super().wait_for_signal()

    monkeypatch.setattr(daemon, "Stop", Later)
    assert daemon.run("it", make, ADDRESS, logging.getLogger("it")) == 130
    waiting = (503, "starting, or stopping\n")
    assert made[0].seen == [waiting, waiting, (200, "ready\n"), waiting, (200, "ok\n"), True]
    with pytest.raises(URLError):
        get("/healthz")


def test_an_address_that_is_taken_ends_it_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "Stop", Signalled)
    with (
        closing(Server(public={}, address=ADDRESS)),
        pytest.raises(Failure, match=r"it cannot start: cannot listen on"),
    ):
        daemon.run("it", pytest.fail, ADDRESS, logging.getLogger("it"))


def test_the_interpreter_is_written_as_systemd_reads_it() -> None:
    assert "\nExecStart=/opt/nri/bin/python -m nri engine serve\n" in unit_text("/opt/nri/bin/python")
    assert "ExecStart='/o p/50%%/python' -m" in unit_text("/o p/50%/python")


def test_no_marker_is_left() -> None:
    assert "@" not in unit_text("/p")
