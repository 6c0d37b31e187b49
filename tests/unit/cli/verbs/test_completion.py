"""Completion, as a shell asks for it."""

from __future__ import annotations

import json
import subprocess

import pytest

from nri.cli.main import VERBS
from tests.unit.cli.conftest import complete


@pytest.mark.parametrize(("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef nri"), ("fish", "complete --")])
def test_the_script_of_each_shell_is_printed(nri, shell: str, mark: str) -> None:
    result = nri("completion", shell)
    assert result.returncode == 0
    assert mark in result.stdout
    assert "_NRI_COMPLETE" in result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_without_a_name_the_users_shell_is_used(nri, shell: str) -> None:
    result = nri("completion", env={"SHELL": f"/usr/bin/{shell}"})
    assert (result.returncode, result.stdout) == (0, nri("completion", shell).stdout)


@pytest.mark.parametrize("shell", ["", "/bin/tcsh"])
def test_an_unknown_shell_must_be_named(nri, shell: str) -> None:
    result = nri("completion", env={"SHELL": shell})
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: unknown shell: use one of bash, zsh, fish. try: nri completion --help\n"


def test_json_has_the_script(nri) -> None:
    document = json.loads(nri("completion", "fish", "-o", "json").stdout)
    assert document == {"shell": "fish", "script": nri("completion", "fish").stdout.removesuffix("\n")}


def test_bash_accepts_its_script(nri) -> None:
    script = nri("completion", "bash").stdout
    result = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (result.returncode, result.stderr, "complete -o" in script) == (0, "", True)


def test_verbs_are_completed_from_their_table() -> None:
    assert complete("nri", 1) == list(VERBS)
    assert complete("nri ev", 1) == ["events"]


def test_options_and_choices_are_completed() -> None:
    assert "--follow" in complete("nri events --f", 2)
    assert complete("nri completion ", 2) == ["bash", "zsh", "fish"]


def test_plugins_and_their_own_flags_are_completed() -> None:
    assert complete("nri run templ", 2) == ["template", "templ"]
    assert complete("nri run template --cf", 3) == ["--cfg-param1"]
