"""The sources of the agent's settings: files, environment variables and flags.

A file may also be the configuration of another agent, for example rubik. The profile then converts the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from nri.agent.profile import PROFILES, profile_of
from nri.agent.settings.values import AgentSettings
from nri.config.settings import FileLayer, LoadedSettings, NamedValue, SettingsLoader, file_layer
from nri.config.source import read_file
from nri.errors import ConfigError
from nri.unix import is_live


def _layer(name: str) -> FileLayer:
    """Read a file, either in the format of a profile or with the keys of the agent."""
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


def load_each(
    profiles: Sequence[str], paths: Sequence[str], flags: Mapping[str, NamedValue]
) -> list[LoadedSettings[AgentSettings]]:
    """Read the settings of several profiles that share a process.

    A file that names a profile, for example rubik's configuration, applies to that profile only. All other settings
    apply to all profiles, except that flags for the source of rules apply only to the first profile. Later profiles get
    other names and sockets.

    Raises:
        ConfigError: the settings of a profile have mistakes (the error lists all of them), or a file names another
            profile.
    """
    profile_by_file = {name: str(_layer(name).layer.tree.get("profile", "")) for name in paths}
    if other_files := [name for name, profile in profile_by_file.items() if profile and profile not in profiles]:
        reason = f"is {profile_by_file[other_files[0]]}, but --profile does not name it"
        raise ConfigError(other_files[0], "profile", reason, "leave the file out")
    settings_list: list[LoadedSettings[AgentSettings]] = []
    for profile in profiles:
        profile_flags = {key: value for key, value in flags.items() if not (settings_list and key.startswith("rules."))}
        loaded = AGENT_SETTINGS.load(
            *(name for name in paths if profile_by_file[name] in ("", profile)),
            flags={**profile_flags, "profile": ("--profile", profile)},
        )
        settings = loaded.settings
        if settings_list:
            first = settings_list[0].settings
            nri = replace(settings.nri, name=_name_with_profile(first.nri.name, settings.nri.name, profile))
            http = settings.http if settings.http != first.http else type(settings.http)()
            socket = _name_with_profile(first.socket, settings.socket, profile)
            settings = replace(settings, nri=nri, socket=socket, http=http)
        settings_list.append(loaded._replace(settings=settings))
    return settings_list


def socket_of(settings: AgentSettings) -> str:
    """Return the socket of this profile's agent. If several agents run, its name ends with the profile."""
    profile_socket = _name_with_profile(settings.socket, settings.socket, settings.profile)
    return profile_socket if is_live(profile_socket) else settings.socket


def _name_with_profile(first: str, name: str, profile: str) -> str:
    """Return the name or socket of a later profile: `name`, with the profile appended if it equals `first`."""
    base, dot, suffix = name.partition(".sock")
    return f"{base}-{profile}{dot}{suffix}" if name == first else name
