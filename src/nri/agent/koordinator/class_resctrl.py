"""RdtResctrl: cache and memory bandwidth of the QoS classes, by a resctrl group for each.

Rules: a pod with an annotation of its own is in a group of its own, which the hook Resctrl makes. When no class asks
for it any more, the groups have all of the cache once again, and threads stay where they are; so it is at the start,
where an agent that was killed has left groups. Next:
:mod:`nri.agent.koordinator.block_io`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nri.agent.koordinator import pod_class
from nri.agent.koordinator.decisions.class_resctrl import GROUPS, group_of, schemata
from nri.agent.koordinator.resctrl import ANNOTATION_RESCTRL
from nri.agent.koordinator.slo import NodeSlo
from nri.agent.loops.round import Round
from nri.agent.loops.strategy import Strategy
from nri.agent.settings.values import AgentSettings
from nri.host import resctrl as host
from nri.policies.changes import Resctrl

__all__ = ["NAME", "ClassResctrl"]

NAME: Final = "RdtResctrl"


class ClassResctrl(Strategy):
    """Shares out caches and bandwidth among classes."""

    name = NAME

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        #: Whether there are groups of it; None before it was looked.
        self._active: bool | None = None

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: a class that asks for it, or groups that were made."""
        return bool(self._active) or any(each.get("enable") for each in rules.caches.values())

    def round(self, made: Round[NodeSlo]) -> None:
        """Decide for each class."""
        caches, cache = made.rules.caches, made.parts.decisions.node.cache
        if self._active is None:
            self._active = not GROUPS.keys().isdisjoint(host.Resctrl(made.parts.root).groups())
        before, self._active = self._active, any(each.get("enable") for each in caches.values())
        if not (before or self._active):
            return
        if cache is None:
            made.cannot(NAME, "no class has a part of the cache of its own", "the machine cannot share out its caches")
            return
        for group, key in GROUPS.items():
            lines = schemata(caches[key], cache.mask, cache.vendor, cache.ids) if cache.mask else ()
            tasks = self._threads(made, group) if caches[key].get("enable") else ()
            made.groups.append(Resctrl(group, "".join(lines), tasks))

    def _threads(self, made: Round[NodeSlo], group: str) -> tuple[int, ...]:
        found: list[int] = []
        for pod in made.pods:
            if group_of(pod_class.default_qos(pod.manifest)) == group and ANNOTATION_RESCTRL not in pod.annotations:
                for each in pod.containers:
                    found += made.parts.executor.threads(each.cgroup_parent)
        return tuple(found)
