"""Requests and results as JSON; most of it is compared with the reference in tests/conformance/test_v010_adapter.py."""

from __future__ import annotations

import json

import pytest

from nri.api import messages as m
from nri.plugins.v010_adapter.request import MAX_SHOWN_BYTES, AnswerError, of_container, of_pod, read_result


def test_what_is_not_there_is_left_out_but_resources() -> None:
    assert of_pod(m.PodSandbox(), "create") == {"state": "create", "id": "", "spec": {"resources": None}}


def test_a_containers_annotations_are_its_own_and_its_labels_the_pods() -> None:
    pod = m.PodSandbox(id="p", labels={"app": "web"}, annotations={"of": "pod"})
    container = m.Container(id="c", pid=7, labels={"of": "container"}, annotations={"of": "container"})
    request = of_container(pod, container, "delete")
    assert (request["id"], request["sandboxID"], request["pid"], request["state"]) == ("c", "p", 7, "delete")
    assert (request["labels"], request["spec"]["annotations"]) == ({"app": "web"}, {"of": "container"})


def test_a_request_is_json() -> None:
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
def test_an_answer_that_is_none_is_shown_with_the_reason(output: bytes, reason: str) -> None:
    with pytest.raises(AnswerError, match=reason) as raised:
        read_result(output, 0)
    assert len(str(raised.value)) < MAX_SHOWN_BYTES + 1000


def test_the_exit_code_is_told_with_it() -> None:
    with pytest.raises(AnswerError, match=r'output: "oops" exit code: 7: '):
        read_result(b"oops", 7)


def test_null_is_nothing() -> None:
    empty = {"plugin": "", "version": "", "error": ""}
    assert read_result(b"null", 0) == read_result(b'{"error": null, "metadata": {}}', 0) == empty
    assert read_result(b'{"metadata": {"a": null}}', 0)["metadata"] == {"a": ""}
