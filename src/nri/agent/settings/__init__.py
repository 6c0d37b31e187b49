"""The agent's configuration: one frozen value, and where each part of it came from.

Rules: nothing here changes the machine or connects to anything. Every key of ``agent.toml`` is a field of the classes
in `values`. Next: :mod:`nri.agent.settings.values`.
"""

from nri.agent.settings.sources import AGENT_SETTINGS, load_each, socket_of
from nri.agent.settings.values import AgentSettings

__all__ = ["AGENT_SETTINGS", "AgentSettings", "load_each", "socket_of"]
