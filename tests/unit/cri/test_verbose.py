"""The verbose part of a status in both forms."""

from __future__ import annotations

import pytest

from nri.cri.verbose import parse_info


@pytest.mark.parametrize(
    ("info", "actual"),
    [
        ({"info": '{"pid": 7}', "other": "1"}, {"pid": 7}),
        ({"pid": "7", "runtimeSpec": "{}"}, {"pid": 7, "runtimeSpec": {}}),
        ({"info": "[7]"}, {}),
        ({"info": "{"}, {}),
        ({"info": "", "pid": "{"}, {"info": None, "pid": None}),
        ({"info": '{"a": "' + "b" * (4 << 20) + '"}'}, {}),
        ({"pid": "7", "spec": '"' + "b" * (4 << 20) + '"'}, {"pid": 7, "spec": None}),
        ({}, {}),
    ],
)
def test_the_info_is_under_one_key_or_at_the_top(info: dict[str, str], actual: dict[str, object]) -> None:
    assert parse_info(info) == actual
