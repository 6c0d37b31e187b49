"""Every recorded outcome of Koordinator's hooks comes out the same in reference mode; and what the command says."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from nri.policies.koordinator.quirks import Quirks
from nri.testing.conformance import read_cases
from nri.testing.hook_cases import is_helper, run_hook_case, stages, wrong

CASES = Path(__file__).parent / "data" / "koordinator-hooks.jsonl.xz"
HOOKS, HELPERS = 166, 106
#: Cases that come out otherwise by default, each for a row of docs/deviations.md.
DEVIATIONS = {
    "protocol/convert.container_to_nri/010": {"rdt_class_only_at_creation"},
    "resctrl/PreCreateContainer/002": {"resctrl_class_needs_group", "rdt_class_only_at_creation"},
}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return list(read_cases(CASES, wrong))


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    words = ("conformance", "hooks", *map(str, arguments))
    command = [sys.executable, "-c", "from nri.cli.main import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def write(path: Path, cases: list[Any]) -> Path:
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def test_every_recorded_outcome_comes_out_the_same_in_reference_mode(cases: list[dict[str, Any]]) -> None:
    failures = [failure for case in cases if (failure := run_hook_case(case)) is not None]
    assert not failures, f"{len(failures)} of {len(cases)} differ; the first: {failures[0]}"
    assert (len(cases), sum(map(is_helper, cases))) == (HOOKS + HELPERS, HELPERS)


def test_by_default_only_the_known_deviations_come_out_otherwise(cases: list[dict[str, Any]]) -> None:
    differing = {case["id"] for case in cases if run_hook_case(case, Quirks.DEFAULT) is not None}
    assert differing == set(DEVIATIONS)


def test_each_deviation_is_due_to_named_choices(cases: list[dict[str, Any]]) -> None:
    for name, attributes in DEVIATIONS.items():
        case = next(case for case in cases if case["id"] == name)
        others = {field.name: field.name not in attributes for field in fields(Quirks)}
        assert run_hook_case(case, Quirks(**others)) is None, name


def test_a_stage_that_is_not_known_is_a_failure(cases: list[dict[str, Any]]) -> None:
    failure = run_hook_case({**cases[0], "stage": "PreNothing"})
    assert failure is not None
    assert "not known" in failure.diff


def test_no_case_can_pass_by_being_empty() -> None:
    """Every stage compares something: a wrong expectation of each is found."""
    for name in stages():
        hook, _, stage = name.partition("/")
        case = {"id": name, "hook": hook, "stage": stage, "input": {}, "expect": {"never": "there"}}
        assert run_hook_case(case) is not None, name


def test_the_command_counts_hooks_first_and_helpers_apart() -> None:
    done = run(CASES)
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [f"{HOOKS} passed, 0 failed (hooks)", f"{HELPERS} passed, 0 failed (helpers)"],
    ), done.stderr


def test_the_command_shows_a_difference_as_a_diff(tmp_path: Path, cases: list[dict[str, Any]]) -> None:
    case = next(case for case in cases if case["expect"].get("bvt") == -1)
    done = run(write(tmp_path / "wrong.jsonl", [{**case, "expect": {**case["expect"], "bvt": 7}}]))
    assert done.returncode == 1
    assert f"case {case['id']} " in done.stdout
    assert '- "bvt": 7' in done.stdout
    assert '+ "bvt": -1' in done.stdout
    assert done.stdout.splitlines()[-2:] == ["0 passed, 1 failed (hooks)", "0 passed, 0 failed (helpers)"]


def test_the_command_shows_deviations_in_default_mode(cases: list[dict[str, Any]]) -> None:
    done = run("--compat", "default", CASES)
    assert done.returncode == 1
    assert all(name in done.stdout for name in DEVIATIONS)


def test_cases_of_other_kinds_alone_are_an_error(tmp_path: Path) -> None:
    done = run(write(tmp_path / "merge.jsonl", [{"id": "m", "op": "create", "expect": {}}]))
    assert done.returncode == 1
    assert "no case of a hook" in done.stderr


@pytest.mark.parametrize(
    "line", [{"id": "a"}, {"id": "a", "expect": {}}, {"id": "a", "hook": 1, "stage": "", "expect": {}}]
)
def test_a_line_that_is_no_case_ends_with_2(tmp_path: Path, line: dict[str, Any]) -> None:
    done = run(write(tmp_path / "odd.jsonl", [line]))
    assert done.returncode == 2
    assert "not a case" in done.stderr


@pytest.mark.parametrize("given", [{"pods": 5}, {"rule": []}, {"pod": "x"}, {"pod": {"annotations": 7}}])
def test_a_case_that_cannot_be_run_is_a_failure_and_not_a_crash(given: dict[str, Any]) -> None:
    for name in stages():
        hook, _, stage = name.partition("/")
        run_hook_case({"id": name, "hook": hook, "stage": stage, "input": given, "expect": {"error": False}})
