"""The configuration of a plugin: defaults of its class, flags, files and the runtime's text."""

from __future__ import annotations

import subprocess
import sys
from typing import Literal

import pytest

import nri
from nri.stub.program.options import Options
from nri.stub.program.process import Program
from nri.stub.session import settings
from nri.testing import FakeRuntime
from tests.support.commands import unmeasured
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


def test_without_configuration_each_plugin_has_its_own_defaults() -> None:
    first, second = configured(""), configured("")
    first.config.zones.append("a")
    assert (first.config.cpus, second.config.zones) == ("0-3", [])


@pytest.mark.parametrize("text", ["cpus: '4-7'\nzones: [b]\n", '{"cpus": "4-7", "zones": ["b"]}'])
def test_the_runtimes_configuration_is_json_or_yaml(text: str) -> None:
    plugin = configured(text)
    assert (plugin.config.cpus, plugin.config.zones, plugin.config.mode) == ("4-7", ["b"], "soft")


def test_an_invalid_configuration_is_an_error_with_source_and_key() -> None:
    with plugin_thread(Pin()) as running:
        running.runtime.register()
        message = running.runtime.configure("cpu: '4-7'").message
        outcome = running.ended()
    assert isinstance(outcome, nri.ConfigError), repr(outcome)
    assert "the runtime's configuration" in message and "cpu" in message and "cpus" in message, message


def test_without_a_config_class_the_plugin_gets_the_text() -> None:
    plugin = Names()
    with plugin_thread(plugin) as running:
        running.runtime.begin(config="anything: at all")
    assert plugin.config == "anything: at all"


class Flagged(Pin):
    flags = {"cpus": ("cpus", "LIST", "which"), "mode": ("mode", "MODE", "how")}  # noqa: RUF012


def test_a_configuration_that_a_plugin_does_not_read_is_reported(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    class Blind(nri.Plugin):
        pass

    file = tmp_path / "blind.json"
    file.write_text("{}")
    with pytest.raises(nri.ConfigError, match=r"blind\.json.*the file would have no effect: Blind has no class Config"):
        settings.apply(Blind(), "", str(file))
    settings.apply(Blind(), "cpus: 1")
    assert "the configuration that the runtime sent has no effect: Blind has no class Config" in caplog.text


def test_flags_override_the_file_and_the_file_overrides_the_runtimes_text(tmp_path) -> None:
    (tmp_path / "pin.yaml").write_text("mode: hard\nzones: [file]\n")
    plugin = Flagged()
    settings.apply(plugin, "cpus: '1'\nmode: soft\nzones: [runtime]\n", str(tmp_path / "pin.yaml"), {"cpus": ["2"]})
    assert (plugin.config.cpus, plugin.config.mode, plugin.config.zones) == ("2", "hard", ["file"])


def test_a_plugin_can_read_the_source_of_its_configuration(tmp_path) -> None:
    (tmp_path / "pin.yaml").write_text("cpus: '1'\n")
    plugin = configured("")
    assert plugin.config_source == ""
    settings.apply(plugin, "cpus: '2'")
    assert plugin.config_source == "the runtime's configuration"
    settings.apply(plugin, "cpus: '2'", str(tmp_path / "pin.yaml"))
    assert plugin.config_source == str(tmp_path / "pin.yaml")


def test_an_invalid_flag_is_an_error_with_its_name() -> None:
    with pytest.raises(nri.ConfigError, match=r'^--mode: mode: expected one of soft, hard, not "sotf" \(did you mean'):
        settings.check_flags(Flagged, {"mode": ["sotf"]})
    settings.check_flags(Flagged, {"mode": ["hard"]})


def test_string_and_boolean_flags_do_not_import_the_configuration_reader() -> None:
    program = """
import sys, nri
from nri.stub.session import settings
class Pin(nri.Plugin):
    flags = {"cpus": ("cpus", "LIST", ""), "hard": ("hard", "", "")}
    class Config:
        cpus: str = "0"
        hard: bool = False
        other: int = 1
settings.check_flags(Pin, {"cpus": ["1", "2"], "hard": True})
plugin = Pin()
settings.apply(plugin, "", None, {"cpus": ["1", "2"], "hard": True})
loaded = {"nri.config", "nri.config.typed"} & set(sys.modules)
print(plugin.config.cpus, plugin.config.hard, plugin.config.other, len(loaded))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], env=unmeasured(), capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["2", "True", "1", "0"]


def test_a_check_of_the_config_class_also_runs_for_flags() -> None:
    class Checked(Names):
        flags = {"cpus": ("cpus", "LIST", "which")}  # noqa: RUF012

        class Config:
            cpus: str = "0"

            def __post_init__(self) -> None:
                if self.cpus == "x":
                    raise ValueError("x is not a CPU")

    with pytest.raises(nri.ConfigError, match="x is not a CPU"):
        settings.apply(Checked(), "", None, {"cpus": ["x"]})


class Keeps(Pin):
    mirror = True

    def __init__(self, name: str = "", value: object = None) -> None:
        if name:
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("name", "value"), [("runtime", {}), ("config", {}), ("config", "cpus: 0"), ("state", {}), ("state", None)]
)
def test_an_attribute_that_a_connection_would_overwrite_is_an_error(name: str, value: object) -> None:
    for start in (FakeRuntime().add, lambda plugin: Program(plugin, Options())):
        with pytest.raises(nri.ConfigError, match=rf"class Keeps: self\.{name}: is .* \(rename the attribute\)"):
            start(Keeps(name, value))


def test_other_attributes_of_self_are_accepted() -> None:
    class Plain(Names):
        def __init__(self) -> None:
            self.state = {"its": "own"}

        def configure(self) -> None:
            self.config = {"read": self.config}

    plain = Plain()
    for plugin in (Keeps(), Keeps("config", Pin.Config()), Keeps("seen", {}), plain):
        for _ in "again":
            with FakeRuntime() as runtime:
                runtime.add(plugin, config="")
    assert plain.state == {"its": "own"}
