"""A plugin without a runtime."""

from __future__ import annotations

import pytest

import nri
from tests.unit.stub.plugins import CONTAINER, POD


def test_a_handler_can_be_called_without_a_runtime() -> None:
    class Names(nri.Plugin):
        def create_container(self, pod, container):
            return nri.Adjustment().add_env("POD", pod.name)

    assert Names().create_container(POD, CONTAINER).env == {"POD": "web"}


def test_a_name_of_its_own_is_kept_and_not_inherited_by_accident() -> None:
    class Base(nri.Plugin):
        name = "special"

    class Derived(Base): ...

    assert (Base.name, Derived.name) == ("special", "derived")


class Pin(nri.Plugin):
    mirror = True

    class Config:
        cpus: str = "0-3"
        zones: list[str] = []  # noqa: RUF012  # that each plugin gets its own is what is tested

    config: Config

    def create_container(self, pod, container):
        if container.id in self.state.containers:
            return None
        return nri.Adjustment().set_cpuset_cpus(self.config.cpus)


def test_the_configuration_is_the_defaults_before_there_is_a_runtime() -> None:
    plugin = Pin()
    assert plugin.create_container(POD, CONTAINER).cpuset_cpus == "0-3"
    plugin.config.zones.append("a")
    plugin.config.cpus = "4-7"
    assert plugin.create_container(POD, CONTAINER).cpuset_cpus == "4-7", "it is the plugin's own, and can be set"
    assert Pin().config.zones == []


def test_the_state_is_an_empty_mirror_before_there_is_a_runtime() -> None:
    plugin = Pin()
    assert (plugin.state.pods, plugin.state.containers) == ({}, {})
    plugin.state.containers[CONTAINER.id] = CONTAINER
    assert plugin.create_container(POD, CONTAINER) is None
    assert Pin().state.containers == {}


def test_a_plugin_without_a_mirror_has_no_state_and_says_how_to_get_one() -> None:
    class Plain(nri.Plugin): ...

    with pytest.raises(AttributeError, match=r"Plain\.state does not exist; write mirror = True in the class"):
        Plain().state  # noqa: B018


def test_without_a_config_class_the_configuration_is_an_empty_text() -> None:
    class Plain(nri.Plugin): ...

    assert Plain().config == ""


def test_a_configuration_with_a_key_that_must_be_given_says_which() -> None:
    class Strict(nri.Plugin):
        class Config:
            zone: str

    plugin = Strict()
    with pytest.raises(nri.ConfigError, match=r"configuration: zone: "):
        plugin.config  # noqa: B018
    plugin.config = Strict.Config()
    plugin.config.zone = "a"
    assert plugin.config.zone == "a"
