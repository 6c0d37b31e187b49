"""JSON as it is published: each mistake is told with its line, and what was meant is understood."""

import pytest

from nri.config.runtimes.lenient_json import parse
from nri.config.runtimes.reading import Kind
from nri.config.source import Source
from nri.errors import ConfigError

SAMPLE = """{
    # allow plugins to connect
    "nri-support": true
    "disable-connections" = false, // here
    "plugin-path": "/opt/#1//x",
}
"""


def test_a_published_sample_is_understood_and_every_mistake_has_its_line() -> None:
    tree, _, remarks = parse(Source("f", SAMPLE, "json"))
    assert tree == {"nri-support": True, "disable-connections": False, "plugin-path": "/opt/#1//x"}
    assert [(one.kind, one.where) for one in remarks] == [
        (Kind.COMMENT, "f:2"),
        (Kind.COMMENT, "f:4"),
        (Kind.MISSING_COMMA, "f:4"),
        (Kind.EQUALS_SIGN, "f:4"),
        (Kind.EXTRA_COMMA, "f:5"),
    ]


def test_what_is_right_stays_as_it_is() -> None:
    text = '{"a": [1, {"b": "x, # y"}]}'
    tree, plain, remarks = parse(Source("f", text, "json"))
    assert (plain.text, remarks) == (text, [])
    assert tree == {"a": [1, {"b": "x, # y"}]}


@pytest.mark.parametrize("text", ['{"a": }', '{"a": 1 2}', "{a: 1}", "[" * 100_000, '{"a": 1, "a": 2}'])
def test_what_cannot_be_mended_is_the_parsers_own_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(Source("f", text, "json"))
