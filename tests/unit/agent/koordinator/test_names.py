"""Pod classes from their label."""

import pytest

from nri.agent.koordinator import names


@pytest.mark.parametrize("name", ["LSE", "LSR", "LS", "BE", "SYSTEM"])
def test_a_known_class_is_read_from_the_label(name: str) -> None:
    assert names.qos_class({names.LABEL_QOS: name}) == name


@pytest.mark.parametrize("labels", [{}, {names.LABEL_QOS: "ls"}, {names.LABEL_QOS: ""}, {"other": "LS"}])
def test_any_other_text_is_not_a_class(labels: dict[str, str]) -> None:
    assert names.qos_class(labels) == names.NONE
