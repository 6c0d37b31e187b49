"""Flags of a command line as configuration; errors name the flag."""

from __future__ import annotations

import pytest

import nri
from nri.config import Duration, Source
from nri.config.flags import check, flag_layer
from nri.config.layers import merge, parse_layer


class Config:
    text: str = ""
    maybe: str | None = None
    number: int = 1
    share: float = 0.5
    wait: Duration = 1.0
    switch: bool = False
    words: list[str] = []  # noqa: RUF012
    places: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("field", "arguments", "value"),
    [
        ("text", ["10"], "10"),
        ("text", ["first", "last: one"], "last: one"),
        ("maybe", ["true"], "true"),
        ("number", ["10"], 10),
        ("share", ["0.25"], 0.25),
        ("wait", ["5s"], 5.0),
        ("switch", True, True),
        ("switch", ["false"], False),
        ("words", ["a,b", "1"], ["a", "b", "1"]),
        ("places", ["0, 08"], (0, 8)),
    ],
)
def test_a_value_is_read_by_the_type_of_its_key(field: str, arguments: list[str] | bool, value: object) -> None:
    config = merge(Config, [flag_layer(Config, "flag", field, arguments)]).value
    assert getattr(config, field) == value


def test_a_flag_overrides_a_file() -> None:
    file = parse_layer(Source("f.yaml", "number: 2\ntext: file\n"))
    config = merge(Config, [file, flag_layer(Config, "number", "number", ["3"])]).value
    assert (config.number, config.text) == (3, "file")


def test_wrong_values_are_reported_together_with_their_flags() -> None:
    layers = [flag_layer(Config, "how-many", "number", ["x"]), flag_layer(Config, "places", "places", ["1,y"])]
    with pytest.raises(nri.ConfigError) as caught:
        check(Config, layers)
    assert str(caught.value) == (
        '--how-many: number: expected a whole number, not "x"; --places: places[1]: expected a whole number, not "y"'
    )
