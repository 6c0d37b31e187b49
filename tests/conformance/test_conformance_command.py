"""The output and exit codes of `nri conformance merge`."""

import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nri.conformance.cases import read_cases

CASES = Path(__file__).parent / "data" / "merge.jsonl.xz"


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-c",
        "from nri.cli.main import main; main()",
        "conformance",
        "merge",
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def some_cases() -> list[Any]:
    return [case for number, case in enumerate(read_cases(CASES)) if number < 20]


def write(path: Path, cases: list[Any]) -> Path:
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def test_cases_that_pass_are_counted_and_the_exit_code_is_zero(tmp_path: Path, some_cases: list[Any]) -> None:
    result = run(write(tmp_path / "plain.jsonl", some_cases))
    assert (result.returncode, result.stdout) == (0, "20 passed, 0 failed\n"), result.stderr


def test_plain_and_compressed_files_are_read(tmp_path: Path, some_cases: list[Any]) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(lzma.compress(write(tmp_path / "plain.jsonl", some_cases[:5]).read_bytes()))
    result = run(packed, tmp_path / "plain.jsonl")
    assert (result.returncode, result.stdout) == (0, "10 passed, 0 failed\n"), result.stderr


def test_a_case_that_differs_is_shown_as_a_diff_with_its_id(tmp_path: Path, some_cases: list[Any]) -> None:
    case = next(case for case in some_cases if case["op"] == "create" and "adjust" in case["expect"])
    case = json.loads(json.dumps(case))
    case["expect"]["adjust"]["annotations"] = {"never": "set"}
    result = run(write(tmp_path / "wrong.jsonl", [case]))
    assert result.returncode == 1
    assert f"case {case['id']} (create) differs:" in result.stdout
    assert '-   "never": "set"' in result.stdout, result.stdout
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_a_recorded_error_that_does_not_happen_is_a_failure(tmp_path: Path, some_cases: list[Any]) -> None:
    case = next(case for case in some_cases if "error" not in case["expect"])
    case = {**case, "expect": {**case["expect"], "error": "plugin says no"}}
    result = run(write(tmp_path / "wrong.jsonl", [case]))
    assert result.returncode == 1
    assert "plugin says no" in result.stdout


def test_cases_of_other_kinds_are_skipped(tmp_path: Path, some_cases: list[Any]) -> None:
    spec = {"id": "s", "op": "spec", "expect": {}}
    result = run(write(tmp_path / "mixed.jsonl", [*some_cases[:3], spec]))
    assert (result.returncode, result.stdout) == (0, "3 passed, 0 failed\n")


@pytest.mark.parametrize("content", [None, b"{not json\n", b"[]\n", b"\xfd7zXZ\x00garbage", b"\xff\xfe"])
def test_an_unreadable_file_ends_with_code_2_and_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "bad.jsonl"
    if content is not None:
        path.write_bytes(content)
    result = run(path)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert str(path) in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"op": "destroy"}, 'unknown op "destroy": use one of create, update, stop, spec'),
        ({"op": []}, "unknown op []"),
        ({"expect": None}, "expect is not an object"),
        ({"expect": {"update": 5}}, "expect.update is not a list"),
        ({"plugins": [None]}, "plugins is not a list of objects"),
        ({"plugins": [{"name": "a", "index": 5}]}, "a plugin's index is not text"),
    ],
)
def test_an_invalid_line_ends_with_code_2_and_names_file_and_line(
    tmp_path: Path, some_cases: list[Any], change: dict[str, Any], reason: str
) -> None:
    path = write(tmp_path / "odd.jsonl", [some_cases[0], {**some_cases[1], **change}, some_cases[2]])
    result = run(path)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert f"{path}:2: not a case: {reason}" in result.stderr


def test_an_empty_error_text_is_still_an_error(tmp_path: Path) -> None:
    case = {"id": "e", "op": "stop", "plugins": [{"name": "a", "index": "00", "error": ""}]}
    passing, failing = {**case, "expect": {"error": ""}}, {**case, "expect": {}}
    result = run(write(tmp_path / "error.jsonl", [passing, failing]))
    assert result.stdout.splitlines()[-1] == "1 passed, 1 failed", result.stdout


def test_a_case_without_a_required_key_fails_without_a_traceback(tmp_path: Path, some_cases: list[Any]) -> None:
    case = {**some_cases[0], "plugins": [{"name": "nameless index"}]}
    result = run(write(tmp_path / "odd.jsonl", [case]))
    assert result.returncode == 1
    assert "it has no 'index'" in result.stdout
