"""Reasons why containerd's CRI plugin does not load: the daemon then runs, but never calls NRI."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.config.runtimes.containerd.key_types import CRI, CRI_IMAGES, CRI_RUNTIME
from nri.config.runtimes.containerd.keys import KeyPath, is_blocked, is_duration, value_at
from nri.config.runtimes.containerd.plugins import PREFIX, needed_by_cri, short_name
from nri.config.syntax import parse_json

if TYPE_CHECKING:
    from nri.config.runtimes.containerd.releases import Rules
    from nri.config.runtimes.file_tree import FileTree

_SHIM_1 = "io.containerd.runtime.v1.linux"
_UNTRUSTED = ("containerd", "untrusted_workload_runtime")
_DEFAULT = ("containerd", "default_runtime")
_CGROUPS = "/sys/fs/cgroup"
_SNAPSHOTTERS = {"overlayfs", "native", "btrfs", "zfs", "aufs", "erofs"}


class Obstacle(NamedTuple):
    """Why the CRI plugin does not load: a plugin, a key in its table, and the reason; or a disabled plugin."""

    plugin: str
    path: KeyPath
    reason: str
    disabled: str = ""


class CriSettings(NamedTuple):
    """The settings that decide whether the CRI plugin loads.

    Attributes:
        plugins: the tables of all plugins, merged and migrated to the current version.
        disabled: the full or short names in `disabled_plugins`.
        by_short_name: whether plugins have the short names of version 1.
        proxies: the snapshotters that are separate programs.
        differs: the differs that are separate programs.
        has_content_proxy: whether the content store is a separate program.
    """

    plugins: Mapping[str, Any]
    disabled: Collection[str]
    by_short_name: bool
    proxies: Collection[str]
    differs: Collection[str] = ()
    has_content_proxy: bool = False


def find_obstacle(settings: CriSettings, rules: Rules, tree: FileTree) -> Obstacle | None:
    """Find the first reason why the CRI plugin does not load."""
    for plugin in sorted(needed_by_cri(rules)):
        name = short_name(plugin) if settings.by_short_name else plugin
        if name in settings.disabled:
            what = "the CRI plugin is" if plugin == CRI else f"{name}, which the CRI plugin needs, is"
            return Obstacle("", ("disabled_plugins",), f"{what} in disabled_plugins", name)
    check = _check_1 if rules.is_1 else _check_2
    return next(chain(_check_needed(settings, rules, tree), check(settings, rules, tree)), None)


def _check_needed(settings: CriSettings, rules: Rules, tree: FileTree) -> Iterator[Obstacle]:
    """Check the plugins that the CRI plugin needs."""

    def get(plugin: str, key: str) -> Any:
        return value_at(settings.plugins, (_name(settings, PREFIX + plugin), key), rules)

    def obstacle(plugin: str, key: str, reason: str) -> Obstacle:
        return Obstacle(_name(settings, PREFIX + plugin), (key,), f"{reason}, and the CRI plugin needs the plugin")

    policy = get("metadata.v1.bolt", "content_sharing_policy")
    if policy not in (None, "shared", "isolated"):
        reason = f'the content_sharing_policy "{policy}" is unknown'
        yield obstacle("metadata.v1.bolt", "content_sharing_policy", reason)
    for name in ("overlayfs",) if rules.is_1 else ("overlayfs", "native"):
        plugin = f"snapshotter.v1.{name}"
        folder = get(plugin, "root_path")
        if folder and is_blocked(tree, folder):
            yield obstacle(plugin, "root_path", f"{folder} is not a folder")
    for differ in get("service.v1.diff-service", "default") or ():
        if differ not in ("walking", "erofs") and differ not in settings.differs:
            yield obstacle("service.v1.diff-service", "default", f'the differ "{differ}" does not exist')
    for platform in get("runtime.v2.task", "platforms") or ():
        if not re.fullmatch(r"[\w()+.-]+(/[\w.-]+){0,2}", platform):
            yield obstacle("runtime.v2.task", "platforms", f'"{platform}" is not a platform')
    if settings.has_content_proxy and not rules.is_1:
        reason = "there are two content stores, and the CRI plugin needs one"
        yield Obstacle("", ("proxy_plugins",), reason)


def _name(settings: CriSettings, plugin: str) -> str:
    return short_name(plugin) if settings.by_short_name else plugin


def _check_1(settings: CriSettings, rules: Rules, tree: FileTree) -> Iterator[Obstacle]:
    """Check the CRI plugin of 1.7, in the order of containerd's validation."""
    plugin = _name(settings, CRI)
    table = settings.plugins.get(plugin, {})
    default, runtimes = _runtimes_1(table, rules)
    if value_at(table, (*_UNTRUSTED, "runtime_type"), rules) and "untrusted" in (
        _configured_runtimes(table, rules) or ()
    ):
        yield Obstacle(plugin, _UNTRUSTED, "the runtime untrusted is defined twice")
    yield from _default_runtime(plugin, default, runtimes)
    yield from _shim_options(plugin, table, value_at(runtimes, (default, "runtime_type"), rules), rules)
    for name, runtime in sorted(runtimes.items()):
        path = ("containerd", "runtimes", name)
        for key in ("runtime_engine", "runtime_root"):
            if value_at(runtime, (key,), rules) and value_at(runtime, ("runtime_type",), rules) != _SHIM_1:
                yield Obstacle(plugin, (*path, key), f"{key} works with the runtime type {_SHIM_1} only")
        yield from _privileges(plugin, path, runtime, rules)
    yield from _registry(plugin, table, rules)
    yield from _registry_tls(plugin, table, rules)
    yield from _auths(plugin, table, rules)
    for key in ("stream_idle_timeout", "image_pull_progress_timeout", "drain_exec_sync_io_timeout"):
        yield from _duration(plugin, table, key, rules)
    yield from _streaming(plugin, table, rules)
    key_path = ("containerd", "snapshotter")
    yield from _snapshotter(plugin, key_path, value_at(table, key_path, rules), settings, rules)
    for name, runtime in sorted(runtimes.items()):
        path = ("containerd", "runtimes", name)
        yield from _base_spec(plugin, path, runtime, rules, tree)


