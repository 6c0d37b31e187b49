"""The command as a whole: help, wrong usage, errors and start time."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from nri.cli import main
from nri.cli.errors import USAGE
from nri.cli.main import VERBS
from nri.cli.support.verb import VerbGroup
from tests.support.commands import unmeasured


def test_help_lists_every_verb_and_shows_examples_before_usage(nri) -> None:
    result = nri("--help")
    assert result.returncode == 0
    assert result.stdout.index("Examples:") < result.stdout.index("Usage:") < result.stdout.index("Plugins:\n")
    for verb, row in VERBS.items():
        assert f"  {verb} " in result.stdout
        assert row.summary in result.stdout
    assert "Exit codes: 0 success" in result.stdout


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_each_verb_has_help_with_an_example(nri, verb: str) -> None:
    result = nri(verb, "--help")
    assert result.returncode == 0, result.stderr
    assert f"Examples:\n  nri {verb}" in result.stdout
    assert "Global options" in result.stdout
    assert nri(verb, "-h").stdout == result.stdout


def test_descriptions_of_verbs_are_not_cut_in_groups() -> None:
    context = click.Context(main.nri)
    groups = [one for verb in VERBS if isinstance(one := main.nri.get_command(context, verb), VerbGroup)]
    rows = [row for group in groups for rows in group.summaries(click.Context(group)).values() for row in rows]
    summaries = {text for _, text in rows}
    assert "show a plugin's events, annotations, flags and configuration" in summaries
    assert not [text for text in summaries if text.endswith((".", "..."))]


def test_h_is_help(nri) -> None:
    assert nri("-h").stdout == nri("--help").stdout
    assert "Run recorded merge cases" in nri("conformance", "merge", "-h").stdout


def test_help_imports_no_verb_and_nothing_heavy() -> None:
    code = (
        "import sys\nfrom nri.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'google.protobuf', 'nri.config.typed', 'yaml', 'asyncio', 'json', 'nri.api.messages', 'nri.stub'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], env=unmeasured(), capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "LOADED []", "nri --help has to start fast"


HEAVY = """
import importlib, os, sys
heavy = {"google.protobuf", "nri.config.typed", "yaml", "asyncio", "nri.api.messages", "nri.stub"}
for name in sys.argv[1:]:
    if not os.fork():  # each verb in a process that has loaded no other
        importlib.import_module(name)
        if loaded := sorted(heavy & set(sys.modules)):
            print(name, loaded, flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


def test_a_verb_imports_heavy_modules_only_when_it_runs() -> None:
    modules = [VERBS[verb].module for verb in sorted(set(VERBS) - {"conformance"})]
    argv = [sys.executable, "-c", HEAVY, *modules]
    result = subprocess.run(argv, env=unmeasured(), capture_output=True, text=True, check=True)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("versio",), 'error: no verb "versio", did you mean nri version? try: nri --help'),
        (("version", "--colour"), "? try: nri version --help"),
        (("completion", "tcsh"), "try: nri completion --help"),
        (("version", "--json"), "error: no such option --json: use -o json. try: nri version --help"),
        (("--yaml", "version"), "error: no such option --yaml: use -o yaml. try: nri --help"),
        (("doctor", "--format", "json"), "error: no such option --format: use -o json or -o yaml. try: "),
        (("run", "--idx", "10", "--nam", "x"), "error: no such option --nam, did you mean --name? try: nri run --help"),
        (("version", "--wudi"), "error: no such option --wudi. try: nri version --help"),
        (("--idx", "5", "run"), "error: no such global option --idx: put the options of a verb after the verb. try"),
        (("version", "--timeout", "soon"), "is not a duration; write a number with a unit, such as 2s"),
        (("version", "--timeout", "0s"), "is not a positive duration"),
    ],
)
def test_wrong_usage_prints_one_line_and_exits_with_2(nri, arguments: tuple[str, ...], line: str) -> None:
    result = nri(*arguments)
    assert result.returncode == USAGE
    assert line in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stdout == ""


def test_without_a_verb_the_help_is_printed_as_an_error(nri) -> None:
    result = nri()
    assert result.returncode == USAGE
    assert "Examples:" in result.stderr
    assert "error:" not in result.stderr


def test_a_traceback_is_printed_only_with_vv(nri) -> None:
    quiet = nri("events", "--socket-path", "/nowhere/nri.sock")
    assert quiet.stderr == (
        "error: cannot connect to /nowhere/nri.sock: no such file or directory. "
        "Specify the runtime's NRI socket with --socket-path; nri doctor shows whether NRI is on\n"
    )
    assert "Traceback" in nri("events", "-v", "-v", "--socket-path", "/nowhere/nri.sock").stderr


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
def test_colours_follow_flag_environment_and_terminal(nri, arguments, env, colored: bool) -> None:
    assert ("\x1b[" in nri(*arguments, "events", "--socket-path", "/nowhere", env=env).stderr) is colored


def test_output_into_a_closed_pipe_ends_quietly() -> None:
    script = f"{sys.executable} -m nri --help | head -c 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_not_a_bug(closed: str) -> None:
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m nri version {closed}"], capture_output=True, check=False
    )
    assert (result.returncode, result.stderr, bool(result.stdout)) == (0, b"", ">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("words", ["version", "version -o json", "--help"])
def test_output_onto_a_full_disk_is_an_error(words: str) -> None:
    script = f"{sys.executable} -m nri {words} > /dev/full"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "error: cannot write the output: No space left on device\n")
