"""Project files: hooks and templates name only existing commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri.cli.main import nri
from tests.support.commands import unmeasured
from tools import check

ROOT = check.ROOT
TEMPLATES = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def hooks() -> dict[str, Any]:
    """The hooks of pre-commit by name. All of them are local."""
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    return {hook["id"]: hook for hook in repository["hooks"]}


def test_pre_commit_runs_the_linters_except_the_lock() -> None:
    # The environment at hand may be that of another Python.
    lint = {re.sub(r"^\S*/bin/", ".venv/bin/", row.command_line) for row in check.stages() if row.group == "lint"}
    generators = {f".venv/bin/python {path}" for path in sorted((ROOT / "tools").glob("generate_*.py"))}
    entries = {name: hook["entry"].replace(" --force-exclude", "") for name, hook in hooks().items()}
    assert all(hook["language"] == "system" for hook in hooks().values())

    assert entries["ruff"] + " ." in lint
    assert entries["ruff-format"] == ".venv/bin/ruff format --quiet"
    assert {entries["import-linter"], entries["mypy"]} <= lint
    assert len([row for row in lint if "generate_" in row]) == len(generators)
    assert 'for tool in tools/generate_*.py; do .venv/bin/python "$tool" --check' in entries["generated-code"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_an_issue_template_is_a_form(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form["name"]
    assert form["description"]
    questions = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in questions}) == len(questions)
    assert all(part["attributes"]["label"] for part in questions)
    assert all(part["type"] in ("input", "textarea", "dropdown", "checkboxes") for part in questions)


def test_templates_exist_for_bug_feature_and_plugin() -> None:
    assert [path.stem for path in TEMPLATES] == ["bug", "feature", "plugin"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_commands_in_templates_exist(path: Path) -> None:
    verbs = set(re.findall(r"`nri ([a-z]+)", path.read_text()))
    assert verbs <= set(nri.list_commands(nri.make_context("nri", [], resilient_parsing=True)))
    assert "version" in verbs or path.stem == "feature"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["tools/release_check.py", "--dry-run"], "unrecognized arguments: --dry-run"),
        (["tools/compiled.py", "3.12"], "unrecognized arguments: 3.12"),
        (["-m", "bench", "--rounds", "0", "state"], "--rounds 0: at least 1"),
    ],
    ids=lambda value: Path(value[-1]).name if isinstance(value, list) else "",
)
def test_slow_commands_refuse_unknown_arguments_first(command: list[str], message: str) -> None:
    argv = [sys.executable, *command]
    process = subprocess.run(argv, cwd=ROOT, env=unmeasured(), capture_output=True, text=True, check=False, timeout=60)
    assert (process.returncode, process.stdout) == (2, "")
    assert message in process.stderr