def _configured_runtimes(table: Any, rules: Rules) -> dict[str, Any] | None:
    """Return the configured runtimes, or None."""
    runtimes: dict[str, Any] | None = value_at(table, ("containerd", "runtimes"), rules)
    return runtimes


def _runtimes_1(table: Any, rules: Rules) -> tuple[str, dict[str, Any]]:
    """Return the name of the default runtime, and the runtimes of 1.7, where a configured table replaces runc."""
    runtimes = _configured_runtimes(table, rules)
    if runtimes is None:
        runtimes = {"runc": {"runtime_type": "io.containerd.runc.v2"}}
    default = value_at(table, ("containerd", "default_runtime_name"), rules)
    if value_at(table, (*_UNTRUSTED, "runtime_type"), rules):
        runtimes = {**runtimes, "untrusted": value_at(table, _UNTRUSTED, rules)}
    if value_at(table, (*_DEFAULT, "runtime_type"), rules):
        default = "default"
        runtimes = {**runtimes, "default": value_at(table, _DEFAULT, rules)}
    return "runc" if default is None else default, runtimes


def _shim_options(plugin: str, table: Any, kind: str | None, rules: Rules) -> Iterator[Obstacle]:
    """Check the options of the first generation of shims."""
    for path in (("systemd_cgroup",), ("containerd", "no_pivot")):
        if value_at(table, path, rules) and kind != _SHIM_1:
            yield Obstacle(plugin, path, f"{path[-1]} works with the runtime type {_SHIM_1} only")


def _registry_tls(plugin: str, table: Any, rules: Rules) -> Iterator[Obstacle]:
    if not value_at(table, ("registry", "config_path"), rules):
        return
    for host in value_at(table, ("registry", "configs"), rules) or ():
        path = ("registry", "configs", host, "tls")
        if value_at(table, path, rules) is not None:
            yield Obstacle(plugin, path, "the registry has tls and config_path, which exclude each other")


def _check_2(settings: CriSettings, rules: Rules, tree: FileTree) -> Iterator[Obstacle]:
    """Check the three CRI plugins of 2.x."""
    images = settings.plugins.get(CRI_IMAGES, {})
    yield from _registry(CRI_IMAGES, images, rules)
    yield from _auths(CRI_IMAGES, images, rules)
    yield from _duration(CRI_IMAGES, images, "image_pull_progress_timeout", rules)
    name = value_at(images, ("snapshotter",), rules)
    yield from _snapshotter(CRI_IMAGES, ("snapshotter",), name, settings, rules)
    table = settings.plugins.get(CRI_RUNTIME, {})
    default = value_at(table, ("containerd", "default_runtime_name"), rules)
    runtimes = {"runc": {}, **(value_at(table, ("containerd", "runtimes"), rules) or {})}
    yield from _default_runtime(CRI_RUNTIME, "runc" if default is None else default, runtimes)
    if value_at(table, ("cni", "bin_dir"), rules) and value_at(table, ("cni", "bin_dirs"), rules):
        yield Obstacle(CRI_RUNTIME, ("cni", "bin_dir"), "cni has bin_dir and bin_dirs, which exclude each other")
    for name, runtime in sorted(runtimes.items()):
        path = ("containerd", "runtimes", name)
        yield from _privileges(CRI_RUNTIME, path, runtime, rules)
        if value_at(runtime, ("cgroup_writable",), rules) and _has_cgroup_v1(tree):
            yield Obstacle(CRI_RUNTIME, (*path, "cgroup_writable"), "cgroup_writable works on cgroup v2 only")
        kind = value_at(runtime, ("io_type",), rules)
        if kind not in (None, "", "fifo", "streaming"):
            yield Obstacle(CRI_RUNTIME, (*path, "io_type"), f'the io_type "{kind}" is not fifo or streaming')
    keys = ("drain_exec_sync_io_timeout", "stats_collect_period", "stats_retention_period")
    for key in keys if rules.newest_version > 3 else keys[:1]:
        yield from _duration(CRI_RUNTIME, table, key, rules)
    for name, runtime in sorted(runtimes.items()):
        yield from _base_spec(CRI_RUNTIME, ("containerd", "runtimes", name), runtime, rules, tree)
    server = settings.plugins.get(CRI, {})
    yield from _duration(CRI, server, "stream_idle_timeout", rules)
    yield from _streaming(CRI, server, rules)


