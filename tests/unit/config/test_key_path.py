"""Paths of configuration keys in errors."""

from __future__ import annotations

import pytest

from nri.config import Source
from nri.config.key_path import first_line, location, path_text, uncapital


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("cpus",), "cpus"),
        (("pools", 2, "cpus"), "pools[2].cpus"),
        (("plugins", "io.containerd.nri.v1.nri", "disable"), 'plugins."io.containerd.nri.v1.nri".disable'),
        ((0, "a-b"), "[0].a-b"),
    ],
)
def test_a_key_path_has_the_usual_notation(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


def test_a_known_line_follows_the_name_of_the_file() -> None:
    source = Source("10-pin.conf", "")
    assert (location(source, 3), location(source, None)) == ("10-pin.conf:3", "10-pin.conf")


def test_the_text_of_a_parser_error_is_adapted() -> None:
    assert uncapital("Expecting value") == "expecting value"
    assert first_line(ValueError("Too many digits; use more\nand a second line")) == "too many digits"
    assert first_line(ValueError()) == "valueError"
