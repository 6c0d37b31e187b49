"""Parts have the shapes that the wiring counts on: the same names, with the same arguments."""

from __future__ import annotations

import inspect

import pytest

from nri.agent.agent import TRANSPORTS
from nri.agent.pods import PodSource
from nri.agent.rules.book import RuleBook
from nri.agent.shapes import Component, Rules
from nri.agent.sources import POD_SOURCES, RULE_SOURCES, load
from nri.agent.transports import Transport


def missing(shape: type, made: type) -> list[str]:
    """The methods of a shape that a class has not, or has with other arguments."""
    methods = {
        name: value
        for base in shape.__mro__
        for name, value in vars(base).items()
        if not name.startswith("_") and callable(value)
    }
    return [
        name
        for name, value in methods.items()
        if not callable(getattr(made, name, None))
        or list(inspect.signature(value).parameters) != list(inspect.signature(getattr(made, name)).parameters)
    ]


@pytest.mark.parametrize("name", [*TRANSPORTS.values(), "nri.agent.loops:Loops"])
def test_a_transport_has_its_shape(name: str) -> None:
    made = load(name)
    assert missing(Transport, made) == []
    assert list(inspect.signature(made).parameters)[:2] == ["settings", "parts"]


@pytest.mark.parametrize("name", POD_SOURCES.values())
def test_a_source_of_pods_has_its_shape(name: str) -> None:
    assert missing(PodSource, load(name)) == []


@pytest.mark.parametrize("name", RULE_SOURCES.values())
def test_a_source_of_rules_has_the_shape_of_a_part(name: str) -> None:
    made = load(name)
    assert missing(Component, made) == []
    assert list(inspect.signature(made).parameters)[:2] == ["settings", "book"]


def test_the_book_is_what_decisions_read() -> None:
    assert isinstance(vars(RuleBook)["node"], property)
    assert isinstance(vars(Rules)["node"], property)
