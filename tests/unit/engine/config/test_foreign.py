"""Configuration files of containerd and iSulad, and mistakes of published samples."""

import pytest

from nri.config.complaint import single_errors
from nri.engine.config import ENGINE_SETTINGS
from nri.errors import ConfigError

CONTAINERD = """version = 3
root = "/var/lib/containerd"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  plugin_request_timeout = "4s"
  [plugins."io.containerd.nri.v1.nri".default_validator]
    enable = true
    required_plugins = ["10-a"]
"""
ISULAD = """{
    "group": "isula",
    "nri-support": true,
    "disable_connections": false,
    "plugin-registration-timeout": 7,
    "plugin_request_timeout": "4s",
    "socket_path": "/run/x.sock"
}"""
#: As the design documents have it: comments, a missing comma, an equals sign, a misspelt key.
SAMPLE = """{
    # allow NRI
    "nri-support": true
    "disable-connections" = true,
    "plugin-reqest-timeout": 2
}"""


def test_only_nri_settings_of_containerds_file_are_used(write) -> None:
    loaded = ENGINE_SETTINGS.load(write("config.toml", CONTAINERD), environment={})
    nri = loaded.settings.nri
    assert (nri.plugin_request_timeout, nri.default_validator.required_plugins) == (4.0, ("10-a",))
    assert str(loaded.settings.root) == "/var/lib/nri-engine"
    assert loaded.origins["nri.plugin_request_timeout"] == "config.toml:5"
    assert loaded.origins["nri.default_validator.required_plugins"] == "config.toml:8"


def test_a_key_that_containerd_would_ignore_is_an_error(write) -> None:
    name = write("config.toml", CONTAINERD.replace("disable =", "disabled ="))
    with pytest.raises(ConfigError, match=r'config.toml:4: .*unknown key "disabled".*did you mean "disable"'):
        ENGINE_SETTINGS.load(name, environment={})


def test_isulads_keys_are_read_in_both_spellings_and_units(write) -> None:
    loaded = ENGINE_SETTINGS.load(write("daemon.json", ISULAD), environment={})
    nri = loaded.settings.nri
    assert (nri.disable, nri.disable_connections, nri.socket_path) == (False, False, "/run/x.sock")
    assert (nri.plugin_registration_timeout, nri.plugin_request_timeout) == (7.0, 4.0)
    assert loaded.origins["nri.plugin_request_timeout"] == "daemon.json:6"
    spelling = 'the key has an old spelling, and iSulad ignores it (write "disable-connections")'
    assert f"daemon.json:4: disable_connections: {spelling}" in loaded.notes
    assert "daemon.json:7: socket_path: iSulad itself does not support another socket path" in loaded.notes


def test_isulads_nri_is_off_by_default(write) -> None:
    assert ENGINE_SETTINGS.load(write("daemon.json", '{"plugin-path": "/p"}'), environment={}).settings.nri.disable


def test_every_mistake_of_a_published_sample_has_its_line(write) -> None:
    with pytest.raises(ConfigError) as caught:
        ENGINE_SETTINGS.load(write("daemon.json", SAMPLE), environment={})
    join = "\n".join(map(str, single_errors(caught.value)))
    assert "daemon.json:4: not valid JSON: expecting ',' delimiter" in join
    assert "check the end of the previous line for a missing comma" in join
    assert "daemon.json:4: not valid JSON: expecting ':' delimiter in column 27 (write a colon instead" in join
    assert 'daemon.json:5: plugin-reqest-timeout: unknown key "plugin-reqest-timeout"; iSulad ignores it ' in join
    assert 'did you mean "plugin-request-timeout"?' in join
    assert len(single_errors(caught.value)) == 3
