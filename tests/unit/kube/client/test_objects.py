"""Replies of an API server as objects."""

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.kube.client import objects
from nri.kube.client.objects import NODE_SLOS, PODS, ApiserverError, Event, Lines, ObjectReader, Page
from nri.kube.lists import ListSplitter, OversizedObject
from nri.kube.object_cache import ObjectCache


def test_paths_of_the_core_and_of_groups() -> None:
    assert PODS.path == "api/v1/pods"
    assert NODE_SLOS.path == "apis/slo.koordinator.sh/v1alpha1/nodeslos"
    assert PODS.object_path("ns", "a", "eviction") == "api/v1/namespaces/ns/pods/a/eviction"


def test_a_name_cannot_leave_its_path_segment() -> None:
    assert PODS.object_path("..", "../../x?y#z") == "api/v1/namespaces/../pods/..%2F..%2Fx%3Fy%23z"


def test_a_kind_has_kubectls_name() -> None:
    assert (str(PODS), str(NODE_SLOS)) == ("pods", "nodeslos.slo.koordinator.sh")


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


def read_list(content: bytes) -> tuple[list[Any], Page]:
    splitter, reader, cache = ListSplitter(), ObjectReader(PODS), ObjectCache()
    for item in splitter.feed(content):
        reader.read_item(item, cache)
    return [*cache.objects.values()], objects.read_page(splitter.end())


def read_event(line: bytes | OversizedObject) -> Event:
    return ObjectReader(PODS).read_event(line)


def test_a_page_has_objects_version_and_continue_token() -> None:
    tree = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [thing(managedFields=[1])]}
    assert read_list(data(tree)) == ([thing()], Page("7", "more"))
    assert read_list(data({"metadata": {"resourceVersion": "7"}, "items": None})) == ([], Page("7", ""))


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
        {"metadata": {"resourceVersion": "7"}, "items": [thing(name="")]},
    ],
)
def test_an_invalid_page_is_a_value_error(tree: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_list(data(tree))


def test_only_used_fields_of_a_pod_are_read() -> None:
    container = {"name": "c", "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}}
    spec = {"containers": [container], "tolerations": [{"key": "x"}], "hostNetwork": True}
    (pod,), _ = read_list(data({"metadata": {"resourceVersion": "7"}, "items": [{**thing(), "spec": spec}]}))
    assert pod["spec"] == {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}], "hostNetwork": True}


def test_an_event_with_an_oversized_object_has_name_version_and_reason() -> None:
    line = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"ns","resourceVersion":"9"}}}'
    event = read_event(OversizedObject.of(line, 3 << 20))
    assert (event.type, objects.key_of(event.object), event.object["metadata"]["resourceVersion"]) == (
        "MODIFIED", ("ns", "a"), "9"
    )  # fmt: skip
    assert "3145728 bytes" in event.problem
    labels = {f"k{number}": "v" for number in range(5000)}
    short = read_event(data({"type": "ADDED", "object": thing(namespace="ns", labels=labels)}))
    assert "short texts" in short.problem and objects.key_of(short.object) == ("ns", "a")


def test_events_of_all_types_are_read() -> None:
    assert read_event(data({"type": "ADDED", "object": thing()}))[:2] == ("ADDED", thing())
    mark = {"metadata": {"resourceVersion": "9"}}
    assert read_event(data({"type": "BOOKMARK", "object": mark})) == Event("BOOKMARK", mark)
    assert read_event(data({"type": "ERROR", "object": {"code": 410}})).object == {"code": 410}


@pytest.mark.parametrize(
    "line", [b"", b"{", b"\xff", b"[" * 100_000, b"1", b"{}", data({"type": "NEW", "object": thing()})]
)
def test_an_invalid_event_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_event(line)


@given(JSON)
def test_any_json_is_an_object_or_a_value_error(tree: Any) -> None:
    with suppress(ValueError):
        assert isinstance(read_list(data(tree))[1], Page)
    with suppress(ValueError):
        assert isinstance(read_event(data(tree)), Event)
    code, words, after_s = objects.read_status(data(tree))
    assert (type(code), type(words)) == (int, str)
    assert 0.0 <= after_s <= 86_400.0, "a pause that a client can make"


def test_a_status_has_code_text_and_retry_time() -> None:
    tree = {"code": 429, "message": "slow down", "details": {"retryAfterSeconds": 7}}
    assert objects.read_status(data(tree)) == (429, "slow down", 7.0)
    assert objects.read_status(data({"code": "x", "reason": "Busy", "details": 3})) == (0, "Busy", 0.0)
    assert objects.read_status(b"not json") == (0, "", 0.0)


def test_an_object_is_identified_by_namespace_and_name() -> None:
    assert objects.key_of(thing(namespace="ns")) == ("ns", "a")
    assert objects.key_of(thing()) == ("", "a")


@pytest.mark.parametrize(
    ("message", "after_s"),
    [(10**400, 86_400.0), (-(10**400), 0.0), (7, 7.0), ("7", 0.0)],
    ids=["huge", "negative", "short", "text"],
)
def test_a_huge_retry_time_is_bounded(message: object, after_s: float) -> None:
    status = {"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": message}}
    assert objects.read_status(data(status)) == (429, "TooManyRequests", after_s)


@pytest.mark.parametrize(("status", "hint"), [(401, "token"), (403, "rbac.yaml"), (404, "CustomResourceDefinition")])
def test_an_error_names_the_next_step(status: int, hint: str) -> None:
    error = ApiserverError("list pods", status, "no\nway")
    assert str(error).startswith("cannot list pods: no\\nway (")
    assert hint in str(error)


def test_compacted_and_future_versions_are_expired() -> None:
    assert ApiserverError("x", 410, "too old").expired
    assert ApiserverError("x", 504, "Too large resource version: 99, current: 3").expired
    assert not ApiserverError("x", 504, "busy").expired


@given(st.lists(st.text("ab \r", max_size=9)), st.lists(st.integers(0, 60)))
def test_lines_are_equal_for_any_split_of_the_bytes(lines: list[str], cuts: list[int]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    cutter = Lines(100)
    cut_lines = [line for one, two in pairwise(ends) for line in cutter.feed(data[one:two])]
    assert cut_lines == [line.strip().encode() for line in lines if line.strip()]


def test_an_incomplete_line_is_kept() -> None:
    cutter = Lines(100)
    assert cutter.feed(b"ab") == []
    assert cutter.feed(b"c\nd") == [b"abc"]


@pytest.mark.parametrize(
    ("pieces", "size"), [((b"x" * 11 + b"\n",), 11), ((b"x" * 6, b"x" * 5, b"x" * 90, b"\n"), 101)]
)
def test_an_oversized_line_is_skipped_and_the_next_line_is_read(pieces: tuple[bytes, ...], size: int) -> None:
    cutter = Lines(10)
    lines = [line for piece in (b"a\n", *pieces, b"b\n") for line in cutter.feed(piece)]
    assert lines == [b"a", OversizedObject(size), b"b"]


def test_an_endless_line_is_a_value_error() -> None:
    cutter = Lines(10)
    assert cutter.feed(b"x" * 320) == []
    with pytest.raises(ValueError, match="a line of more than"):
        cutter.feed(b"x")


def test_a_line_of_the_maximum_length_is_read() -> None:
    assert Lines(10).feed(b"x" * 10 + b"\n") == [b"x" * 10]
