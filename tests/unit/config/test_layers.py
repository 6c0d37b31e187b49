"""Several sources become one instance, with the position of each value."""

import pytest

from nri.config import Source
from nri.config.complaint import WrongValue, single_errors
from nri.config.layers import Layer, merge, parse_layer
from nri.errors import ConfigError


class Inner:
    size: int = 1
    name: str = "x"


class Config:
    inner: Inner
    tables: dict[str, Inner] = {}  # noqa: RUF012
    path: str = "/"


def layer(name: str, text: str) -> Layer:
    return parse_layer(Source(name, text, "toml"))


def test_later_layers_override_key_by_key_and_values_have_positions() -> None:
    merged = merge(Config, [layer("a", 'path = "/a"\n[inner]\nsize = 2\n'), layer("b", '[inner]\nname = "y"')])
    assert (merged.value.path, merged.value.inner.size, merged.value.inner.name) == ("/a", 2, "y")
    assert merged.origins == {"path": "a:1", "inner.size": "a:3", "inner.name": "b:2"}


def test_replaced_tables_replace_their_positions() -> None:
    merged = merge(Config, [layer("a", "[tables.one]\nsize = 3"), layer("b", "\n[tables.two]\nsize = 4")])
    assert [*merged.value.tables] == ["two"]
    assert merged.origins == {"tables": "b", "tables.two": "b:2", "tables.two.size": "b:3"}


class Checked:
    port: int = 1
    name: str = "x"

    def __post_init__(self) -> None:
        if self.port > 9:
            raise WrongValue("port", f"{self.port} is too big", "9 is the biggest")


class Whole:
    inner: Checked
    path: str = "/"


def test_a_check_of_a_table_reports_the_position_of_the_key() -> None:
    with pytest.raises(ConfigError) as caught:
        merge(Whole, [layer("a", "[inner]\nname = 'y'\nport = 10"), layer("b", 'path = "/b"')])
    assert str(caught.value) == "a:3: inner.port: 10 is too big (9 is the biggest)"


def test_mistakes_of_all_layers_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        merge(Config, [layer("a", "pth = 1"), layer("b", "\npath = 1")])
    assert [str(error) for error in single_errors(caught.value)] == [
        'a:1: pth: unknown key (did you mean "path"?)',
        'b:2: path: expected a string, not 1 (write it in quotes: "1")',
    ]


def test_without_layers_the_defaults_are_used() -> None:
    merged = merge(Config, [])
    assert merged.value.path == "/"
    assert merged.origins == {}


def test_an_empty_text_sets_no_value() -> None:
    assert merge(Config, [layer("a", "")]).origins == {}


class Policy:
    resource_kind = "PinPolicy"
    cpus: str = ""


def test_a_class_with_a_kind_can_be_read_from_a_resource() -> None:
    bare, resource = layer("bare", 'cpus = "1"'), layer("whole", 'kind = "PinPolicy"\n[spec]\ncpus = "2"')
    merged = merge(Policy, [bare, resource])
    assert (merged.value.cpus, merged.origins) == ("2", {"cpus": "whole:3"})
    with pytest.raises(ConfigError, match=r'^bad:3: cpu: unknown key \(did you mean "cpus"\?\)'):
        merge(Policy, [layer("bad", 'kind = "PinPolicy"\n[spec]\ncpu = "2"')])
    with pytest.raises(ConfigError, match=r'^other:1: kind: expected PinPolicy, not "Pod"'):
        merge(Policy, [layer("other", 'kind = "Pod"')])
    assert merge(Policy, [layer("empty", 'kind = "PinPolicy"')]).value.cpus == ""
