"""Every recorded outcome of rubik is equal or has a documented deviation."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from nri.config.json_lines import read_json_lines
from tests.rubik_cases import DEVIATIONS, run_case, same
from tests.rubik_cases.deviations import deviation
from tests.rubik_cases.expected import comparable
from tests.support.deviation_rows import deviation_rows
from tests.support.needs import need_root

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "data" / "rubik.jsonl.xz"


def test_every_recorded_outcome_is_equal_or_a_documented_deviation() -> None:
    need_root()  # for device nodes
    results = {case["id"]: run_case(case) for case in read_json_lines(CASES, lambda _: "")}
    failures = [f"{name}: {result.wrong}"[:500] for name, result in results.items() if result.wrong]
    assert not failures, f"{len(failures)} of {len(results)}; the first: {failures[0]}"
    apart = Counter(result.deviation for result in results.values() if result.deviation)
    assert len(results) == 593 and sum(apart.values()) <= 90, apart


def test_a_deviation_passes_only_with_its_documented_outcome() -> None:
    """A documented deviation accepts exactly one outcome."""
    cases = {case["id"]: case for case in read_json_lines(CASES, lambda _: "")}
    for name in ("dynCache/mask/047", "frame/setup/002", "quotaTurbo/fast_fallback/023", "ioLimit/add/033"):
        case, expected = cases[name], comparable(copy.deepcopy(cases[name]))
        (_, stated), *_ = deviation(case, expected)
        assert run_case(case).deviation
        assert not same({**stated, "more": 1}, stated, 0.0)
        assert not same(expected, stated, 0.0), "what rubik did is not what is stated"


def test_every_deviation_has_a_row_in_the_docs() -> None:
    assert set(deviation_rows("rubik")) >= set(DEVIATIONS)


def test_the_program_fails_for_a_wrong_case_and_not_for_a_deviation(tmp_path: Path) -> None:
    cases = {case["id"]: case for case in read_json_lines(CASES, lambda _: "")}
    differs = cases["dynCache/mask/047"]
    bad = {**cases["dynCache/mask/003"], "id": "bad", "expect": {"error": False, "mask": "1"}}
    (tmp_path / "cases.jsonl").write_text(f"{json.dumps(differs)}\n{json.dumps(bad)}\n")
    command = [sys.executable, "-m", "tests.rubik_cases", str(tmp_path / "cases.jsonl")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)
    assert (run.returncode, run.stdout.splitlines()[-1]) == (1, "0 passed, 1 failed, 1 differ on purpose")
    assert "FAILED bad: " in run.stdout
