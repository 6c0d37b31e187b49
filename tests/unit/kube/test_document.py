"""Values of a manifest, asked for by kind."""

import pytest

from nri.errors import ConfigError
from nri.kube.document import Document, text

DOCUMENT = Document("pod.yaml")


def test_a_missing_value_is_an_empty_one():
    for tree in ({}, {"k": None}):
        assert (DOCUMENT.table(tree, "k"), DOCUMENT.tables(tree, "k"), DOCUMENT.texts(tree, "k")) == ({}, [], [])


def test_a_value_of_the_kind_is_given_as_it_is():
    assert DOCUMENT.table({"k": {"a": 1}}, "k") == {"a": 1}
    assert DOCUMENT.tables({"k": [{"a": 1}]}, "k") == [{"a": 1}]
    assert DOCUMENT.texts({"k": ["a", 1, True, None]}, "k") == ["a", "1", "true", ""]


@pytest.mark.parametrize(
    ("ask", "value", "reason"),
    [
        (DOCUMENT.table, [], "pod.yaml: spec.k: expected a table of keys"),
        (DOCUMENT.tables, {"a": 1}, "pod.yaml: spec.k: expected a list of tables"),
        (DOCUMENT.tables, ["a"], "pod.yaml: spec.k: expected a list of tables"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_file_and_key(ask, value, reason):
    with pytest.raises(ConfigError) as caught:
        ask({"k": value}, "k", "spec.")
    assert str(caught.value) == reason


@pytest.mark.parametrize(("value", "shown"), [("a", "a"), (3, "3"), (1.5, "1.5"), (False, "false"), (None, "")])
def test_a_scalar_is_written_as_yaml_writes_it(value, shown):
    assert text(value) == shown
