"""The options that say with which settings an agent starts, shared by the verbs of `nri agent`.

Next: `nri.agent.settings.sources` reads the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nri.agent.settings import LoadedSettings
    from nri.cli.settings import Settings

#: Options that set one key each: its name, its key, what stands for its value, and its help.
_KEYS = (
    ("--profile", "profile", "NAME", "Whose rules to enforce: koordinator."),
    ("--mode", "modes", "MODES", "How: nri, proxy, hooks, standalone; several with commas between."),
    ("--rules", "rules.path", "PATH", "Take the rules from this file, or folder of files."),
    ("--pods", "pods.path", "PATH", "Take the pods from this file, or folder of files."),
    ("--root", "root", "DIR", "Where the machine's root file system is."),
    ("--agent-socket", "socket", "PATH", "Where the agent serves explain, health and metrics."),
)
#: A path is only read if its source is files.
_SOURCES = {"rules.path": "rules.source", "pods.path": "pods.source"}


def agent_options(*flags: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a verb --config and --set, and of the flags above those that are named; all of them if none is."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--set", "given", multiple=True, metavar="KEY=VALUE", help="Set any key of the file, such as nri.index=10."
        )(command)
        for flag, key, shown, text in reversed(_KEYS):
            if flag in flags or not flags:
                command = click.option(flag, key.replace(".", "_"), metavar=shown, help=text)(command)
        return click.option(
            "--config",
            "files",
            multiple=True,
            type=click.Path(),
            metavar="FILE",
            help="Read this file instead of /etc/nri/agent.toml; may be given several times, later ones win.",
        )(command)

    return give


def load(settings: Settings, options: Mapping[str, Any]) -> LoadedSettings:
    """Read the settings as the options and global options say. Raises ConfigError with all mistakes."""
    from nri.agent.settings import load_settings

    return load_settings(*options["files"], flags=flags_of(settings, options))


def flags_of(settings: Settings, options: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Values by dotted key as the options give them, each with the flag that gave it. ConfigError for a bad --set."""
    from nri.config.given import parse_setting

    flags: dict[str, tuple[str, Any]] = {}
    for text in options["given"]:
        key, value = parse_setting(text, "nri.index=10")
        flags[key] = ("--set", value)
    for flag, key, _, _ in _KEYS:
        value = options.get(key.replace(".", "_"))
        if value is None:
            continue
        if key == "modes":
            value = [mode.strip() for mode in value.split(",") if mode.strip()]
        if key in _SOURCES:
            flags[_SOURCES[key]] = (flag, "files")
        flags[key] = (flag, value)
    if settings.socket_path:
        flags["nri.socket"] = (settings.socket_from, settings.socket_path)
    return flags
