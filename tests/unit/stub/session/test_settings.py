"""The plugin's configuration: from the runtime's text, over the defaults of its class."""

from __future__ import annotations

from typing import Literal

import pytest

import nri
from nri.stub.session import settings
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import Names


class Pin(Names):
    class Config:
        cpus: str = "0-3"
        mode: Literal["soft", "hard"] = "soft"
        zones: list[str] = []  # noqa: RUF012  # that each plugin gets its own is what is tested


def configured(text: str, **attributes) -> Pin:
    plugin = type("PinX", (Pin,), attributes)()
    with plugin_thread(plugin) as running:
        running.runtime.begin(config=text)
    return plugin


def test_without_configuration_the_defaults_hold_and_are_not_shared() -> None:
    first, second = configured(""), configured("")
    first.config.zones.append("a")
    assert (first.config.cpus, second.config.zones) == ("0-3", [])


@pytest.mark.parametrize("text", ["cpus: '4-7'\nzones: [b]\n", '{"cpus": "4-7", "zones": ["b"]}'])
def test_the_runtimes_configuration_is_json_or_yaml(text: str) -> None:
    plugin = configured(text)
    assert (plugin.config.cpus, plugin.config.zones, plugin.config.mode) == ("4-7", ["b"], "soft")


def test_a_configuration_that_does_not_fit_names_source_and_key() -> None:
    with plugin_thread(Pin()) as running:
        running.runtime.register()
        message = running.runtime.configure("cpu: '4-7'").message
        outcome = running.ended()
    assert isinstance(outcome, nri.ConfigError), repr(outcome)
    assert "the runtime's configuration" in message and "cpu" in message and "cpus" in message, message


def test_without_a_config_class_the_text_is_passed_on() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin(config="anything: at all")
    assert plugin.config == "anything: at all"


class Flagged(Pin):
    flags = {"cpus": ("cpus", "LIST", "which"), "mode": ("mode", "MODE", "how")}  # noqa: RUF012


def test_flags_of_its_own_come_before_the_file_and_that_before_the_runtimes_text(tmp_path) -> None:
    (tmp_path / "pin.yaml").write_text("mode: hard\nzones: [file]\n")
    plugin = Flagged()
    settings.apply(plugin, "cpus: '1'\nmode: soft\nzones: [runtime]\n", str(tmp_path / "pin.yaml"), {"cpus": ["2"]})
    assert (plugin.config.cpus, plugin.config.mode, plugin.config.zones) == ("2", "hard", ["file"])


def test_a_flag_that_does_not_fit_is_told_by_its_name() -> None:
    with pytest.raises(nri.ConfigError, match=r'^--mode: mode: expected one of soft, hard, not "sotf" \(did you mean'):
        settings.check_flags(Flagged, {"mode": ["sotf"]})
    settings.check_flags(Flagged, {"mode": ["hard"]})
