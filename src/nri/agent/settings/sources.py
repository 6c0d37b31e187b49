"""The sources of the agent's settings: files, environment variables and flags.

A file may also be that of another agent, for example rubik's configuration; the profile then converts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from nri.agent.profile import PROFILES, profile_of
from nri.agent.settings.values import AgentSettings
from nri.config.settings import FileLayer, Given, Loaded, SettingsLoader, file_layer
from nri.config.source import read_file
from nri.errors import ConfigError
from nri.unix import is_live

__all__ = ["AGENT_SETTINGS", "load_each", "socket_of"]


def _layer(name: str) -> FileLayer:
    """Read a file: one of a profile's format, else one with the agent's keys."""
    source = read_file(name)
    if source.format in ("json", "auto") and source.text.lstrip().startswith("{"):
        for profile in PROFILES:
            layer = profile_of(profile).own_file(source)
            if layer is not None:
                return layer
    return file_layer(name)


AGENT_SETTINGS: Final = SettingsLoader(
    AgentSettings,
    "/etc/nri/agent.toml",
    "NRI_AGENT_CONFIG",
    {
        "NRI_AGENT_SOCKET": "socket",
        "NRI_AGENT_LOG_LEVEL": "log_level",
        "NRI_AGENT_ROOT": "root",
        "NRI_SOCKET": "nri.socket",
        "NODE_NAME": "rules.node_name",
        "KUBECONFIG": "rules.kubeconfig",
    },
    _layer,
)


def load_each(profiles: Sequence[str], paths: Sequence[str], flags: Mapping[str, Given]) -> list[Loaded[AgentSettings]]:
    """Read the settings of several profiles that share a process.

    A file that names a profile, for example rubik's configuration, applies to that profile only, all else to all
    profiles, except flags for the source of rules (the first only). Later profiles get other names and sockets.

    Raises:
        ConfigError: all mistakes of the first profile with mistakes, or a file of another profile.
    """
    of = {name: str(_layer(name).layer.tree.get("profile", "")) for name in paths}
    if strange := [name for name, profile in of.items() if profile and profile not in profiles]:
        raise ConfigError(strange[0], "profile", f"is {of[strange[0]]}, which no --profile names", "leave the file out")
    settings_list: list[Loaded[AgentSettings]] = []
    for profile in profiles:
        profile_flags = {key: value for key, value in flags.items() if not (settings_list and key.startswith("rules."))}
        loaded = AGENT_SETTINGS.load(
            *(name for name in paths if of[name] in ("", profile)),
            flags={**profile_flags, "profile": ("--profile", profile)},
        )
        settings = loaded.settings
        if settings_list:
            first = settings_list[0].settings
            nri = replace(settings.nri, name=_apart(first.nri.name, settings.nri.name, profile))
            http = settings.http if settings.http != first.http else type(settings.http)()
            socket = _apart(first.socket, settings.socket, profile)
            settings = replace(settings, nri=nri, socket=socket, http=http)
        settings_list.append(loaded._replace(settings=settings))
    return settings_list


def socket_of(settings: AgentSettings) -> str:
    """The socket of this profile's agent: that of the settings, unless several agents run."""
    beside = _apart(settings.socket, settings.socket, settings.profile)
    return beside if is_live(beside) else settings.socket


def _apart(first: str, name: str, profile: str) -> str:
    """The name or socket of a later profile: the first one's with the profile appended, unless they differ already."""
    base, dot, suffix = name.partition(".sock")
    return f"{base}-{profile}{dot}{suffix}" if name == first else name
