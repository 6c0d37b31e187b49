"""JSON of annotations is read by the rules of Go's decoder."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.kube.shapes import INT32, INT_OR_TEXT, QUANTITY, Items, Record, Table, Unread, Word, decode

SHAPE = Record(
    {"name": str, "count": int, "on": bool, "list": Items(int), "amounts": Table(QUANTITY), "share": INT_OR_TEXT}
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ("null", {}),
        ('{"unknown": [1, {"a": 2}]}', {}),
        ('{"NAME": "x"}', {"name": "x"}),
        ('{"name": null}', {}),
        ('{"list": [1, null]}', {"list": [1, 0]}),
        ('{"amounts": {"cpu": "500m", "memory": 2}}', {"amounts": {"cpu": Fraction(1, 2), "memory": Fraction(2)}}),
        ('{"share": "10M"}', {"share": "10M"}),
        ('{"share": 10}', {"share": 10}),
    ],
)
def test_values_that_go_accepts_are_read(text: str, value: Any) -> None:
    assert decode(text, SHAPE) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not-json",
        "[]",
        '"text"',
        "{} {}",
        '{"count": 1.0}',
        '{"count": "1"}',
        '{"count": true}',
        '{"count": 9223372036854775808}',
        '{"on": 1}',
        '{"name": 1}',
        '{"list": {}}',
        '{"amounts": {"cpu": "five"}}',
        '{"amounts": {"cpu": true}}',
        '{"amounts": []}',
        '{"share": 1.5}',
        '{"count": NaN}',
        "[" * 100_000,
    ],
)
def test_values_that_go_refuses_are_an_error_of_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]{1,300}\Z"):
        decode(text, SHAPE)


def test_the_path_of_a_wrong_value_is_named() -> None:
    with pytest.raises(ValueError, match=r"^amounts\.cpu: "):
        decode('{"amounts": {"cpu": "five"}}', SHAPE)


def test_a_32_bit_number_has_32_bits() -> None:
    assert decode("2147483647", INT32) == 2**31 - 1
    with pytest.raises(ValueError, match="32 bits"):
        decode("2147483648", INT32)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_any_json_is_read_or_refused(value: Any) -> None:
    try:
        decode(json.dumps({"name": value, "count": value}), SHAPE)
    except ValueError:
        pass


def test_unknown_words_are_read_and_can_be_reported() -> None:
    words = Word(("tc", "terway-qos"))
    assert decode('["tc", "other", null]', Items(words)) == ["tc", "other", ""]
    with pytest.raises(ValueError, match="1 is not a string"):
        decode("[1]", Items(words))
    assert str(Unread.of_word("policy", "terway\n", words.words)) == (
        'policy: "terway\\n" has no effect: write one of tc, terway-qos; did you mean terway-qos?'
    )


def test_half_of_a_surrogate_pair_is_replaced_like_in_go() -> None:
    assert decode('{"name": "a\\ud800b"}', SHAPE)["name"] == "a\ufffdb"
    assert decode('{"name": "\\ud83d\\ude00"}', SHAPE)["name"] == "\U0001f600"
