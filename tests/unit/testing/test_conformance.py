"""Recorded cases: how a file is read, and how a case that comes out otherwise is shown."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.testing.conformance import MERGE_OPS, read_cases, run_merge_case


def shares(value: int) -> dict[str, Any]:
    """An update of another container, as the reference gives it back."""
    resources = {"cpu": {"shares": {"value": str(value)}}, "memory": {}}
    return {"container_id": "other", "linux": {"resources": resources}}


def case(**changed: Any) -> dict[str, Any]:
    """One plugin updates another container when one stops."""
    plugins = [{"index": "10", "name": "a", "update": [shares(5)]}]
    expect = {"error": None, "update": [shares(5)]}
    made = {"id": "1", "op": "stop", "container": {"id": "c"}, "plugins": plugins, "expect": expect}
    return made | changed


def test_a_case_that_comes_out_as_recorded_is_no_failure() -> None:
    assert run_merge_case(case()) is None
    assert frozenset(("create", "update", "stop")) == MERGE_OPS


def test_a_case_that_comes_out_otherwise_is_shown_as_a_diff() -> None:
    failure = run_merge_case(case(expect={"error": None, "update": [shares(6)]}))
    assert failure is not None
    assert str(failure).startswith("case 1 (stop) differs:\n--- update: recorded\n+++ update: ours")
    lines = [line.replace(" ", "") for line in failure.diff.splitlines()]
    assert '-"value":"6"' in lines and '+"value":"5"' in lines


def test_an_error_that_was_not_recorded_is_a_failure() -> None:
    twice = [*case()["plugins"], {**case()["plugins"][0], "index": "20", "name": "b"}]
    failure = run_merge_case(case(plugins=twice))
    assert failure is not None and "error: ours" in failure.diff


@pytest.mark.parametrize(
    "changed", [{"container": {"nothing": 1}}, {"container": 5}, {"plugins": [{"index": "10"}]}], ids=str
)
def test_a_case_that_cannot_be_read_says_so(changed: dict[str, Any]) -> None:
    failure = run_merge_case(case(**changed))
    assert failure is not None and failure.diff.startswith("the case cannot be read")


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_plain_or_packed(tmp_path: Path, packed: bool) -> None:
    text = (json.dumps(case()) + "\n\n" + json.dumps(case(id="2")) + "\n").encode()
    (tmp_path / "cases").write_bytes(lzma.compress(text) if packed else text)
    assert [each["id"] for each in read_cases(tmp_path / "cases")] == ["1", "2"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a JSON object"),
        ("[]", "id, op and expect are needed"),
        (json.dumps(case(op="dance")), 'op is "dance"'),
        (json.dumps(case(expect=[])), "expect is no object"),
        (json.dumps(case(expect={"seen": 1})), "expect.seen is no list"),
        (json.dumps(case(plugins=5)), "plugins is no list of objects"),
        (json.dumps(case(plugins=[{"index": 1}])), "a plugin's index is no text"),
    ],
)
def test_a_line_that_is_no_case_is_named_with_its_place(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "cases"
    file.write_text(f"\n{line}\n")
    with pytest.raises(nri.ConfigError, match=f"{file}:2: .*{reason}"):
        list(read_cases(file))


def test_a_file_that_is_not_there_or_neither_text_nor_packed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(nri.ConfigError, match="No such file"):
        list(read_cases(tmp_path / "nothing"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(nri.ConfigError, match="neither JSON lines nor xz"):
        list(read_cases(tmp_path / "binary"))
