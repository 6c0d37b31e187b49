"""Migrate configuration of older versions to the version that containerd 2.x uses internally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.config.runtimes.containerd.key_types import CRI, CRI_IMAGES, CRI_RUNTIME
from nri.config.runtimes.containerd.keys import spelling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.config.runtimes.containerd.releases import Rules

#: Plugins whose full name is not io.containerd.grpc.v1.NAME, by their name in version 1.
_FULL_NAMES = {
    "cgroups": "io.containerd.monitor.v1.cgroups",
    "linux": "io.containerd.runtime.v1.linux",
    "scheduler": "io.containerd.gc.v1.scheduler",
    "bolt": "io.containerd.metadata.v1.bolt",
    "task": "io.containerd.runtime.v2.task",
    "opt": "io.containerd.internal.v1.opt",
    "restart": "io.containerd.internal.v1.restart",
    "tracing": "io.containerd.internal.v1.tracing",
    "otlp": "io.containerd.tracing.processor.v1.otlp",
    "windows": "io.containerd.snapshotter.v1.windows",
    "windows-lcow": "io.containerd.snapshotter.v1.windows-lcow",
    **{name: f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "native")},
    **{name: f"io.containerd.snapshotter.v1.{name}" for name in ("overlayfs", "zfs")},
}
_SERVER_KEYS = frozenset(
    {"disable_tcp_service", "stream_server_address", "stream_server_port", "stream_idle_timeout",
     "enable_tls_streaming", "x509_key_pair_streaming"}
)  # fmt: skip
_IMAGE_KEYS = frozenset(
    {"registry", "image_decryption", "max_concurrent_downloads", "image_pull_progress_timeout",
     "image_pull_with_sync_fs", "stats_collect_period"}
)  # fmt: skip
_SNAPSHOT_KEYS = frozenset({"snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers"})


#: Tables of the CRI plugin whose keys 1.7 also reads from the table around them, if they are missing.
_EMBEDDED_TABLES = ("containerd", "cni", "image_decryption", "x509_key_pair_streaming")


class Panic(Exception):
    """containerd crashes, because a value is not a table."""


def full_name(plugin: str) -> str:
    """Translate a plugin's name of version 1. The result for NRI is not the name of NRI's plugin."""
    if "." in plugin:
        return plugin
    if plugin.endswith("-service"):
        return f"io.containerd.service.v1.{plugin}"
    return _FULL_NAMES.get(plugin, f"io.containerd.grpc.v1.{plugin}")


def move_embedded_keys(table: Any, types: Mapping[str, Any], rules: Rules) -> None:
    """Move keys of the CRI plugin of 1.7 to the missing table in which they belong, as its TOML library reads them."""
    for name in _EMBEDDED_TABLES if isinstance(table, dict) else ():
        keys = {key: spelt for key in types[name] if (spelt := spelling(table, key, rules)) is not None}
        if keys and spelling(table, name, rules) is None:
            table[name] = {key: table[spelt] for key, spelt in keys.items()}


def move_cri_settings(plugins: dict[str, Any]) -> None:
    """Move the CRI plugin's settings of version 2 to the plugins of version 3. Raises Panic if containerd crashes."""
    if CRI not in plugins:
        return
    old = _table(plugins[CRI])
    runtime = plugins.get(CRI_RUNTIME)
    runtime = runtime if isinstance(runtime, dict) else {}
    images = _table(plugins.get(CRI_IMAGES, {}))
    containers = _move_runtime_keys(old, runtime)
    _move_image_keys(old, containers, images)
    plugins |= {
        CRI: {key: value for key, value in old.items() if key in _SERVER_KEYS},
        CRI_RUNTIME: runtime,
        CRI_IMAGES: images,
    }


def _move_runtime_keys(old: dict[str, Any], runtime: dict[str, Any]) -> dict[str, Any] | None:
    """Move the keys of the runtime plugin. Returns the old table `containerd`."""
    for key, value in old.items():
        if key not in _SERVER_KEYS | _IMAGE_KEYS | {"cni", "containerd", "sandbox_image"}:
            runtime.setdefault(key, value)
    if isinstance(network := old.get("cni"), dict):
        new = runtime.get("cni")
        runtime["cni"] = {**network, **(new if isinstance(new, dict) else {})}
    containers = old.get("containerd")
    if not isinstance(containers, dict):
        return containers if containers is None else _table(containers)
    new = runtime.get("containerd")
    moved = {key: value for key, value in containers.items() if key not in _SNAPSHOT_KEYS}
    runtime["containerd"] = {**moved, **(new if isinstance(new, dict) else {})}
    for handler in _table(runtime["containerd"].get("runtimes", {})).values():
        table = _table(handler)
        if "sandbox_mode" in table and "sandboxer" not in table:
            table["sandboxer"] = table.pop("sandbox_mode")
    return containers


def _move_image_keys(old: dict[str, Any], containers: dict[str, Any] | None, images: dict[str, Any]) -> None:
    """Move the keys of the images plugin. Without a table of runtimes containerd forgets the snapshotter."""
    if "sandbox_image" in old:
        images["pinned_images"] = {**_table(images.get("pinned_images", {})), "sandbox": old["sandbox_image"]}
    images |= {key: value for key, value in old.items() if key in _IMAGE_KEYS}
    if containers is not None and "runtimes" in containers:
        images |= {key: value for key, value in containers.items() if key in _SNAPSHOT_KEYS}


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Panic
    return value
