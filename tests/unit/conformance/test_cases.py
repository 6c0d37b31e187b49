"""Recorded cases: reading files and showing differences."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.conformance.cases import MERGE_OPS, read_cases, run_merge_case


def shares(value: int) -> dict[str, Any]:
    """An update of another container, as the reference gives it back."""
    resources = {"cpu": {"shares": {"value": str(value)}}, "memory": {}}
    return {"container_id": "other", "linux": {"resources": resources}}


def case(**changed: Any) -> dict[str, Any]:
    """One plugin updates another container when one stops."""
    plugins = [{"index": "10", "name": "a", "update": [shares(5)]}]
    expect = {"error": None, "update": [shares(5)]}
    created = {"id": "1", "op": "stop", "container": {"id": "c"}, "plugins": plugins, "expect": expect}
    return created | changed


def test_a_case_with_the_recorded_outcome_passes() -> None:
    assert run_merge_case(case()) is None
    assert frozenset(("create", "update", "stop")) == MERGE_OPS


def test_a_case_with_another_outcome_is_shown_as_a_diff() -> None:
    failure = run_merge_case(case(expect={"error": None, "update": [shares(6)]}))
    assert failure is not None
    assert str(failure).startswith("case 1 (stop) differs:\n--- update: recorded\n+++ update: actual")
    lines = [line.replace(" ", "") for line in failure.diff.splitlines()]
    assert '-"value":"6"' in lines and '+"value":"5"' in lines


def test_an_error_that_was_not_recorded_is_a_failure() -> None:
    twice = [*case()["plugins"], {**case()["plugins"][0], "index": "20", "name": "b"}]
    failure = run_merge_case(case(plugins=twice))
    assert failure is not None and "error: actual" in failure.diff


@pytest.mark.parametrize(
    "changed", [{"container": {"nothing": 1}}, {"container": 5}, {"plugins": [{"index": "10"}]}], ids=str
)
def test_an_invalid_case_fails_with_the_reason(changed: dict[str, Any]) -> None:
    failure = run_merge_case(case(**changed))
    assert failure is not None and failure.diff.startswith("the case cannot be read")


@pytest.mark.parametrize("packed", [False, True])
def test_plain_and_compressed_files_are_read(tmp_path: Path, packed: bool) -> None:
    text = (json.dumps(case()) + "\n\n" + json.dumps(case(id="2")) + "\n").encode()
    (tmp_path / "cases").write_bytes(lzma.compress(text) if packed else text)
    assert [entry["id"] for entry in read_cases(tmp_path / "cases")] == ["1", "2"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a JSON object"),
        ("[]", "id, op and expect are required"),
        (json.dumps(case(op="dance")), 'unknown op "dance"'),
        (json.dumps(case(expect=[])), "expect is not an object"),
        (json.dumps(case(expect={"seen": 1})), "expect.seen is not a list"),
        (json.dumps(case(plugins=5)), "plugins is not a list of objects"),
        (json.dumps(case(plugins=[{"index": 1}])), "a plugin's index is not text"),
    ],
)
def test_an_invalid_line_is_an_error_with_its_number(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "cases"
    file.write_text(f"\n{line}\n")
    with pytest.raises(nri.ConfigError, match=f"{file}:2: .*{reason}"):
        list(read_cases(file))


def test_a_missing_or_invalid_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(nri.ConfigError, match="No such file"):
        list(read_cases(tmp_path / "nothing"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(nri.ConfigError, match="neither JSON lines nor xz"):
        list(read_cases(tmp_path / "binary"))


def test_a_truncated_or_oversized_compressed_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = lzma.compress(json.dumps(case()).encode() * 50)
    (tmp_path / "short").write_bytes(packed[:-20])
    with pytest.raises(nri.ConfigError, match="the file ends too early"):
        list(read_cases(tmp_path / "short"))
    monkeypatch.setattr("nri.config.json_lines.MAX_UNPACKED_BYTES", 100)
    (tmp_path / "long").write_bytes(packed)
    with pytest.raises(nri.ConfigError, match="larger than 0 MiB"):
        list(read_cases(tmp_path / "long"))


def test_concatenated_compressed_files_are_one_file(tmp_path: Path) -> None:
    line = json.dumps(case()).encode() + b"\n"
    (tmp_path / "two").write_bytes(lzma.compress(line) * 2)
    assert len(list(read_cases(tmp_path / "two"))) == 2
    (tmp_path / "many").write_bytes(lzma.compress(b"") * 2000)
    with pytest.raises(nri.ConfigError, match="more than 1000 xz streams"):
        list(read_cases(tmp_path / "many"))


def test_a_number_with_too_many_digits_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "cases").write_text('{"id": ' + "1" * 5000 + "}\n")
    with pytest.raises(nri.ConfigError, match=r"cases:1: .*not a JSON object: Exceeds the limit"):
        list(read_cases(tmp_path / "cases"))


def mounts(*destinations: str) -> dict[str, Any]:
    return {"mounts": [{"destination": destination} for destination in destinations]}


def test_a_creation_is_compared_by_requests_adjustment_and_owners() -> None:
    container: dict[str, Any] = {
        "id": "c", "linux": {"namespaces": [{"type": "pid"}, {"type": "ipc"}]},
    }  # fmt: skip
    plugins = [
        {"index": "20", "name": "b", "adjust": {"annotations": {"b": "2"}}},
        {"index": "10", "name": "a", "adjust": {"annotations": {"a": "1"}, **mounts("-/y", "-/x", "/z")}},
    ]
    usual = {"hooks": {}, "linux": {"resources": {"cpu": {}, "memory": {}}}}
    expect: dict[str, Any] = {"adjust": {"annotations": {"a": "1", "b": "2"}, **mounts("/z", "-/x", "-/y"), **usual}}
    wrong = run_merge_case({"id": "1", "op": "create", "container": container, "plugins": plugins, "expect": expect})
    assert wrong is not None and "adjust:" not in wrong.diff, "removals come in the order of a Go map"
    assert "seen: recorded" in wrong.diff and "owners:" not in wrong.diff, "owners count where they are recorded"


def test_an_update_is_compared_by_requests_and_result() -> None:
    requested = {"cpu": {"shares": {"value": "2"}}}
    failing = {"index": "20", "name": "b", "error": "no"}
    created = {"id": "1", "op": "update", "container": {"id": "c"}, "resources": requested, "plugins": [failing]}
    observed = [{**requested, "memory": {}}]
    assert run_merge_case({**created, "expect": {"error": "no", "seen": observed}}) is None
    failure = run_merge_case({**created, "expect": {"error": "yes", "seen": observed}})
    assert failure is not None and '"no"' in failure.diff
