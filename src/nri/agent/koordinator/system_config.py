"""SystemConfig: sysctls of the machine's memory, as NodeSLO asks for them.

Rules: a switch that is not asked for any more gets the value that it had before this agent set it, as long as the agent
runs; one that the kernel has not is unsupported. Next: :mod:`nri.agent.loops.evictor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nri.agent.koordinator.decisions.system_config import wanted
from nri.agent.koordinator.slo import NodeSlo
from nri.agent.loops.round import Round
from nri.agent.loops.strategy import Strategy
from nri.agent.settings.values import AgentSettings
from nri.host import read_switch
from nri.kube.quantity import capped, ceil

__all__ = ["NAME", "SystemConfig"]

NAME: Final = "SystemConfig"


class SystemConfig(Strategy):
    """Sets the machine's sysctls of memory."""

    name = NAME

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        #: The values of switches before they were set.
        self._before: dict[str, int] = {}

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: a switch that is asked for, or that was set."""
        return bool(rules.system.values or rules.system.free is not None or self._before)

    def round(self, made: Round[NodeSlo]) -> None:
        """Decide for the machine."""
        values, why = wanted(made.rules.system, _memory(made))
        if why:
            made.errors.append(f"{NAME}: {why}")
        for name, value in values.items():
            present = read_switch(made.parts.root, name)
            if isinstance(present, int):
                self._before.setdefault(name, present)
                made.switches.append((NAME, name, value))
            else:
                made.cannot(NAME, f"{name} stays as it is", present.reason)
        for name in self._before.keys() - values.keys():
            made.switches.append((NAME, name, self._before.pop(name)))


def _memory(made: Round[NodeSlo]) -> int:
    """Bytes that the node has, as its status tells, else the machine; 0 is not known."""
    status = (made.parts.store.document("Node") or {}).get("status") or {}
    try:
        return ceil(capped((status.get("capacity") or {})["memory"]))
    except (KeyError, TypeError, ValueError):
        return made.sample.memory_total or 0
