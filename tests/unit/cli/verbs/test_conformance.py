"""`nri conformance` as a group of verbs. Its runs on recorded cases: see tests/conformance."""

from __future__ import annotations

import json


def test_no_case_at_all_is_none_passed_and_none_failed(nri, tmp_path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({"id": "1", "op": "spec", "expect": {}}) + "\n")
    done = nri("conformance", "merge", str(cases))
    assert (done.returncode, done.stdout) == (0, "0 passed, 0 failed\n"), done.stderr


def test_a_file_that_is_not_there_is_one_line(nri) -> None:
    done = nri("conformance", "merge", "/nowhere.jsonl")
    assert done.returncode != 0
    assert "/nowhere.jsonl" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_kind_that_is_not_known_is_wrong_usage(nri) -> None:
    done = nri("conformance", "merg", "x")
    assert done.returncode == 2
    assert "did you mean merge?" in done.stderr
