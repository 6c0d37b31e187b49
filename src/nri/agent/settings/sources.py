"""The sources of the agent's settings: its file, the variables of the environment, and the keys that these set.

A file may also be one of a profile's own, such as another agent's configuration: its profile says what it means. Next:
:mod:`nri.agent.rules`.
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
    """Read one file: of a profile's own, else one with the agent's keys."""
    source = read_file(name)
    if source.format in ("json", "auto") and source.text.lstrip().startswith("{"):
        for profile in PROFILES:
            found = profile_of(profile).own_file(source)
            if found is not None:
                return found
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
    """Read the settings of several profiles that go together in one process.

    A file that names a profile, such as one of a profile's own, is for that one alone; all else is for each, but for
    where rules come from, which flags say of the first. The names and sockets of the second and later are their own.

    Raises:
        ConfigError: with all mistakes of the first profile that has some, or for a file of another profile.
    """
    of = {name: str(_layer(name).layer.tree.get("profile", "")) for name in paths}
    if strange := [name for name, profile in of.items() if profile and profile not in profiles]:
        raise ConfigError(strange[0], "profile", f"is {of[strange[0]]}, which no --profile names", "leave the file out")
    found: list[Loaded[AgentSettings]] = []
    for profile in profiles:
        own = {key: value for key, value in flags.items() if not (found and key.startswith("rules."))}
        loaded = AGENT_SETTINGS.load(
            *(name for name in paths if of[name] in ("", profile)), flags={**own, "profile": ("--profile", profile)}
        )
        settings = loaded.settings
        if found:
            first = found[0].settings
            nri = replace(settings.nri, name=_apart(first.nri.name, settings.nri.name, profile))
            http = settings.http if settings.http != first.http else type(settings.http)()
            socket = _apart(first.socket, settings.socket, profile)
            settings = replace(settings, nri=nri, socket=socket, http=http)
        found.append(loaded._replace(settings=settings))
    return found


def socket_of(settings: AgentSettings) -> str:
    """The socket of an agent of this profile: that of the settings, unless one listens beside another profile's."""
    beside = _apart(settings.socket, settings.socket, settings.profile)
    return beside if is_live(beside) else settings.socket


def _apart(first: str, own: str, profile: str) -> str:
    """A name or socket of a later profile's own: the first one's with the profile behind it, unless they differ."""
    base, dot, suffix = own.partition(".sock")
    return f"{base}-{profile}{dot}{suffix}" if own == first else own
