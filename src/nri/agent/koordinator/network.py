"""Koordinator's part of the network in standalone mode: the node's bandwidth shared out, and terway's files.

Next: `nri.agent.koordinator.traffic`, then `nri.agent.koordinator.terway`.
"""

from __future__ import annotations

from collections.abc import Iterable

from nri.agent.koordinator import terway
from nri.agent.koordinator.traffic.pods import NetworkShares
from nri.agent.koordinator.traffic.shaper import Shaper
from nri.agent.parts import Parts
from nri.agent.pods.last_good import LastGoodAnnotations
from nri.agent.settings.values import AgentSettings
from nri.agent.transports.standalone.tally import Tally
from nri.host import Result
from nri.policies.running import RunningPod

__all__ = ["Network"]


class Network:
    """The work of a round over the network.

    Args:
        settings: of the agent; `terway` and `tc` are read.
        parts: of the agent.
        shaper: makes the network's classes.
    """

    def __init__(self, settings: AgentSettings, parts: Parts, shaper: Shaper | None = None) -> None:
        self._parts = parts
        self._shares = NetworkShares(parts, settings.tc.interface, shaper)
        self._terway, self._good = str(settings.terway.folder), LastGoodAnnotations()

    def apply(self, pods: Iterable[RunningPod], tally: Tally, *, force: bool) -> list[Result]:
        """Bring classes of the network and terway's files to what NodeSLO and the pods want."""
        listed = list(pods)
        results = self._shares.apply(listed, tally, force=force)
        return results + terway.apply(self._parts, self._terway, listed, tally, self._good)
