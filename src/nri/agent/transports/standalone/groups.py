"""Resctrl groups that no pod asks for any more, taken away: their pods are gone, or their annotation is.

Rules: only groups of this agent, by their prefix; never before all pods are known, because then none asks for any. The
processes of a group that is removed go back to the first one. Next: :mod:`nri.agent.transports.standalone.folders`.
"""

from __future__ import annotations

from collections.abc import Iterable

from nri.agent.parts import Parts
from nri.agent.pods.running import plain_context
from nri.agent.transports.standalone.pods import switched_on
from nri.agent.transports.standalone.tally import Tally
from nri.host import Resctrl
from nri.policies.koordinator.hooks import resctrl
from nri.policies.koordinator.refresh.running import RunningPod
from nri.policies.koordinator.values import Resctrl as Change

__all__ = ["remove_stale"]


def remove_stale(parts: Parts, pods: Iterable[RunningPod], tally: Tally) -> None:
    """Remove the groups of pods that are not among these, or do not ask for one."""
    node = parts.decisions.node
    if node.cache is None or not switched_on(node.gates, resctrl.NAME):
        return
    present = [each for each in Resctrl(parts.root).groups() if each.startswith(resctrl.PREFIX)]
    if not present:
        return
    for group in resctrl.stale(present, map(plain_context, pods)):
        tally.items += 1
        tally.wrote(parts.executor.resctrl(Change(group, remove=True)))
