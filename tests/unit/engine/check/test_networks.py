"""The network of pods, its plugins, and iptables."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from nri.engine.check import networks as module
from nri.engine.check.networks import networks
from nri.engine.config import EngineConfig, NetworkConfig


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    for name in ("net.d", "bin"):
        (tmp_path / name).mkdir()
    return EngineConfig(network=NetworkConfig(tmp_path / "net.d", (tmp_path / "bin",)))


def put(config: EngineConfig, *plugins: dict[str, object]) -> None:
    row = {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}
    (config.network.config_dir / "10.conflist").write_text(json.dumps(row))


BRIDGE = {"type": "bridge", "ipam": {"type": "host-local"}}


def test_without_a_configuration_the_folder_is_named(config: EngineConfig) -> None:
    (row,) = networks(config)
    assert (row.what, row.state) == ("pod network", "missing")
    assert f"put a .conflist into {config.network.config_dir}" in row.next


def test_plugins_that_are_missing_are_named_with_their_ipam(config: EngineConfig) -> None:
    put(config, BRIDGE)
    (config.network.plugin_dirs[0] / "bridge").touch()
    network, plugins = networks(config)
    assert (network.state, network.found) == ("ok", f'"pods", {config.network.config_dir}/10.conflist')
    assert plugins.state == "missing"
    assert plugins.found.startswith("host-local in none of ")
    (config.network.plugin_dirs[0] / "host-local").touch()
    assert [row.state for row in networks(config)] == ["ok", "ok"]


def test_a_file_that_cannot_be_used_beside_one_that_can_is_told(config: EngineConfig) -> None:
    put(config, BRIDGE)
    (config.network.config_dir / "00.conf").write_text("{")
    row = next(iter(networks(config)))
    assert row.state == "limited"
    assert "00.conf" in row.found


@pytest.mark.parametrize("plugin", [{"type": "portmap"}, {**BRIDGE, "ipMasq": True}])
def test_a_network_that_filters_needs_iptables(config: EngineConfig, plugin, monkeypatch) -> None:
    put(config, plugin)
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    assert [row.what for row in networks(config) if row.state == "missing"][-1] == "iptables"
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/sbin/{name}")
    assert "iptables" not in [row.what for row in networks(config)]


def test_another_folder_of_plugins_counts(config: EngineConfig, tmp_path: Path) -> None:
    put(config, {"type": "mine"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine").touch()
    network = dataclasses.replace(config.network, plugin_dirs=(*config.network.plugin_dirs, tmp_path / "other"))
    rows = list(networks(dataclasses.replace(config, network=network)))
    assert rows[1].found == f"mine in {tmp_path}/other"
