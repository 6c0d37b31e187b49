"""Attributes of a plugin without a runtime are created on first access, for each plugin."""

from __future__ import annotations

import pytest

import nri
from nri.errors import ConfigError
from nri.stub.support.default_attributes import DefaultConfig, EmptyState, defaults


class Base:
    names: list[str] = []  # noqa: RUF012  # that each instance gets its own is what is tested
    limits: dict[str, int] = {}  # noqa: RUF012
    nodes: set[int] = set()  # noqa: RUF012
    words: str = "none"


class Derived(Base):
    words: str = "some"


def test_mutable_defaults_are_not_shared_also_those_of_a_base_class() -> None:
    first, second = defaults(Derived), defaults(Derived)
    first.names.append("a")
    first.limits["a"] = 1
    first.nodes.add(1)
    assert (second.names, second.limits, second.nodes, second.words) == ([], {}, set(), "some")
    assert (Base.names, Base.limits, Base.nodes) == ([], {}, set())


def test_a_key_without_a_default_is_an_error_with_its_name() -> None:
    class Config:
        zone: str

    with pytest.raises(ConfigError, match="zone"):
        defaults(Config)


def test_without_a_config_class_the_configuration_is_a_string() -> None:
    class Plain(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    assert Plain().config == ""


def test_attributes_are_created_once() -> None:
    class Pin(nri.Plugin):
        mirror = True

        class Config:
            cpus: str = "0-3"

        config: Config

        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    plugin = Pin()
    assert plugin.config is plugin.config
    assert plugin.state is plugin.state


def test_on_the_class_the_descriptors_are_returned() -> None:
    assert isinstance(nri.Plugin.config, DefaultConfig)
    assert isinstance(nri.Plugin.state, EmptyState)
