"""Answers of an apiserver as objects."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.kube.client import objects
from nri.kube.client.objects import Event, Page

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "items", "type", "object", "name", "resourceVersion", "x"]), inner
        )
    ),
    max_leaves=12,
)


def thing(name: str = "a", version: str = "5", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version, **meta}}


def data(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def test_a_page_has_objects_a_version_and_what_to_ask_for_next() -> None:
    tree = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [thing(managedFields=[1])]}
    assert objects.read_page(data(tree)) == Page([thing()], "7", "more")
    assert objects.read_page(data({"metadata": {"resourceVersion": "7"}, "items": None})) == Page([], "7", "")


@pytest.mark.parametrize(
    "tree",
    [
        [],
        {},
        {"items": []},
        {"metadata": {"resourceVersion": "7"}, "items": {}},
        {"metadata": {"resourceVersion": 7}, "items": []},
        {"metadata": {"resourceVersion": "7"}, "items": [1]},
        {"metadata": {"resourceVersion": "7"}, "items": [{}]},
        {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}]},
        {"metadata": {"resourceVersion": "7"}, "items": [thing(name=1)]},  # type: ignore[arg-type]
    ],
)
def test_what_is_no_page_is_a_value_error(tree: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        objects.read_page(data(tree))


def test_events_of_all_types_are_read() -> None:
    assert objects.read_event(data({"type": "ADDED", "object": thing()})) == Event("ADDED", thing())
    mark = {"metadata": {"resourceVersion": "9"}}
    assert objects.read_event(data({"type": "BOOKMARK", "object": mark})) == Event("BOOKMARK", mark)
    assert objects.read_event(data({"type": "ERROR", "object": {"code": 410}})).object == {"code": 410}


@pytest.mark.parametrize(
    "line", [b"", b"{", b"\xff", b"[" * 100_000, b"1", b"{}", data({"type": "NEW", "object": thing()})]
)
def test_what_is_no_event_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        objects.read_event(line)


@given(JSON)
def test_any_json_is_an_object_or_a_value_error(tree: Any) -> None:
    for read in (objects.read_page, objects.read_event):
        try:
            read(data(tree))
        except ValueError:
            pass
    objects.read_status(data(tree))


def test_a_status_has_a_code_words_and_a_time_to_wait() -> None:
    tree = {"code": 429, "message": "slow down", "details": {"retryAfterSeconds": 7}}
    assert objects.read_status(data(tree)) == (429, "slow down", 7.0)
    assert objects.read_status(data({"code": "x", "reason": "Busy", "details": 3})) == (0, "Busy", 0.0)
    assert objects.read_status(b"not json") == (0, "", 0.0)


def test_an_object_is_known_by_namespace_and_name() -> None:
    assert objects.key_of(thing(namespace="ns")) == ("ns", "a")
    assert objects.key_of(thing()) == ("", "a")


@pytest.mark.parametrize(
    ("told", "after_s"),
    [(10**400, 86_400.0), (-(10**400), 0.0), (7, 7.0), ("7", 0.0)],
    ids=["huge", "negative", "short", "text"],
)
def test_a_pause_that_no_clock_can_hold_is_bounded(told: object, after_s: float) -> None:
    status = {"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": told}}
    assert objects.read_status(data(status)) == (429, "TooManyRequests", after_s)
