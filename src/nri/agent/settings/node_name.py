"""The name of this node, as the apiserver calls it. Next: the sources in `nri.agent.rules` and `nri.agent.pods`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.agent.settings.values import AgentSettings

__all__ = ["node_name"]


def node_name(settings: AgentSettings) -> str:
    """Return the name that the settings say, else the machine's in lower case, as the kubelet has it."""
    return settings.rules.node_name or socket.gethostname().strip().lower()