def _has_cgroup_v1(tree: FileTree) -> bool:
    """Whether the node has cgroup v1. False if its /sys is not visible."""
    return tree.is_folder(f"{_CGROUPS}/memory") and not tree.exists(f"{_CGROUPS}/cgroup.controllers")


def _default_runtime(plugin: str, name: str, runtimes: Mapping[str, Any]) -> Iterator[Obstacle]:
    path = ("containerd", "default_runtime_name")
    if not name:
        yield Obstacle(plugin, path, "default_runtime_name is empty")
    elif name not in runtimes:
        yield Obstacle(plugin, path, f'the default runtime "{name}" is not among the runtimes')


def _privileges(plugin: str, path: KeyPath, runtime: Any, rules: Rules) -> Iterator[Obstacle]:
    key = "privileged_without_host_devices_all_devices_allowed"
    if value_at(runtime, (key,), rules) and not value_at(runtime, ("privileged_without_host_devices",), rules):
        yield Obstacle(plugin, (*path, key), f"{key} requires privileged_without_host_devices")


def _registry(plugin: str, table: Any, rules: Rules) -> Iterator[Obstacle]:
    if value_at(table, ("registry", "mirrors"), rules) and value_at(table, ("registry", "config_path"), rules):
        reason = "the registry has mirrors and config_path, which exclude each other"
        yield Obstacle(plugin, ("registry", "mirrors"), reason)


def _auths(plugin: str, table: Any, rules: Rules) -> Iterator[Obstacle]:
    for endpoint in value_at(table, ("registry", "auths"), rules) or ():
        if endpoint.startswith(":"):
            yield Obstacle(plugin, ("registry", "auths", endpoint), f'the registry "{endpoint}" is not a URL')


def _duration(plugin: str, table: Any, key: str, rules: Rules) -> Iterator[Obstacle]:
    text = value_at(table, (key,), rules)
    if text and not is_duration(text):
        yield Obstacle(plugin, (key,), f'{key} is "{text}", which is not a duration')


def _streaming(plugin: str, table: Any, rules: Rules) -> Iterator[Obstacle]:
    pair = "x509_key_pair_streaming"
    certificate, key = (bool(value_at(table, (pair, name), rules)) for name in ("tls_cert_file", "tls_key_file"))
    if value_at(table, ("enable_tls_streaming",), rules):
        if certificate != key:
            yield Obstacle(plugin, (pair,), "tls_cert_file and tls_key_file are required together")
    elif certificate or key:
        yield Obstacle(plugin, (pair,), "a key pair for streaming requires enable_tls_streaming")


def _snapshotter(
    plugin: str, path: KeyPath, name: str | None, settings: CriSettings, rules: Rules
) -> Iterator[Obstacle]:
    """Check the snapshotter. Snapshotters that depend on the machine, such as btrfs, are assumed to work."""
    name = "overlayfs" if name is None else name
    uri = f"{PREFIX}snapshotter.v1.{name}"
    tables = settings.plugins
    ready = (
        name in _SNAPSHOTTERS
        or name in settings.proxies
        or (name == "devmapper" and value_at(tables, (_name(settings, uri), "pool_name"), rules))
        or (name == "blockfile" and value_at(tables, (_name(settings, uri), "scratch_file"), rules))
    )
    if not ready or _name(settings, uri) in settings.disabled:
        yield Obstacle(plugin, path, f'the snapshotter "{name}" does not exist or is disabled')


def _base_spec(plugin: str, path: KeyPath, runtime: Any, rules: Rules, tree: FileTree) -> Iterator[Obstacle]:
    file = value_at(runtime, ("base_runtime_spec",), rules)
    if not file or not file.startswith("/"):
        return
    try:
        parse_json(tree.read(file))
    except (OSError, ValueError):
        yield Obstacle(plugin, (*path, "base_runtime_spec"), f"the base_runtime_spec {file} cannot be read")
