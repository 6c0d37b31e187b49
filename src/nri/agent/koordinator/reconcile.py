"""Koordinator's additional work in standalone mode: sysctls of the scheduler, cookies, identities, resctrl groups.

Only resctrl groups with this agent's prefix are removed, and only after all pods are known: before that, every
group would seem unused. Processes of a removed group return to the root group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import core_sched, group_identity, resctrl
from nri.agent.koordinator.documents import SLO
from nri.agent.koordinator.group_identity import identities
from nri.agent.koordinator.names import SYSTEM, qos_class
from nri.agent.koordinator.node import Node
from nri.agent.model import BVT, Container, Pod
from nri.agent.model import Resctrl as Change
from nri.agent.parts import Parts
from nri.agent.transports.standalone.tally import Tally
from nri.agent.writing.cookie_groups import Membership
from nri.host import Outcome, Resctrl, Result, Unsupported, probe, set_features, set_switch

#: Two sysctls of Anolis' scheduler that exclude each other. Older kernels have the first one as a scheduler feature.
CORE_SCHED, GROUP_IDENTITY = "kernel.sched_core", "kernel.sched_group_identity_enabled"
_CORE_FEATURE: Final = "CORE_SCHED"

#: The maximum number of cgroups of pods and containers that get an identity.
_MAX_FOLDERS: Final = 8192
#: The number of levels of cgroups below the cgroup of all pods: class, pod, container.
_MAX_DEPTH: Final = 3
_log = logging.getLogger("nri.agent")


class Reconcile:
    """Koordinator's additional work in a round over cgroups.

    Args:
        parts: the shared parts of the agent.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._cookies = False
        self._cookies_recorded = False
        #: Whether group identities could not be switched off, which prevents cookies.
        self._identities_stay = False

    def node(self, tally: Tally) -> None:
        """Set the scheduler's sysctls as the rules require. Kernels without these sysctls are skipped."""
        node = self._node
        gates = node.gates
        self._identities_stay = False
        if node.core.enabled and switched_on(node, core_sched.NAME):
            switches = ((GROUP_IDENTITY, 0), (CORE_SCHED, 1))
        elif node.identity is not None and node.identity.enabled and (gates is None or group_identity.NAME in gates):
            switches = ((CORE_SCHED, 0), (GROUP_IDENTITY, 1))
        else:
            return
        results = [set_switch(self._parts.root, name, value) for name, value in switches]
        if switches[-1] == (CORE_SCHED, 1) and results[-1].outcome is Outcome.UNSUPPORTED:
            features = set_features(self._parts.root, {_CORE_FEATURE: True})
            # Mainline kernels have neither; prctl then reports whether cookies are supported.
            results += [result for result in features if result.outcome is not Outcome.UNSUPPORTED]
        failed = {
            result.name for result in results if not result.in_force and result.outcome is not Outcome.UNSUPPORTED
        }
        self._identities_stay = GROUP_IDENTITY in failed and (GROUP_IDENTITY, 0) in switches
        self._parts.observer.wrote(results)
        tally.wrote(results)

    def begin(self, pods: Sequence[Pod]) -> None:
        """In the first round, record the containers' cookies from an earlier agent, so that they can be removed."""
        node = self._node
        if self._cookies_recorded or not node.core.is_configured or not switched_on(node, core_sched.NAME):
            return
        self._cookies_recorded = self._cookies = True
        for pod in pods:
            try:
                for context in (*([] if pod.sandbox is None else [pod.sandbox]), *pod.main_containers):
                    pids = self._parts.executor.processes(context.folder)
                    membership = _membership(pod, context, node)
                    self._parts.executor.cookies.learn(membership, f"{context.pod.uid}/{context.id}", pids)
            except Exception:  # noqa: BLE001  the round reports the error of the pod
                _log.debug("cannot read the cookies of a pod: %r", pod.key, exc_info=True)

    def container(self, pod: Pod, context: Container) -> list[Result]:
        """Give the cookie of its group to a container, or remove the container's cookie."""
        node = self._node
        rule = node.core
        if not rule.is_configured or not switched_on(node, core_sched.NAME) or not (rule.enabled or self._cookies):
            return []
        self._cookies = True  # cookies may have to be removed when the rule changes
        membership = _membership(pod, context, node)
        if membership.enabled and self._identities_stay:
            return []
        forget = node.quirks.moved_processes_forgotten
        key = f"{context.pod.uid}/{context.id}"
        return self._parts.executor.core_sched(membership, key, context.folder, forget_moved=forget)

    def end(self, pods: Sequence[Pod], kinds: frozenset[str], tally: Tally) -> None:
        """Remove resctrl groups that no pod requests, and write identities again if NodeSLO changed."""
        self._remove_stale(pods, tally)
        if SLO in kinds:
            self._all_identities(pods, tally)

    @property
    def _node(self) -> Node:
        node: Node = self._parts.decisions.node
        return node

    def _remove_stale(self, pods: Iterable[Pod], tally: Tally) -> None:
        """Remove the agent's resctrl groups that none of these pods requests."""
        node = self._node
        if node.cache is None or not switched_on(node, resctrl.NAME):
            return
        present = [group for group in Resctrl(self._parts.root).groups() if group.startswith(resctrl.PREFIX)]
        if not present:
            return
        for group in resctrl.stale(present, pods):
            tally.items += 1
            tally.wrote(self._parts.executor.resctrl(Change(group, remove=True)))

    def _all_identities(self, pods: Iterable[Pod], tally: Tally) -> None:
        """Write the identities of all cgroups, including cgroups of unlisted pods."""
        parts, node = self._parts, self._node
        rule = group_identity.in_effect(
            node.identity if node.gates is None or group_identity.NAME in node.gates else None,
            not isinstance(probe(parts.executor.hierarchies, BVT), Unsupported),
            None,
        )
        if rule is not None:
            writes = identities(rule, pods, self._folders(), parts.driver)
            tally.items += len(writes)
            tally.wrote(parts.executor.write(writes, keep=False))

    def _folders(self) -> Iterator[str]:
        """Yield the cgroup of all pods and the cgroups below it."""
        hierarchies = self._parts.executor.hierarchies
        level = [paths.kube_class_path(paths.GUARANTEED, self._parts.driver)]
        budget = _MAX_FOLDERS
        for _ in range(_MAX_DEPTH + 1):
            yield from level
            budget -= len(level)
            below = (f"{folder}/{name}" for folder in level for name in hierarchies.below(folder, "cpu"))
            level = [path for path, _ in zip(below, range(max(budget, 0)), strict=False)]


def switched_on(node: Node, hook: str) -> bool:
    """Return whether a hook that is off by default is enabled."""
    return node.gates is not None and hook in node.gates


def _membership(pod: Pod, context: Container, node: Node) -> Membership:
    """Return a container's group. Core scheduling is off for SYSTEM pods, for example this agent."""
    pod_class, labels = pod.kube_class, context.pod.labels
    membership = core_sched.membership(labels, pod_class, context.pod.uid, node.core, node.quirks)
    return membership._replace(enabled=membership.enabled and qos_class(labels) != SYSTEM)
