"""Errors become one line and an exit code."""

from __future__ import annotations

import io
import sys

import click
import pytest

from nri import errors
from nri.cli.errors import (
    DIFFERS,
    FAILED,
    INTERRUPTED,
    REJECTED,
    UNREACHABLE,
    USAGE,
    Failure,
    describe,
    exit_code,
    report,
)  # fmt: skip
from nri.cli.settings import Settings

CODES = [
    (Failure("x"), FAILED),
    (Failure("x", DIFFERS), DIFFERS),
    (click.UsageError("x"), USAGE),
    (errors.ConfigError("f", "k", "r"), USAGE),
    (errors.RuntimeUnavailable("/s", "r"), UNREACHABLE),
    (errors.ConnectionClosed(), UNREACHABLE),
    (errors.DeadlineExceeded(), UNREACHABLE),
    (errors.Reject("no"), REJECTED),
    (errors.PluginRejected("10-a", "no"), REJECTED),
    (errors.ValidationRejected("10-a", "no"), REJECTED),
    (errors.RpcError(2, "boom"), FAILED),
    (errors.RegistrationError("no"), FAILED),
    (OSError(2, "No such file or directory", "/f"), FAILED),
    (KeyboardInterrupt(), INTERRUPTED),
    (ZeroDivisionError("x"), FAILED),
]


@pytest.mark.parametrize(("error", "code"), CODES, ids=[type(error).__name__ for error, _ in CODES])
def test_every_kind_of_error_has_its_documented_code_and_one_line(error: BaseException, code: int) -> None:
    assert exit_code(error) == code
    assert len(describe(error).splitlines()) == 1


def test_codes_are_never_reused() -> None:
    assert sorted({FAILED, USAGE, UNREACHABLE, REJECTED, DIFFERS, INTERRUPTED}) == [1, 2, 3, 4, 5, 130]


def test_all_problems_of_a_configuration_are_shown_each_on_its_line() -> None:
    second = errors.ConfigError("f:2", "b", "bad")
    assert len(describe(errors.ConfigError("f:1", "a", "bad", others=[second])).splitlines()) == 2


def test_a_usage_error_names_the_verb() -> None:
    context = click.Context(
        click.Command("call"), info_name="call", parent=click.Context(click.Group(), info_name="nri")
    )
    line = describe(click.UsageError("No such option: --x.", context))
    assert line == "no such option: --x. try: nri call --help"
    kind = click.Argument(["kind"], type=click.Choice(["chrome", "otlp"]), metavar="chrome|otlp")
    line = describe(click.MissingParameter(ctx=context, param=kind))
    assert line == "missing argument 'chrome|otlp'. Choose from: chrome, otlp. try: nri call --help"


@pytest.mark.parametrize(("uid", "step"), [(1000, ". Run this command as root"), (0, "")])
def test_without_root_a_permission_error_recommends_root(monkeypatch: pytest.MonkeyPatch, uid: int, step: str) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert describe(PermissionError(13, "Permission denied", "/f")) == f"/f: Permission denied{step}"


def test_a_socket_without_permission_is_not_a_missing_runtime() -> None:
    closed = describe(errors.RuntimeUnavailable("/s", "permission denied"))
    assert closed == "cannot connect to /s: permission denied. Run this program as root, or try: nri doctor"
    assert "Is NRI enabled?" in describe(errors.RuntimeUnavailable("/s", "no such file or directory"))


def test_an_unexpected_error_is_reported_as_a_bug() -> None:
    assert describe(ZeroDivisionError("x")).startswith("ZeroDivisionError: x. This is a bug in nri")


@pytest.mark.parametrize(("verbose", "text"), [(0, False), (1, False), (2, True)])
def test_a_traceback_is_printed_only_with_vv(capsys: pytest.CaptureFixture[str], verbose: int, text: bool) -> None:
    settings = Settings()
    settings.verbose, settings.color = verbose, "never"
    try:
        raise Failure("no luck")
    except Failure as error:
        assert report(error, settings) == FAILED
    captured = capsys.readouterr()
    assert captured.err.endswith("error: no luck\n")
    assert ("Traceback" in captured.err) is text


def test_control_characters_of_an_error_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings()
    settings.color, settings.verbose = "never", 2
    error = errors.RpcError(2, "a\x1b[2J\rb\u202e\u2028c" + "x" * 100_000)
    try:
        raise error
    except errors.RpcError:
        report(error, settings)
    shown = capsys.readouterr().err
    assert shown.replace("\n", "").isprintable()
    last = shown.rstrip("\n").rsplit("\n", 1)[1]
    assert last.startswith("error: rpc error: code = Unknown desc = a\\x1b[2J\\rb\\u202e\\u2028cxxx")
    assert len(last) < 4200


def test_a_closed_standard_output_is_not_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert describe(ValueError("odd.")) == "ValueError: odd. This is a bug in nri; -v -v shows the traceback"
    sys.stdout.close()
    assert describe(ValueError("I/O operation")).startswith("standard output is closed: ")
