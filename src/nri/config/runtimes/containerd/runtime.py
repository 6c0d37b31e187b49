"""containerd as a row of the table of runtimes."""

from __future__ import annotations

from typing import Any

from nri.config.runtimes.config_file import KeyPath
from nri.config.runtimes.containerd.judgement import NAME, PATH, SETTINGS
from nri.config.runtimes.containerd.key_types import NRI
from nri.config.runtimes.containerd.reading import OLD_TABLE, TABLE, read_tree
from nri.config.runtimes.containerd.releases import parse_release, rules_of
from nri.config.runtimes.runtime import ManagedFile, Runtime
from nri.errors import ConfigError


def _managed_table(tree: Any, release: str, path: str) -> KeyPath:
    """Return NRI's table in a file that config-manager changes. Raises ConfigError if the table is not known."""
    version = tree.get("version", 0) if isinstance(tree, dict) else 0
    if type(version) is not int:
        raise ConfigError(path, "version", f"must be a whole number, not {version!r}", "write version = 2")
    rules = rules_of(release)
    if version > 1 or (rules is not None and not rules.is_1):
        return TABLE
    if rules is None:
        reason = "is missing, and the release of containerd, which decides the default version, is not known"
        raise ConfigError(path, "version", reason, "specify the release, such as --release 2.1.9")
    return OLD_TABLE


RUNTIME = Runtime(
    name=NAME,
    title="containerd",
    path=PATH,
    read=read_tree,
    keys={field: key for key, field in SETTINGS.items()},
    enabled_value=False,
    switch_on=f'set disable = false in [plugins."{NRI}"] and restart containerd, or nri config-manager',
    allow_connections="set disable_connections = false",
    program="containerd",
    packages=("containerd", "containerd.io"),
    installed_paths=(PATH, "/usr/bin/containerd"),
    unit="containerd.service",
    release=parse_release,
    config_flags=("--config", "-config", "-c"),
    check_command=("--config", "{path}", "config", "dump"),
    cri_sockets=("/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock"),
    managed_file=ManagedFile(PATH, _managed_table, "version = 2\n", is_operators=True),
)
