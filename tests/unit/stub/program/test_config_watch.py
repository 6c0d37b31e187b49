"""A configuration file that changes while the plugin runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.signals import Stop
from nri.stub.program import config_watch
from nri.stub.program.config_watch import ConfigWatch
from nri.stub.session.session import Session
from tests.support.plugin_thread import plugin_thread
from tests.support.waiting import wait_for
from tests.unit.stub.plugins import Names


class Zone(Names):
    class Config:
        zone: str = "a"

    zones: list[str] = []  # noqa: RUF012 - of each test anew, below

    def configure(self):
        self.zones.append(self.config.zone)
        if self.config.zone == "forbidden":
            raise ValueError("not this one")


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Zone, Path]]:
    """A configured plugin, and the file that is watched for it."""
    monkeypatch.setattr(config_watch, "WATCH_S", 0.01)
    monkeypatch.setattr(Zone, "zones", [])
    file, plugin, stop = tmp_path / "zone.yaml", Zone(), Stop()
    file.write_text("zone: b\n")
    with plugin_thread(plugin) as running:
        running.runtime.begin()
        options: dict[str, Any] = {"runtime_text": lambda: "zone: runtime", "session": lambda: running.session}
        ConfigWatch(plugin, str(file), stop=stop, **options).start()
        yield plugin, file
        stop.signal = 1


def change(file: Path, text: str) -> None:
    """Change a file in one step, as editors do: half of it is never there."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def test_a_changed_file_overrides_the_runtimes_text_and_calls_configure(watched: tuple[Zone, Path]) -> None:
    plugin, file = watched
    change(file, "zone: changed\n")
    wait_for(lambda: plugin.zones == ["a", "changed"], "the new configuration")


def test_an_empty_file_keeps_the_runtimes_text(watched: tuple[Zone, Path]) -> None:
    plugin, file = watched
    change(file, "{}\n")
    wait_for(lambda: plugin.zones == ["a", "runtime"], "the runtime's configuration")


def test_an_invalid_file_is_logged_and_the_configuration_is_kept(
    watched: tuple[Zone, Path], caplog: pytest.LogCaptureFixture
) -> None:
    plugin, file = watched
    change(file, "zone: [broken\n")
    wait_for(lambda: "configuration not changed" in caplog.text, "the line in the log")
    assert plugin.zones == ["a"]


def test_an_exception_of_configure_is_logged_and_the_watch_continues(
    watched: tuple[Zone, Path], caplog: pytest.LogCaptureFixture
) -> None:
    plugin, file = watched
    change(file, "zone: forbidden\n")
    wait_for(lambda: "configure failed" in caplog.text, "the line in the log")
    assert plugin.config.zone == "a" and plugin.config_source == "", "handlers keep the last valid configuration"
    change(file, "zone: changed again\n")
    wait_for(lambda: plugin.zones[-1] == "changed again", "the next change")


def test_a_change_without_a_connection_reaches_the_next_session_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_watch, "WATCH_S", 0.01)
    monkeypatch.setattr(Zone, "zones", [])
    file, plugin, stop = tmp_path / "zone.yaml", Zone(), Stop()
    file.write_text("zone: b\n")
    numbers: list[int] = []
    sessions: list[Session] = []

    def session() -> Session | None:
        numbers.append(1)
        return sessions[0] if sessions else None

    def wait_for_checks(times: int) -> None:
        before = len(numbers)
        wait_for(lambda: len(numbers) >= before + times, f"{times} more checks")

    with plugin_thread(plugin) as running:
        running.runtime.begin()
        ConfigWatch(plugin, str(file), stop=stop, runtime_text=str, session=session).start()
        change(file, "zone: changed\n")
        wait_for_checks(20)
        assert plugin.zones == ["a"]
        sessions.append(running.session)
        wait_for(lambda: plugin.zones == ["a", "changed"], "the new configuration")
        (tmp_path / "beside").touch()
        wait_for_checks(2)
        assert plugin.zones == ["a", "changed"]
        stop.signal = 1
