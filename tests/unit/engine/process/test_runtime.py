"""The name and replies of an OCI runtime. tests/engine calls it on real containers."""

import os
from pathlib import Path

import pytest

from nri.engine.process import Runtime
from nri.engine.process.runtime import parse_state
from nri.engine.support.errors import EngineError


@pytest.mark.parametrize(
    ("file", "output", "program"),
    [
        ("runc", "runc version 1.1.5\ncommit: x", "runc"),
        ("wrapped", "runc version 1.3.6", "runc"),
        ("crun-1.21", "crun version 1.21\nspec: 1.0.0", "crun"),
        ("runsc", "runtime: none of this form", "runsc"),
        ("silent", "", "silent"),
    ],
)
def test_the_name_of_a_runtime_comes_from_its_version_output(
    tmp_path: Path, file: str, output: str, program: str
) -> None:
    binary = tmp_path / file
    binary.write_text(f"#!/bin/sh\ncat <<END\n{output}\nEND\n")
    binary.chmod(0o755)
    assert Runtime(str(binary), tmp_path / "root").program == program


@pytest.mark.parametrize(
    "row",
    ["7", "[]", "{}", '{"id": 7, "status": "running", "pid": 1, "bundle": "/b"}',
     '{"id": "a", "status": ["running"], "pid": 1, "bundle": "/b"}', '{"id": "a", "status": "running", "pid": 1}',
     *(f'{{"id": "a", "status": "running", "pid": {pid}, "bundle": "/b"}}'
       for pid in ("1e999", "1.5", "true", '"7"', "9" * 30))],
)  # fmt: skip
def test_an_answer_with_wrong_types_is_an_error(row: str) -> None:
    with pytest.raises(ValueError, match=r"pid is not|not a JSON object|is not a string"):
        parse_state(row.encode())


def test_a_program_that_cannot_run_has_the_name_of_its_file(tmp_path: Path) -> None:
    assert Runtime(str(tmp_path / "absent"), tmp_path / "root").program == "absent"


@pytest.mark.parametrize("name", ["state.json", "status"])
def test_a_pipe_instead_of_the_state_is_an_error_without_a_call(tmp_path: Path, name: str) -> None:
    binary = tmp_path / "runc"
    binary.write_text('#!/bin/sh\nfor word; do echo "$word"; done >> "${0%/*}/asked"\necho "[]"\n')
    binary.chmod(0o755)
    runtime = Runtime(str(binary), tmp_path / "root")
    for identity in ("good", "bad"):
        (runtime.root / identity).mkdir()
    (runtime.root / "good" / name).touch()
    os.mkfifo(runtime.root / "bad" / name)
    for call in (
        lambda: runtime.state("bad"),
        lambda: runtime.kill("bad", 9),
        lambda: runtime.delete("bad"),
        lambda: runtime.update("bad", {}),
    ):
        with pytest.raises(EngineError, match=f"bad/{name} is not a regular file, but .* runc would block"):
            call()
    assert not (tmp_path / "asked").exists()
    runtime.kill("good", 9)
    assert (tmp_path / "asked").read_text().split()[-3:] == ["kill", "good", "9"]
    (runtime.root / "bad" / name).unlink()
    runtime.update("bad", {})
    assert (tmp_path / "asked").read_text().split()[-3:] == ["update", "--resources=/dev/stdin", "bad"]
    assert runtime.containers() == ["bad", "good"]


@pytest.mark.parametrize(
    ("script", "damaged"),
    [
        ("echo 'unexpected EOF' >&2; exit 1", True),
        ("echo '[]'", True),
        ("echo 'container does not exist' >&2; exit 1", False),
        ("kill -9 $$", False),
        ('echo \'{"id": "a", "status": "running", "pid": 1, "bundle": "/b"}\'', False),
    ],
)
def test_a_state_that_the_runtime_cannot_read_counts_as_damaged(tmp_path: Path, script: str, damaged: bool) -> None:
    binary = tmp_path / "runc"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    assert Runtime(str(binary), tmp_path / "root").is_damaged("a") is damaged
