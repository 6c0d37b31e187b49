"""Requests and results as JSON. tests/conformance/test_v010_adapter.py compares them with the reference."""

from __future__ import annotations

import json

import pytest

from nri.api import messages as m
from nri.plugins.v010_adapter.request import MAX_SHOWN_BYTES, AnswerError, of_container, of_pod, read_result


def test_missing_fields_are_omitted_except_resources() -> None:
    assert of_pod(m.PodSandbox(), "create") == {"state": "create", "id": "", "spec": {"resources": None}}


def test_a_container_has_its_own_annotations_and_the_pods_labels() -> None:
    pod = m.PodSandbox(id="p", labels={"app": "web"}, annotations={"of": "pod"})
    container = m.Container(id="c", pid=7, labels={"of": "container"}, annotations={"of": "container"})
    request = of_container(pod, container, "delete")
    assert (request["id"], request["sandboxID"], request["pid"], request["state"]) == ("c", "p", 7, "delete")
    assert (request["labels"], request["spec"]["annotations"]) == ({"app": "web"}, {"of": "container"})


def test_a_request_is_written_as_json() -> None:
    container = m.Container(id="c")
    container.linux.resources.memory.disable_oom_killer.value = False
    assert json.loads(json.dumps(of_container(m.PodSandbox(), container, "create")))["spec"]["resources"] == {
        "memory": {"disableOOMKiller": False},
        "cpu": {},
    }


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b"", r"output: <empty>: "),
        (b"\xff", r"output: .*: "),
        (b"7", r'output: "7": an object was expected, not int'),
        (b'{"error": 7}', r"error: a string was expected, not 7"),
        (b'{"metadata": []}', r"metadata: an object was expected, not \[\]"),
        (b'{"metadata": {"k": {}}}', r"metadata\.k: a string was expected, not \{\}"),
        (b"[" * 100_000, r"\.\.\.: "),
    ],
)
def test_an_invalid_result_is_an_error_with_the_reason(output: bytes, reason: str) -> None:
    with pytest.raises(AnswerError, match=reason) as raised:
        read_result(output, 0)
    assert len(str(raised.value)) < MAX_SHOWN_BYTES + 1000


def test_an_invalid_result_is_an_error_with_the_exit_code() -> None:
    with pytest.raises(AnswerError, match=r'output: "oops" exit code: 7: '):
        read_result(b"oops", 7)


def test_null_is_an_empty_result() -> None:
    empty = {"plugin": "", "version": "", "error": ""}
    assert read_result(b"null", 0) == read_result(b'{"error": null, "metadata": {}}', 0) == empty
    assert read_result(b'{"metadata": {"a": null}}', 0)["metadata"] == {"a": ""}
