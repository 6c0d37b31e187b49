"""The sources of the agent's settings: its file, the variables of the environment, and the keys that these set.

Next: :mod:`nri.agent.rules`.
"""

from __future__ import annotations

from typing import Final

from nri.agent.settings.values import AgentSettings
from nri.config.settings import SettingsLoader

__all__ = ["AGENT_SETTINGS"]

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
)
