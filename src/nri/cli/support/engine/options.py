"""The options that say with which settings an engine starts, shared by `nri config show` and `nri engine`.

Next: `nri.engine.config.sources` reads the files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nri.cli.settings import Settings
    from nri.engine.config import LoadedConfig

_OPTIONS = (
    click.option(
        "--config",
        "files",
        multiple=True,
        type=click.Path(),
        metavar="FILE",
        help="Read this file instead of /etc/nri/engine.toml; may be given several times, later ones win.",
    ),
    click.option("--socket", metavar="PATH", help="Where the engine serves the CRI."),
    click.option(
        "--set",
        "given",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set any key of the file, such as nri.disable=true.",
    ),
    click.option(
        "--dry",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="Run nothing: no root, no OCI runtime; all its files and sockets are in DIR.",
    ),
)

#: The files of a dry engine, below its folder, by the keys that say where they are.
_DRY = {
    "root": "root",
    "state": "state",
    "socket": "cri.sock",
    "nri.socket_path": "nri.sock",
    "nri.admin_socket": "admin.sock",
    "nri.plugin_path": "plugins",
    "nri.plugin_config_path": "conf.d",
    "nri.policy_path": "policy.toml",
}


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options; it gets them as `files`, `socket`, `given` and `dry`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def load(settings: Settings, options: Mapping[str, Any]) -> LoadedConfig:
    """Read the settings as the options and global options say. Raises ConfigError with all mistakes."""
    from nri.config.given import parse_setting
    from nri.engine.config import load_config

    flags: dict[str, tuple[str, Any]] = {}
    if options["dry"]:
        folder = os.path.abspath(options["dry"])
        flags = {"dry": ("--dry", True), **{key: ("--dry", f"{folder}/{name}") for key, name in _DRY.items()}}
    for text in options["given"]:
        key, value = parse_setting(text, "nri.plugin_request_timeout=5s")
        flags[key] = ("--set", value)
    if options["socket"]:
        flags["socket"] = ("--socket", options["socket"])
    if settings.socket_path:
        flags["nri.socket_path"] = (settings.socket_from, settings.socket_path)
    return load_config(*options["files"], flags=flags)
