"""An OCI runtime as a command line: what it calls itself. tests/engine has its calls on real containers."""

from pathlib import Path

import pytest

from nri.engine.process import Runtime
from nri.engine.process.runtime import parse_list, parse_state


@pytest.mark.parametrize(
    ("file", "says", "program"),
    [
        ("runc", "runc version 1.1.5\ncommit: x", "runc"),
        ("wrapped", "runc version 1.3.6", "runc"),
        ("crun-1.21", "crun version 1.21\nspec: 1.0.0", "crun"),
        ("runsc", "runtime: none of this form", "runsc"),
        ("silent", "", "silent"),
    ],
)
def test_a_program_is_what_it_calls_itself_whatever_its_file_is_called(
    tmp_path: Path, file: str, says: str, program: str
) -> None:
    binary = tmp_path / file
    binary.write_text(f"#!/bin/sh\ncat <<END\n{says}\nEND\n")
    binary.chmod(0o755)
    assert Runtime(str(binary), tmp_path / "root").program == program


@pytest.mark.parametrize(
    "row",
    ["7", "[]", "{}", '{"id": 7, "status": "running", "pid": 1, "bundle": "/b"}',
     '{"id": "a", "status": ["running"], "pid": 1, "bundle": "/b"}', '{"id": "a", "status": "running", "pid": 1}',
     *(f'{{"id": "a", "status": "running", "pid": {pid}, "bundle": "/b"}}'
       for pid in ("1e999", "1.5", "true", '"7"', "9" * 30))],
)  # fmt: skip
def test_an_answer_of_wrong_types_is_none(row: str) -> None:
    for parse, text in ((parse_state, row), (parse_list, f"[{row}]"), (parse_list, '{"a": 1}')):
        with pytest.raises(ValueError, match=r"pid is no|no table|no list|is not text"):
            parse(text.encode())


def test_a_program_that_cannot_be_asked_has_the_name_of_its_file(tmp_path: Path) -> None:
    assert Runtime(str(tmp_path / "absent"), tmp_path / "root").program == "absent"
