"""Records of pods and containers, to JSON and back."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState
from nri.engine.state.records import Record


def test_a_record_survives_a_round_trip() -> None:
    pod = PodRecord("p1", name="web", labels={"a": "ü"}, state=PodState.READY, ips=["10.0.0.1", "fd00::1"], done=["x"])
    container = ContainerRecord("c1", state=ContainerState.EXITED, exit_code=137, mounts=[{"a": [1, None]}])
    for record in (pod, container):
        assert type(record).from_json(json.loads(json.dumps(record.to_json()))) == record


def test_keys_of_a_newer_version_are_kept_and_written_again() -> None:
    from_json = PodRecord.from_json({"id": "p1", "colour": "blue", "ips": []})
    assert from_json.unknown == {"colour": "blue"}
    assert from_json.to_json()["colour"] == "blue"
    assert "unknown" not in from_json.to_json()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "not a JSON object"),
        (None, "not a JSON object"),
        ({}, "'id' is missing"),
        ({"id": ""}, "'id' is missing"),
        ({"id": 1}, "'id' is 1; it must be of the type str"),
        ({"id": "p", "pid": True}, "'pid' is True"),
        ({"id": "p", "pid": "1"}, "of the type int"),
        ({"id": "p", "labels": {"a": 1}}, "'labels' has a value that is not a string"),
        ({"id": "p", "ips": "10.0.0.1"}, "'ips' is '10.0.0.1'"),
        ({"id": "p", "state": "lost"}, "must be one of creating, ready"),
    ],
)
def test_an_invalid_record_is_an_error_with_its_key(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PodRecord.from_json(data)


@pytest.mark.parametrize("kind", [PodRecord, ContainerRecord])
def test_every_field_is_checked(kind: type[Record]) -> None:
    for name in {field.name for field in fields(kind)} - {"unknown"}:
        with pytest.raises(ValueError, match=f"'{name}' is 1.5; "):
            kind.from_json({"id": "p", name: 1.5})
