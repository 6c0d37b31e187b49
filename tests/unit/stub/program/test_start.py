"""The start of a plugin's program: help, version, wrong usage."""

from __future__ import annotations

import socket
import sys
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

import nri
from nri.stub.program import start
from nri.stub.program.options import Options


class Small(nri.Plugin):
    """Does little."""

    def run_pod_sandbox(self, pod): ...


@pytest.fixture(autouse=True)
def name_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/small.py"])


def test_help_prints_docstring_and_flags_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(Small, ["--help"]) == 0
    assert capsys.readouterr().out.startswith("Does little.\n\nExamples:\n  python small.py --idx 10")


def test_version_prints_plugin_python_and_nri(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(Small, ["--version"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("small: nri ") and f"Python {sys.version.split()[0]}" in out


def test_wrong_usage_prints_one_line_and_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(Small, ["--idx", "1"]) == 2
    assert capsys.readouterr().err == 'error: command line: --idx: invalid plugin index "1", must be 2 digits\n'


def test_a_class_with_required_arguments_is_an_error_that_names_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Asks(Small):
        def __init__(self, zone: str, cpus: str = "0") -> None: ...

    assert start.main(Asks, []) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: class Asks: __init__: requires zone, but plugins are created without arguments (add")


def test_run_creates_the_plugin_and_runs_a_program_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    objects: list[object] = []

    class Program:
        def __init__(self, plugin: object, options: Options, *, reporter: object) -> None:
            objects.extend((type(plugin), options, reporter))

        def run(self) -> int:
            return 42

    monkeypatch.setattr(start, "Program", Program)
    options, reporter = Options(), object()
    assert start.run(Small, options, reporter=reporter) == 42
    assert objects == [Small, options, reporter]


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://{address}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("flag", ["health_addr", "metrics_addr"])
def test_health_and_metrics_are_served_while_the_plugin_runs(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    observed = {}

    class Running(start.Program):
        def run(self) -> int:
            observed.update({path: get(address, path) for path in ("/readyz", "/metrics")})
            return 42

    monkeypatch.setattr(start, "Program", Running)
    options = Options()
    setattr(options, flag, address)
    options.index = "10"
    assert start.run(Small, options) == 42
    assert observed["/readyz"] == (503, "not synchronized with a runtime\n")
    assert observed["/metrics"][0] == (200 if flag == "metrics_addr" else 404)
    with pytest.raises(URLError):
        get(address, "/readyz")


def test_an_occupied_address_prints_one_line_and_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert start.main(Small, ["--idx", "10", "--health-addr", address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: command line: --health-addr: cannot listen on {address}: ")


def test_main_runs_the_plugin_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    entries: list[tuple[type, str]] = []
    monkeypatch.setattr(start, "run", lambda plugin_class, options: entries.append((plugin_class, options.index)) or 7)
    assert start.main(Small, ["--idx", "42"]) == 7
    assert entries == [(Small, "42")]
