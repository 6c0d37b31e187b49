"""Whether the runtimes of a node launch plugins from a folder."""

from __future__ import annotations

import pytest

from nri.config.runtimes.plugin_folder import launch_obstacles, requires_config

NRI = '[plugins."io.containerd.nri.v1.nri"]\n'
FOLDER = "/opt/nri/plugins"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = 3\n", ""),
        (f"version = 3\n{NRI}disable = true\n", "containerd would not launch it: NRI is off; set disable = false"),
        (f"version = 3\n{NRI}plugin_path = '/p'\n", f"containerd launches plugins from /p, not from {FOLDER}: /etc/"),
        ("version = 9\n", "containerd would not launch it: /etc/containerd/config.toml:1: version: "),
        ('version = 3\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n', "the CRI plugin is in disabled_plugins"),
    ],
)
def test_a_runtime_that_launches_no_plugin_from_a_folder_is_named(put, text: str, message: str) -> None:
    obstacles = launch_obstacles(put({"/etc/containerd/config.toml": text}), FOLDER)
    assert len(obstacles) == bool(message)
    assert message in "".join(obstacles)


def test_every_installation_of_containerd_is_read(put) -> None:
    text = f"version = 3\n{NRI}disable = true\n"
    path = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
    obstacles = launch_obstacles(put({path: text}), FOLDER)
    assert len(obstacles) == 1 and f"change its template with nri config-manager --file {path}" in obstacles[0]
    assert len(launch_obstacles(put({path: text, "/etc/containerd/config.toml": text}), FOLDER)) == 2


def test_without_runtimes_there_is_no_obstacle(put) -> None:
    assert launch_obstacles(put(), FOLDER) == []


def test_docker_without_nri_is_not_an_obstacle_next_to_containerd(put) -> None:
    assert launch_obstacles(put({"/etc/docker/daemon.json": "{}"}), FOLDER) == []
    assert len(launch_obstacles(put({"/etc/docker/daemon.json": '{"nri-opts": {"enable": false}}'}), FOLDER)) == 1


def test_only_isulad_requires_a_configuration_file_of_each_plugin(put) -> None:
    assert not requires_config(put({"/etc/containerd/config.toml": "version = 3\n"}))
    assert requires_config(put({"/etc/isulad/daemon.json": "{}"}))
