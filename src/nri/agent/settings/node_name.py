"""The name of this node at the apiserver."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.agent.settings.values import AgentSettings


def node_name(settings: AgentSettings) -> str:
    """Return the name in the settings, or else the name of the machine in lower case, as the kubelet does."""
    return settings.rules.node_name or socket.gethostname().strip().lower()
