"""The global options: position, precedence and values."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import click
import pytest

from nri.cli.settings import DURATION, FILE, Settings, global_options
from nri.cli.support.inputs import read_capture
from nri.files import is_file
from nri.plugins.loader import load


@pytest.mark.parametrize("arguments", [("-o", "json", "version"), ("version", "-o", "json")])
def test_global_options_can_be_before_or_after_the_verb(nri, arguments: tuple[str, ...]) -> None:
    assert "nri_api" in json.loads(nri(*arguments).stdout)


def test_a_flag_overrides_the_environment(nri) -> None:
    from_environment = nri("events", env={"NRI_SOCKET": "/a/env.sock"})
    assert "/a/env.sock" in from_environment.stderr
    for arguments in (("--socket-path", "/a/flag.sock", "events"), ("events", "--socket-path", "/a/flag.sock")):
        assert "/a/flag.sock" in nri(*arguments, env={"NRI_SOCKET": "/a/env.sock"}).stderr


def settings_of(*arguments: str, settings: Settings | None = None, environment: bool = False) -> Settings:
    results = settings or Settings()
    command = click.Command("x", params=list(global_options(environment=environment)), callback=lambda: None)
    command.main(list(arguments), obj=results, standalone_mode=False)
    return results


def test_without_options_the_defaults_apply() -> None:
    results = settings_of()
    assert (results.socket_path, results.socket_from, results.output, results.quiet) == (None, "", "table", False)
    assert (results.verbose, results.log_format, results.color, results.timeout_s) == (0, "text", "auto", None)


def test_an_option_before_the_verb_applies_unless_repeated() -> None:
    settings = settings_of("-o", "json", "-v", "--timeout", "5s")
    assert settings_of("-v", settings=settings).output == "json"
    assert (settings.verbose, settings.timeout_s) == (2, 5.0)
    assert settings_of("-o", "yaml", settings=settings).output == "yaml"


def test_the_origin_of_the_socket_path_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NRI_SOCKET", "/env.sock")
    results = settings_of(environment=True)
    assert (results.socket_path, results.socket_from) == ("/env.sock", "NRI_SOCKET")
    assert settings_of(environment=False).socket_path is None
    results = settings_of("--socket-path", "/flag.sock", environment=True)
    assert (results.socket_path, results.socket_from) == ("/flag.sock", "--socket-path")
    # The flag was before a group of verbs, which reads it again.
    results = settings_of(settings=results, environment=True)
    assert (results.socket_path, results.socket_from) == ("/flag.sock", "--socket-path")


@pytest.mark.parametrize(("text", "seconds"), [("5s", 5.0), ("1m30s", 90.0), ("2", 2.0), ("0.5", 0.5), (3.0, 3.0)])
def test_a_duration_has_gos_format_or_is_a_number_of_seconds(text: str | float, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["soon", "0", "0s", "-1s", "5 s"])
def test_a_duration_that_is_not_positive_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        DURATION.convert(text, None, None)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> str:
    """A file in a folder that we may not look into. Root may look everywhere, so it is made up."""
    status = os.stat

    def look(path: object, **options: Any) -> os.stat_result:
        if path == "/closed/file":
            raise PermissionError(13, "Permission denied", path)
        return status(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", look)
    return "/closed/file"


def test_a_file_without_permission_is_not_missing(closed: str, tmp_path: Path) -> None:
    assert not is_file(str(tmp_path))
    assert not is_file(str(tmp_path / "none"))
    assert is_file(__file__)
    with pytest.raises(PermissionError):
        is_file(closed)


def test_a_file_argument_without_permission_is_an_error(closed: str) -> None:
    assert FILE.convert(__file__, None, None) == Path(__file__)
    with pytest.raises(click.BadParameter, match="does not exist"):
        FILE.convert("/nowhere", None, None)
    with pytest.raises(PermissionError):
        FILE.convert(closed, None, None)


def test_a_pipe_or_a_socket_on_the_command_line_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in ("pipe", "socket"):
            with pytest.raises(click.BadParameter, match=f"/{name}' is not a regular file"):
                FILE.convert(str(tmp_path / name), None, None)


def test_what_reads_files_does_not_call_a_closed_one_missing(closed: str) -> None:
    for read in (load, read_capture):
        with pytest.raises(PermissionError):
            read(closed)
