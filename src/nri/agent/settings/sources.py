"""The sources of the agent's settings: its file, the variables of the environment, and the keys that these set.

A file may also be one of a profile's own, such as another agent's configuration: its profile says what it means. Next:
:mod:`nri.agent.rules`.
"""

from __future__ import annotations

from typing import Final

from nri.agent.profile import PROFILES, profile_of
from nri.agent.settings.values import AgentSettings
from nri.config.settings import FileLayer, SettingsLoader, file_layer
from nri.config.source import read_file

__all__ = ["AGENT_SETTINGS"]


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
