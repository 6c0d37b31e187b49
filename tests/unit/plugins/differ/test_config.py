"""The indices of `differ`: at least two, each once, and such as a runtime takes."""

from __future__ import annotations

import pytest

import nri
from nri.config.flags import flag_layer
from nri.config.layers import merge
from nri.plugins.differ.config import DifferConfig


def of(indices: str) -> tuple[int, ...]:
    return merge(DifferConfig, [flag_layer(DifferConfig, "indices", "indices", [indices])]).value.indices


def test_they_are_numbers_between_commas() -> None:
    assert of("00,08,99") == (0, 8, 99)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("5", "at least two are wanted, and each once"),
        ("5,5,6", "at least two are wanted, and each once"),
        ("0,100", "100 is no index; they are 0 to 99"),
        ("0,x", r'--indices: indices\[1\]: expected a whole number, not "x"'),
    ],
)
def test_others_are_refused_with_the_reason(given: str, reason: str) -> None:
    with pytest.raises(nri.ConfigError, match=reason):
        of(given)
