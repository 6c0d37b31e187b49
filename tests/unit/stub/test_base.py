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


def test_a_given_name_is_not_inherited() -> None:
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


def test_without_a_runtime_the_configuration_has_the_defaults() -> None:
    plugin = Pin()
    assert plugin.create_container(POD, CONTAINER).cpuset_cpus == "0-3"
    plugin.config.zones.append("a")
    plugin.config.cpus = "4-7"
    assert plugin.create_container(POD, CONTAINER).cpuset_cpus == "4-7", "it is the plugin's own, and can be set"
    assert Pin().config.zones == []


def test_without_a_runtime_the_state_is_an_empty_mirror() -> None:
    plugin = Pin()
    assert (plugin.state.pods, plugin.state.containers) == ({}, {})
    plugin.state.containers[CONTAINER.id] = CONTAINER
    assert plugin.create_container(POD, CONTAINER) is None
    assert Pin().state.containers == {}


def test_without_a_mirror_reading_the_state_is_an_error_with_advice() -> None:
    class Plain(nri.Plugin): ...

    with pytest.raises(AttributeError, match=r"Plain\.state does not exist; set mirror = True in the class"):
        Plain().state  # noqa: B018


def test_without_a_config_class_the_configuration_is_an_empty_string() -> None:
    class Plain(nri.Plugin): ...

    assert Plain().config == ""


def test_a_missing_required_key_is_an_error_with_its_name() -> None:
    class Strict(nri.Plugin):
        class Config:
            zone: str

    plugin = Strict()
    with pytest.raises(nri.ConfigError, match=r"configuration: zone: "):
        plugin.config  # noqa: B018
    plugin.config = Strict.Config()
    plugin.config.zone = "a"
    assert plugin.config.zone == "a"
