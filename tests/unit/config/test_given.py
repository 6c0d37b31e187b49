"""Values by dotted key become a layer, whose places are the names of what gave them."""

import pytest

from nri.config.given import given_layer, parse_setting
from nri.errors import ConfigError


def test_a_value_of_set_is_toml_and_else_text() -> None:
    assert parse_setting("nri.disable=true", "a=1") == ("nri.disable", True)
    assert parse_setting("nri.allowed_uids=[1, 2]", "a=1") == ("nri.allowed_uids", [1, 2])
    assert parse_setting("socket=/run/x=y.sock", "a=1") == ("socket", "/run/x=y.sock")
    with pytest.raises(ConfigError, match=r"not KEY=VALUE \(such as --set a=1\)"):
        parse_setting("socket", "a=1")


def test_the_place_of_a_value_is_what_gave_it_also_for_what_is_in_it() -> None:
    layer = given_layer({"a.b": ("--one", [1]), "c": ("TWO", 2)})
    assert layer.tree == {"a": {"b": [1]}, "c": 2}
    assert layer.place(("a", "b", 0)) == "--one"
    assert layer.place(("c",)) == "TWO"
    assert layer.place(("d",)) == "--one, TWO"


def test_a_key_below_a_value_that_is_no_table_is_an_error() -> None:
    with pytest.raises(ConfigError, match='"a" is a value and no table'):
        given_layer({"a": ("--set", 1), "a.b": ("--set", 2)})
