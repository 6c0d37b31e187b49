"""Keys that look like Koordinator's and are none: what was meant is told, and what is another's is left alone."""

from __future__ import annotations

import pytest

from nri.cli.support.agent.misspelt import misspelt


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("koordinator.sh/qosclass", "koordinator.sh/qosClass"),
        ("koordinator.sh/cpu-burst", "koordinator.sh/cpuBurst"),
        ("koordinator.sh/resource-status", "scheduling.koordinator.sh/resource-status"),
        ("node.koordinator.sh/extended-resources-spec", "node.koordinator.sh/extended-resource-spec"),
    ],
)
def test_a_key_that_is_nearly_one_is_told_with_the_one_that_was_meant(key: str, meant: str) -> None:
    assert misspelt({}, {key: "x"}) == [f"{key}: without effect, nothing reads it; did you mean {meant}?"]
    assert misspelt({meant: "BE"}, {key: "x"}) == []


def test_a_class_that_is_none_and_a_class_in_the_wrong_place_are_told() -> None:
    (line,) = misspelt({"koordinator.sh/qosClass": "be"}, {})
    assert line.startswith('koordinator.sh/qosClass: "be" is no class')
    (line,) = misspelt({}, {"koordinator.sh/qosClass": "BE"})
    assert line.endswith("it is a label")


@pytest.mark.parametrize(
    "key", ["scheduling.koordinator.sh/device-allocate-hint", "scheduling.koordinator.sh/resource-spec", "app/qosclass"]
)
def test_keys_of_others_are_left_alone(key: str) -> None:
    assert misspelt({"koordinator.sh/qosClass": "BE", key: "x"}, {key: "x"}) == []
