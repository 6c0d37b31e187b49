"""The engine's settings: what they are without a file, and what of them contradicts itself."""

import dataclasses

import pytest

from nri import config
from nri.engine.config import EngineConfig, Registry
from nri.errors import ConfigError


def read(text: str) -> EngineConfig:
    return config.read(EngineConfig, [config.Source("engine.toml", text, "toml")])


def test_without_a_file_there_is_an_engine_with_runc_and_nri():
    made = EngineConfig()
    assert made.runtimes[made.default_runtime].path == "runc"
    assert not made.nri.disable
    assert made.nri.plugin_request_timeout == 2.0
    assert made == read("")


def test_every_table_of_the_file_is_a_class_and_durations_have_units():
    made = read('[runtimes.runc]\ntimeout = "5s"\n[[images.registries]]\nhost = "a"\nmirrors = ["b"]\n')
    assert made.runtimes["runc"].timeout == 5.0
    assert made.images.registries == (Registry("a", ("b",)),)


def test_a_default_runtime_that_no_table_has_is_named_with_those_that_there_are():
    with pytest.raises(ConfigError, match='default_runtime "youki" is no table below runtimes; there is: runc, crun'):
        read('default_runtime = "youki"')


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EngineConfig().dry = True
