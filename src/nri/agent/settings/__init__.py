"""The agent's configuration: one frozen value, and where each part of it came from.

Rules: nothing here changes the machine or connects to anything. Every key of ``agent.toml`` is a field of the classes
in `values`. Next: :mod:`nri.agent.settings.values`.
"""

from nri.agent.settings.base import base_node
from nri.agent.settings.sources import DEFAULT_PATH, LoadedSettings, load_settings
from nri.agent.settings.values import AgentSettings
from nri.config.listing import Key, keys

__all__ = ["DEFAULT_PATH", "AgentSettings", "LoadedSettings", "base_node", "load_settings", "settings_keys"]


def settings_keys() -> list[Key]:
    """Every key that a file may have."""
    return keys(AgentSettings(), {})
