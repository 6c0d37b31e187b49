"""Typed access to values of a manifest."""

import pytest

from nri.config import Source, parse_text
from nri.errors import ConfigError
from nri.kube.document import Document, text

DOCUMENT = Document(Source("pod.yaml", ""), None)


def test_a_missing_value_is_empty():
    for tree in ({}, {"k": None}):
        assert (DOCUMENT.table(tree, "k"), DOCUMENT.tables(tree, "k"), DOCUMENT.texts(tree, "k")) == ({}, [], [])


def test_a_value_of_the_type_is_returned():
    assert DOCUMENT.table({"k": {"a": 1}}, "k") == {"a": 1}
    assert DOCUMENT.tables({"k": [{"a": 1}]}, "k") == [{"a": 1}]
    assert DOCUMENT.texts({"k": ["a", 1, True, None]}, "k") == ["a", "1", "true", ""]


@pytest.mark.parametrize(
    ("ask", "value", "reason"),
    [
        (DOCUMENT.table, [], "pod.yaml: spec.k: expected a mapping of keys to values"),
        (DOCUMENT.tables, {"a": 1}, "pod.yaml: spec.k: expected a list of mappings"),
        (DOCUMENT.tables, ["a"], "pod.yaml: spec.k: expected a list of mappings"),
    ],
)
def test_a_value_of_another_type_is_an_error_with_file_and_key(ask, value, reason):
    with pytest.raises(ConfigError) as caught:
        ask({"k": value}, "k", "spec.")
    assert str(caught.value) == reason


@pytest.mark.parametrize(("value", "shown"), [("a", "a"), (3, "3"), (1.5, "1.5"), (False, "false"), (None, "")])
def test_a_scalar_is_printed_like_in_yaml(value, shown):
    assert text(value) == shown


WHOLE = Source("pod.yaml", "a: 1\nspec:\n  first: x\n  k: {v: [1]}\n  n: -1\n")


@pytest.mark.parametrize(
    ("kind", "key", "text"),
    [
        ("items", "k", "pod.yaml:4: spec.k: expected a list"),
        ("texts", "k", "pod.yaml:4: spec.k: expected a list"),
        ("text", "k", "pod.yaml:4: spec.k: expected a string"),
        ("pairs", "k", "pod.yaml:4: spec.k.v: expected a string"),
        ("table", "first", "pod.yaml:3: spec.first: expected a mapping of keys to values"),
    ],
)
def test_an_error_names_the_line_of_the_value(kind, key, text):
    tree = parse_text(WHOLE)
    with pytest.raises(ConfigError) as caught:
        getattr(Document(WHOLE, tree), kind)(tree["spec"], key, "spec.")
    assert str(caught.value) == text


@pytest.mark.parametrize("value", [-1, 2**32, True, 1.0, "x", "-1", "9" * 5000, []])
def test_a_number_out_of_bounds_is_refused(value):
    with pytest.raises(ConfigError, match="k: expected a whole number from 0 to 4294967295"):
        DOCUMENT.number({"k": value}, "k", 2**32 - 1)
    assert [DOCUMENT.number({"k": good}, "k", 2**32 - 1) for good in (None, 0, 7, "7")] == [0, 0, 7, 7]


def test_a_flag_is_only_true_or_false():
    assert [DOCUMENT.flag(tree, "k") for tree in ({"k": True}, {"k": False}, {})] == [True, False, False]
    with pytest.raises(ConfigError, match="expected true or false"):
        DOCUMENT.flag({"k": "yes"}, "k")
