"""The command as a whole: help, global options, exit codes, errors, how fast it starts."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from nri import errors
from nri.cli.errors import DIFFERS, FAILED, INTERRUPTED, REJECTED, UNREACHABLE, USAGE, Failure, describe, exit_code
from nri.cli.main import VERBS
from nri.config import Source, read


def test_help_lists_every_verb_and_shows_examples_before_usage(nri) -> None:
    done = nri("--help")
    assert done.returncode == 0
    assert done.stdout.index("Examples:") < done.stdout.index("Usage:") < done.stdout.index("Verbs:")
    for verb, row in VERBS.items():
        assert f"  {verb} " in done.stdout
        assert row.summary in done.stdout
    assert "Exit codes: 0 done" in done.stdout


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_each_verb_has_help_with_an_example(nri, verb: str) -> None:
    done = nri(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Examples:\n  nri {verb}" in done.stdout
    assert "Global options" in done.stdout


def test_help_imports_no_verb_and_nothing_heavy() -> None:
    code = (
        "import sys\nfrom nri.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'google.protobuf', 'msgspec', 'yaml', 'asyncio', 'json', 'nri.api.messages', 'nri.cli.run'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED []", "nri --help has to start fast"


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"conformance"}))
def test_a_verb_loads_its_heavy_parts_only_when_it_runs(verb: str) -> None:
    code = (
        f"import sys, importlib\nimportlib.import_module({VERBS[verb].module!r})\n"
        "heavy = {'google.protobuf', 'msgspec', 'yaml', 'asyncio', 'nri.api.messages', 'nri.stub'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("arguments", [("-o", "json", "version"), ("version", "-o", "json")])
def test_global_options_may_stand_before_or_after_the_verb(nri, arguments: tuple[str, ...]) -> None:
    assert "nri_api" in json.loads(nri(*arguments).stdout)


def test_version_tells_everything_that_a_report_needs(nri) -> None:
    found = json.loads(nri("version", "-o", "json").stdout)
    assert set(found) == {"nri", "compiled", "nri_api", "python", "protobuf", "protobuf_backend", "kernel", "machine"}
    assert found["nri_api"] == "v0.12.5"
    table = nri("version").stdout
    assert "protobuf backend" in table
    assert nri("version", "-q").stdout.strip() == found["nri"]
    assert nri("--version").stdout == table


def test_yaml_has_the_same_content_as_json(nri) -> None:
    class Versions:
        nri: str
        compiled: str
        nri_api: str
        python: str
        protobuf: str
        protobuf_backend: str
        kernel: str
        machine: str

    made = read(Versions, [Source("output", nri("version", "-o", "yaml").stdout)])
    assert made.nri_api == json.loads(nri("version", "-o", "json").stdout)["nri_api"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("versio",), 'error: no verb "versio", did you mean version? try: nri --help'),
        (("version", "--colour"), "? try: nri version --help"),
        (("completion", "tcsh"), "try: nri completion --help"),
        (("version", "--timeout", "soon"), "is not a duration; write a number with a unit, such as 2s"),
        (("version", "--timeout", "0s"), "is not a positive duration"),
    ],
)
def test_wrong_usage_is_one_line_with_the_next_step_and_code_2(nri, arguments: tuple[str, ...], line: str) -> None:
    done = nri(*arguments)
    assert done.returncode == USAGE
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""


def test_the_command_alone_shows_its_help_as_an_error(nri) -> None:
    done = nri()
    assert done.returncode == USAGE
    assert "Examples:" in done.stderr
    assert "error:" not in done.stderr


def test_a_traceback_comes_only_with_verbose_twice(nri) -> None:
    quiet = nri("events", "--socket-path", "/nowhere/nri.sock")
    assert quiet.stderr == (
        "error: cannot connect to /nowhere/nri.sock: no such file or directory. Is NRI enabled? try: nri doctor\n"
    )
    assert "Traceback" in nri("events", "-v", "-v", "--socket-path", "/nowhere/nri.sock").stderr


def test_a_flag_beats_the_environment(nri) -> None:
    from_environment = nri("events", env={"NRI_SOCKET": "/a/env.sock"})
    assert "/a/env.sock" in from_environment.stderr
    for arguments in (("--socket-path", "/a/flag.sock", "events"), ("events", "--socket-path", "/a/flag.sock")):
        assert "/a/flag.sock" in nri(*arguments, env={"NRI_SOCKET": "/a/env.sock"}).stderr


@pytest.mark.parametrize(
    ("arguments", "env", "colored"),
    [
        ((), {}, False),
        (("--color", "always"), {}, True),
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
    ],
)
def test_colours_follow_flag_then_environment_then_terminal(nri, arguments, env, colored: bool) -> None:
    assert ("\x1b[" in nri(*arguments, "events", "--socket-path", "/nowhere", env=env).stderr) is colored


def test_output_into_a_closed_pipe_ends_quietly() -> None:
    script = f"{sys.executable} -m nri.cli.main --help | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


CODES = [
    (Failure("x"), FAILED),
    (Failure("x", DIFFERS), DIFFERS),
    (click.UsageError("x"), USAGE),
    (errors.ConfigError("f", "k", "r"), USAGE),
    (errors.RuntimeUnavailable("/s", "r"), UNREACHABLE),
    (errors.ConnectionClosed(), UNREACHABLE),
    (errors.DeadlineExceeded(), UNREACHABLE),
    (errors.Reject("no"), REJECTED),
    (errors.ValidationRejected("10-a", "no"), REJECTED),
    (errors.RpcError(2, "boom"), FAILED),
    (errors.RegistrationError("no"), FAILED),
    (OSError(2, "No such file or directory", "/f"), FAILED),
    (KeyboardInterrupt(), INTERRUPTED),
    (ZeroDivisionError("x"), FAILED),
]


@pytest.mark.parametrize(("error", "code"), CODES, ids=[type(error).__name__ for error, _ in CODES])
def test_every_kind_of_error_has_its_documented_code_and_a_line(error: BaseException, code: int) -> None:
    assert exit_code(error) == code
    assert len(describe(error).splitlines()) == 1


def test_codes_are_never_reused() -> None:
    assert sorted({FAILED, USAGE, UNREACHABLE, REJECTED, DIFFERS, INTERRUPTED}) == [1, 2, 3, 4, 5, 130]


def test_all_problems_of_a_configuration_are_shown_each_on_its_line() -> None:
    second = errors.ConfigError("f:2", "b", "bad")
    assert len(describe(errors.ConfigError("f:1", "a", "bad", others=[second])).splitlines()) == 2
