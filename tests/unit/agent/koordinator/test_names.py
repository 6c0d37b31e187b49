"""Classes of pods by their label."""

import pytest

from nri.agent.koordinator import names


@pytest.mark.parametrize("name", ["LSE", "LSR", "LS", "BE", "SYSTEM"])
def test_a_known_class_is_taken_as_it_is_written(name: str) -> None:
    assert names.qos_class({names.LABEL_QOS: name}) == name


@pytest.mark.parametrize("labels", [{}, {names.LABEL_QOS: "ls"}, {names.LABEL_QOS: ""}, {"other": "LS"}])
def test_any_other_word_is_no_class(labels: dict[str, str]) -> None:
    assert names.qos_class(labels) == names.NONE
