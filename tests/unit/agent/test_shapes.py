"""Parts have the methods and arguments that the agent calls."""

from __future__ import annotations

import inspect

import pytest

from nri.agent.agent import POD_SOURCES, RULE_SOURCES, TRANSPORTS
from nri.agent.koordinator.profile import PROFILE
from nri.agent.pods import PodSource
from nri.agent.profile import load
from nri.agent.transports import Transport
from nri.agent.transports.standalone.pods import Reconciler
from nri.agent.transports.standalone.transport import NetworkRound
from nri.agent.worker import Component


def missing(shape: type, created: type) -> list[str]:
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
        if not callable(getattr(created, name, None))
        or list(inspect.signature(value).parameters) != list(inspect.signature(getattr(created, name)).parameters)
    ]


@pytest.mark.parametrize("name", [*TRANSPORTS.values(), *PROFILE.transports.values(), "nri.agent.loops:Loops"])
def test_a_transport_has_the_methods_of_its_protocol(name: str) -> None:
    created = load(name)
    assert missing(Transport, created) == []
    assert list(inspect.signature(created).parameters)[:2] == ["settings", "parts"]


@pytest.mark.parametrize("name", POD_SOURCES.values())
def test_a_source_of_pods_has_the_methods_of_its_protocol(name: str) -> None:
    assert missing(PodSource, load(name)) == []


@pytest.mark.parametrize("name", RULE_SOURCES.values())
def test_a_source_of_rules_has_the_methods_of_its_protocol(name: str) -> None:
    created = load(name)
    assert missing(Component, created) == []
    assert list(inspect.signature(created).parameters)[:2] == ["settings", "store"]


@pytest.mark.parametrize(
    ("shape", "name", "arguments"),
    [(Reconciler, PROFILE.reconciler, ["parts"]), (NetworkRound, PROFILE.network, ["settings", "parts"])],
)
def test_a_profiles_standalone_part_has_the_methods_of_its_protocol(
    shape: type, name: str, arguments: list[str]
) -> None:
    created = load(name)
    assert missing(shape, created) == []
    assert list(inspect.signature(created).parameters)[: len(arguments)] == arguments
