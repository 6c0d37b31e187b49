"""The agent's configuration as one frozen value.

Each key of ``agent.toml`` is a field of a class in `values` or `tables`.
"""

from nri.agent.settings.sources import AGENT_SETTINGS, load_each, socket_of
from nri.agent.settings.values import AgentSettings

__all__ = ["AGENT_SETTINGS", "AgentSettings", "load_each", "socket_of"]
