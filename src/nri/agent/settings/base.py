"""From settings to what the policy needs of them: the `Node` that rules are filled into. Next: `nri.agent.rules`."""

from __future__ import annotations

from nri.agent.settings.values import AgentSettings
from nri.policies.koordinator.profile import Node
from nri.policies.koordinator.quirks import Quirks

__all__ = ["base_node"]


def base_node(settings: AgentSettings) -> Node:
    """A node without rules, set up as the settings say. Caches and devices of the machine are for the caller to add."""
    return Node(
        gates=settings.hooks_on,
        disabled_stages=frozenset(settings.disabled_stages),
        fail=settings.failure_policy == "Fail",
        batch_pools=settings.batch_pools,
        keep_quota=settings.keep_quota,
        gpu_library=settings.gpu.library,
        gpu_monitor=settings.gpu.monitor,
        quirks=Quirks.REFERENCE if settings.compat == "reference" else Quirks.DEFAULT,
    )
