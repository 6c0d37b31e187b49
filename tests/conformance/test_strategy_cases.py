"""Every recorded outcome of Koordinator's strategies is equal or has a documented deviation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nri.config.json_lines import read_json_lines
from tests.strategy_cases import DEVIATIONS, STATED, run_case
from tests.support.deviation_rows import deviation_rows

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "data" / "koordinator-strategies.jsonl.xz"
#: Worked out by hand: annotations that cannot be read, numbers that are cut off, what is missing, what is refused.
EDGES = Path(__file__).parent / "data" / "koordinator-strategy-edges.jsonl"


def test_every_recorded_outcome_is_equal_or_a_documented_deviation() -> None:
    results = {case["id"]: run_case(case) for case in read_json_lines(CASES, lambda _: "")}
    failures = [f"{name}: {result.wrong}"[:500] for name, result in results.items() if result.wrong]
    assert not failures, f"{len(failures)} of {len(results)}; the first: {failures[0]}"
    apart = {name for name, result in results.items() if result.deviation}
    assert (len(results), len(apart)) == (505, 58)


def test_a_deviation_passes_only_with_its_documented_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in read_json_lines(CASES, lambda _: "") if case["id"] in STATED)
    assert run_case(case).deviation == STATED[case["id"]]["row"]
    monkeypatch.setitem(STATED, case["id"], {**STATED[case["id"]], "expect": {"writes": []}})
    assert run_case(case).wrong


def test_every_documented_outcome_differs_from_the_recorded_outcome() -> None:
    edges = [json.loads(line) for line in EDGES.read_text().splitlines()]
    cases = {case["id"]: case for case in [*read_json_lines(CASES, lambda _: ""), *edges]}
    assert set(cases) >= set(STATED)
    assert not [name for name in STATED if STATED[name]["expect"] == cases[name]["expect"]]


@pytest.mark.parametrize(
    "case", [json.loads(line) for line in EDGES.read_text().splitlines()], ids=lambda one: one["id"]
)
def test_hand_made_cases_have_koordinators_outcome_or_a_named_deviation(case: dict[str, Any]) -> None:
    result = run_case(case)
    assert (result.wrong, result.deviation) == ("", case.get("deviation", ""))


def test_every_deviation_has_a_row_in_the_docs() -> None:
    assert set(deviation_rows("Koordinator")) >= DEVIATIONS


def test_the_program_prints_counts_and_fails_for_a_wrong_case(tmp_path: Path) -> None:
    case = next(line for line in read_json_lines(CASES, lambda _: "") if line["strategy"] == "evict")
    bad = {**case, "id": "bad", "expect": {"writes": "never"}}
    (tmp_path / "cases.jsonl").write_text(f"{json.dumps(case)}\n{json.dumps(bad)}\n")
    command = [sys.executable, "-m", "tests.strategy_cases", str(tmp_path / "cases.jsonl")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)
    assert (run.returncode, run.stdout.splitlines()[-1]) == (1, "1 passed, 1 failed, 0 differ on purpose")
    assert "FAILED bad: " in run.stdout
