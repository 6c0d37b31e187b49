"""Programs of the protocol 0.1.0 that are written with the skeleton."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nri.plugins.v010_adapter.skeleton import Request, Result, answer
from tests.support.commands import unmeasured
from tests.support.programs import write_program

GIVEN = {"version": "0.1", "state": "create", "id": "c", "sandboxID": "p", "pid": 7, "spec": {"resources": {"cpu": {}}}}

PROGRAM = """#!{python}
from nri.plugins.v010_adapter.skeleton import run

def note(request):
    {body}

run(note)
"""


def program(folder: Path, body: str, *arguments: str, given: object = GIVEN) -> tuple[int, Any, str]:
    """Run a program; its exit code, its result, and what it said."""
    path = write_program(folder, "note", PROGRAM.format(python=sys.executable, body=body))
    text = given if isinstance(given, str) else json.dumps(given)
    done = subprocess.run(
        [path, *arguments], input=text, capture_output=True, text=True, check=False, env=unmeasured(), timeout=60
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_metadata_is_a_result_with_the_programs_name_and_the_requests_version(tmp_path: Path) -> None:
    code, result, said = program(tmp_path, 'return {"seen": request.id}', "invoke")
    assert (code, result, said) == (
        0, {"plugin": "note", "version": "0.1", "error": "", "metadata": {"seen": "c"}}, "",
    )  # fmt: skip


def test_an_exception_refuses_with_its_text_and_tells_people_where(tmp_path: Path) -> None:
    code, result, said = program(tmp_path, 'raise ValueError("not this one")', "invoke")
    assert (code, result) == (0, {"plugin": "note", "version": "0.1", "error": "not this one"})
    assert "note(request)" in said or "in note" in said


@pytest.mark.parametrize(("arguments", "error"), [((), "invalid arg "), (("serve",), "invalid arg serve")])
def test_another_argument_is_a_result_that_says_so(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    assert program(tmp_path, "raise SystemExit(9)", *arguments)[1]["error"] == error


@pytest.mark.parametrize("given", ["", "{", "[]"])
def test_without_a_request_it_ends_with_1_and_no_result(tmp_path: Path, given: str) -> None:
    code, result, said = program(tmp_path, "return None", "invoke", given=given)
    assert (code, result) == (1, None)
    assert "the request on stdin cannot be read" in said


def test_a_request_has_everything_that_the_runtime_said() -> None:
    given = {
        **GIVEN,
        "conf": {"a": 1},
        "labels": {"app": "web"},
        "spec": {"resources": None, "namespaces": {"pid": ""}, "cgroupsPath": "/a", "annotations": {"k": "v"}},
        "results": [{"plugin": "first", "version": "0.1", "error": "", "metadata": {"x": "y"}}],
    }
    request = Request(given)
    assert (request.conf, request.version, request.state, request.id) == ({"a": 1}, "0.1", "create", "c")
    assert (request.sandbox_id, request.pid, request.labels, request.is_sandbox) == ("p", 7, {"app": "web"}, False)
    spec = request.spec
    assert (spec.resources, spec.namespaces, spec.cgroups_path, spec.annotations) == (
        None, {"pid": ""}, "/a", {"k": "v"},
    )  # fmt: skip
    (before,) = request.results
    assert before.to_json() == given["results"][0]  # type: ignore[index]


def test_of_a_request_that_says_nothing_everything_is_empty() -> None:
    request = Request({})
    assert (request.conf, request.pid, request.spec.annotations, request.results) == (None, 0, {}, [])
    assert Request({"id": "p", "sandboxID": "p"}).is_sandbox


def test_a_whole_result_is_taken_as_it_is() -> None:
    made = Result("other", "9", "partly", {"a": "b"})
    assert answer(lambda _: made, ["invoke"], GIVEN, "note").to_json() == {
        "plugin": "other", "version": "9", "error": "partly", "metadata": {"a": "b"},
    }  # fmt: skip
    assert answer(lambda _: None, ["invoke"], GIVEN, "note").to_json() == {
        "plugin": "note", "version": "0.1", "error": "",
    }  # fmt: skip


def test_it_loads_nothing_of_the_protocol_of_today(tmp_path: Path) -> None:
    body = 'import sys; return {"heavy": " ".join(sorted({"google.protobuf", "socket", "logging"} & set(sys.modules)))}'
    assert program(tmp_path, body, "invoke")[1]["metadata"] == {"heavy": ""}
