"""Programs of the protocol 0.1.0 that are written with the skeleton."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nri.plugins.v010_adapter.skeleton import Request, Result, answer, run
from tests.support.commands import unmeasured
from tests.support.programs import write_program

GIVEN = {"version": "0.1", "state": "create", "id": "c", "sandboxID": "p", "pid": 7, "spec": {"resources": {"cpu": {}}}}

PROGRAM = """#!{python}
from nri.plugins.v010_adapter.skeleton import run

def note(request):
    {body}

run(note)
"""


def program(folder: Path, body: str, *arguments: str, request: object = GIVEN) -> tuple[int, Any, str]:
    """Run a program; its exit code, its result, and what it said."""
    path = write_program(folder, "note", PROGRAM.format(python=sys.executable, body=body))
    text = request if isinstance(request, str) else json.dumps(request)
    process = subprocess.run(
        [path, *arguments], input=text, capture_output=True, text=True, check=False, env=unmeasured(), timeout=60
    )
    return process.returncode, json.loads(process.stdout) if process.stdout else None, process.stderr


def test_returned_metadata_becomes_a_result_with_name_and_version(tmp_path: Path) -> None:
    code, result, errors = program(tmp_path, 'return {"seen": request.id}', "invoke")
    assert (code, result, errors) == (
        0, {"plugin": "note", "version": "0.1", "error": "", "metadata": {"seen": "c"}}, "",
    )  # fmt: skip


def test_an_exception_refuses_with_its_text_and_prints_a_traceback(tmp_path: Path) -> None:
    code, result, errors = program(tmp_path, 'raise ValueError("not this one")', "invoke")
    assert (code, result) == (0, {"plugin": "note", "version": "0.1", "error": "not this one"})
    assert "note(request)" in errors or "in note" in errors


@pytest.mark.parametrize(("arguments", "error"), [((), "invalid arg "), (("serve",), "invalid arg serve")])
def test_another_argument_gives_a_result_with_an_error(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    assert program(tmp_path, "raise SystemExit(9)", *arguments)[1]["error"] == error


@pytest.mark.parametrize("input_text", ["", "{", "[]"])
def test_without_a_request_the_exit_code_is_1_and_there_is_no_result(tmp_path: Path, input_text: str) -> None:
    code, result, errors = program(tmp_path, "return None", "invoke", request=input_text)
    assert (code, result) == (1, None)
    assert "invalid request on stdin" in errors


def test_a_request_has_all_fields_of_the_runtime() -> None:
    document = {
        **GIVEN,
        "conf": {"a": 1},
        "labels": {"app": "web"},
        "spec": {"resources": None, "namespaces": {"pid": ""}, "cgroupsPath": "/a", "annotations": {"k": "v"}},
        "results": [{"plugin": "first", "version": "0.1", "error": "", "metadata": {"x": "y"}}],
    }
    request = Request(document)
    assert (request.conf, request.version, request.state, request.id) == ({"a": 1}, "0.1", "create", "c")
    assert (request.sandbox_id, request.pid, request.labels, request.is_sandbox) == ("p", 7, {"app": "web"}, False)
    spec = request.spec
    assert (spec.resources, spec.namespaces, spec.cgroups_path, spec.annotations) == (
        None, {"pid": ""}, "/a", {"k": "v"},
    )  # fmt: skip
    (before,) = request.results
    assert before.to_json() == document["results"][0]  # type: ignore[index]


def test_an_empty_request_has_empty_fields() -> None:
    request = Request({})
    assert (request.conf, request.pid, request.spec.annotations, request.results) == (None, 0, {}, [])
    assert Request({"id": "p", "sandboxID": "p"}).is_sandbox


def test_a_returned_result_is_used_unchanged() -> None:
    built = Result("other", "9", "partly", {"a": "b"})
    assert answer(lambda _: built, ["invoke"], GIVEN, "note").to_json() == {
        "plugin": "other", "version": "9", "error": "partly", "metadata": {"a": "b"},
    }  # fmt: skip
    assert answer(lambda _: None, ["invoke"], GIVEN, "note").to_json() == {
        "plugin": "note", "version": "0.1", "error": "",
    }  # fmt: skip


def test_the_skeleton_does_not_import_protobuf(tmp_path: Path) -> None:
    body = 'import sys; return {"heavy": " ".join(sorted({"google.protobuf", "socket", "logging"} & set(sys.modules)))}'
    assert program(tmp_path, body, "invoke")[1]["metadata"] == {"heavy": ""}


def refuse(_request: Request) -> Result:
    raise ValueError("not this one")


def ended(handler: Any, request: str) -> tuple[object, str]:
    """Run a plugin in this process; how the program ends, and what it wrote."""
    written = io.StringIO()
    with pytest.raises(SystemExit) as end:
        run(handler, io.StringIO(request), written)
    return end.value.code, written.getvalue()


@pytest.fixture
def invoked(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the program `note`, called as a runtime does it."""
    monkeypatch.setattr(sys, "argv", ["/opt/nri/bin/note", "invoke"])


@pytest.mark.usefixtures("invoked")
def test_a_result_is_written_to_the_stream_with_exit_code_0() -> None:
    code, written = ended(lambda request: {"seen": request.id}, json.dumps(GIVEN))
    assert code == 0
    assert json.loads(written) == {"plugin": "note", "version": "0.1", "error": "", "metadata": {"seen": "c"}}


@pytest.mark.usefixtures("invoked")
def test_a_refusal_is_a_result_with_exit_code_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    code, written = ended(refuse, json.dumps(GIVEN))
    assert (code, json.loads(written)) == (0, {"plugin": "note", "version": "0.1", "error": "not this one"})


@pytest.mark.usefixtures("invoked")
@pytest.mark.parametrize(
    ("input_text", "reason"),
    [("{", "Expecting property name"), ("[" * 100_000, ""), ("[]", "not an object")],
    ids=["no JSON", "too deep", "no object"],
)
def test_an_invalid_request_is_an_error_and_does_not_reach_the_plugin(input_text: str, reason: str) -> None:
    requests: list[Request] = []
    code, written = ended(requests.append, input_text)
    assert str(code).startswith("invalid request on stdin: ")
    assert reason in str(code)
    assert (written, requests) == ("", [])


def test_an_argument_other_than_invoke_does_not_call_the_plugin() -> None:
    requests: list[Request] = []
    assert answer(requests.append, ["serve", "now"], GIVEN, "note").to_json() == {
        "plugin": "note", "version": "0.1", "error": "invalid arg serve",
    }  # fmt: skip
    assert requests == []


def test_an_exception_without_a_text_refuses_with_its_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exception_types: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: exception_types.append(kind))

    def fail(_request: Request) -> Result:
        raise LookupError

    assert answer(fail, ["invoke"], GIVEN, "note").error == "LookupError"
    assert exception_types == [LookupError]
