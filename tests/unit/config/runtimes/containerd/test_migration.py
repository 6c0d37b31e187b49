"""Settings of older configuration versions, as containerd 2.x names and places them."""

from __future__ import annotations

from typing import Any

import pytest

from nri.config.runtimes.containerd.key_types import CRI, CRI_IMAGES, CRI_RUNTIME
from nri.config.runtimes.containerd.migration import Panic, full_name, move_cri_settings


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cri", CRI),
        ("bolt", "io.containerd.metadata.v1.bolt"),
        ("overlayfs", "io.containerd.snapshotter.v1.overlayfs"),
        ("diff-service", "io.containerd.service.v1.diff-service"),
        ("nri", "io.containerd.grpc.v1.nri"),
        ("a.b", "a.b"),
    ],
)
def test_a_short_name_becomes_a_full_name(name: str, expected: str) -> None:
    assert full_name(name) == expected


@pytest.mark.parametrize(
    ("plugins", "runtime", "images"),
    [
        ({CRI: {"enable_cdi": True, "stream_server_port": "1"}}, {"enable_cdi": True}, {}),
        (
            {CRI: {"cni": {"bin_dir": "/a", "conf_dir": "/a"}}, CRI_RUNTIME: {"cni": {"bin_dir": "/b"}}},
            {"cni": {"bin_dir": "/b", "conf_dir": "/a"}},
            {},
        ),
        ({CRI: {"cni": {"bin_dir": "/a"}}, CRI_RUNTIME: {"cni": 5}}, {"cni": {"bin_dir": "/a"}}, {}),
        (
            {CRI: {"containerd": {"runtimes": {"runc": {"sandbox_mode": "shim"}, "kata": {"sandboxer": "x"}}}}},
            {"containerd": {"runtimes": {"runc": {"sandboxer": "shim"}, "kata": {"sandboxer": "x"}}}},
            {},
        ),
        (
            {CRI: {"sandbox_image": "pause"}, CRI_IMAGES: {"pinned_images": {"sandbox": "old", "a": "b"}}},
            {},
            {"pinned_images": {"sandbox": "pause", "a": "b"}},
        ),
        (
            {CRI: {"max_concurrent_downloads": 3, "containerd": {"snapshotter": "native", "runtimes": {}}}},
            {"containerd": {"runtimes": {}}},
            {"max_concurrent_downloads": 3, "snapshotter": "native"},
        ),
        # Without a table of runtimes, the snapshotter is lost.
        ({CRI: {"containerd": {"snapshotter": "native"}}}, {"containerd": {}}, {}),
    ],
)
def test_settings_of_the_cri_plugin_move_to_three_plugins(
    plugins: dict[str, Any], runtime: dict[str, Any], images: dict[str, Any]
) -> None:
    server = {key: value for key, value in plugins[CRI].items() if key == "stream_server_port"}
    move_cri_settings(plugins)
    assert plugins == {CRI: server, CRI_RUNTIME: runtime, CRI_IMAGES: images}


@pytest.mark.parametrize(
    "plugins",
    [
        {CRI: 5},
        {CRI: {}, CRI_IMAGES: 5},
        {CRI: {"containerd": 5}},
        {CRI: {"containerd": {"runtimes": 5}}},
        {CRI: {"containerd": {"runtimes": {"runc": 5}}}},
        {CRI: {"sandbox_image": "pause"}, CRI_IMAGES: {"pinned_images": 5}},
    ],
)
def test_a_value_that_should_be_a_table_crashes_containerd(plugins: dict[str, Any]) -> None:
    with pytest.raises(Panic):
        move_cri_settings(plugins)


def test_without_settings_of_the_cri_plugin_no_setting_moves() -> None:
    plugins: dict[str, Any] = {"io.containerd.nri.v1.nri": {"disable": True}}
    move_cri_settings(plugins)
    assert plugins == {"io.containerd.nri.v1.nri": {"disable": True}}
