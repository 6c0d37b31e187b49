"""Objects are cut out of a list as its bytes arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.kube.lists import ListSplitter, OversizedObject

#: Texts and keys that look like parts of the list around them.
_TEXTS = st.sampled_from(["", "a", '"', "\\", '\\"', "{[", "]}", '"items": [', "\u20ac", ",", "\\\\"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=3)


def split(content: bytes, size: int = 1 << 16, **more: int) -> tuple[list[bytes | OversizedObject], bytes]:
    splitter, items = ListSplitter(**more), []
    for start in range(0, len(content), size):
        items += splitter.feed(content[start : start + size])
    return items, splitter.end()


@given(st.lists(_OBJECTS, max_size=4), _VALUES, st.integers(1, 20), st.sampled_from([None, 1]), st.booleans())
def test_objects_and_frame_are_equal_for_any_split_of_the_bytes(
    objects: list[Any], other: Any, size: int, indent: int | None, ascii_only: bool
) -> None:
    tree = {"kind": "PodList", "metadata": other, "items": objects, "last": [other, {"items": [{}]}]}
    items, frame = split(json.dumps(tree, indent=indent, ensure_ascii=ascii_only).encode(), size)
    assert [json.loads(item) for item in items if isinstance(item, bytes)] == objects
    assert json.loads(frame) == {**tree, "items": []}


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_an_object_that_is_too_large_has_its_name_and_its_size(size: int) -> None:
    meta = {"name": "big", "namespace": "shop", "resourceVersion": "7"}
    large = json.dumps({"metadata": meta, "env": ["x"] * 5000})
    content = f'{{"items": [{{"a": 1}}, {large}, {{"b": 2}}]}}'.encode()
    items, frame = split(content, size, max_object_bytes=10_000)
    assert items == [b'{"a": 1}', OversizedObject(len(large), "shop", "big", "7"), b'{"b": 2}']
    assert json.loads(frame) == {"items": []}


@pytest.mark.parametrize(
    "content",
    [
        b'{"items": [1]}',
        b'{"items": ["a"]}',
        b'{"items": [[]]}',
        b'{"items": [{}}',
        b'{"items": [null, {}]}',
        b'{"items": [{}',
        b'{"items": [{}]} {}',
        b'{"items": [{"a": "\\',
        b"]",
        b"",
        b"upstream connect error",
        b'{"junk": [' + b"[]," * 30_000 + b'[]], "items": []}',
        b"[" * 100_000,
    ],
)
def test_a_document_that_is_not_a_list_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        split(content)
