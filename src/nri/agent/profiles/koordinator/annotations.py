"""Annotations of a pod that cannot be read, and that no stage of a hook would meet on this machine.

Rules: pure; only of hooks and strategies that are on. Next: `nri.policies.koordinator.pod_annotations`.
"""

from __future__ import annotations

from collections.abc import Collection

from nri.agent.profiles.koordinator.strategies.rules import NodeSlo, of_pod
from nri.policies.changes import HookError
from nri.policies.contexts import PodContext
from nri.policies.koordinator import pod_annotations
from nri.policies.koordinator.hooks import resctrl, tc, terway_qos
from nri.policies.koordinator.names import qos_class
from nri.policies.koordinator.profile import Node

__all__ = ["unreadable"]


def unreadable(context: PodContext, node: Node, strategies: Collection[str]) -> dict[str, str]:
    """Say what is wrong with annotations that no stage of a hook would meet on this machine, by their reader.

    Args:
        context: the pod.
        node: which hooks are on.
        strategies: those that are on.
    """
    wrong: dict[str, str] = {}
    of_pod(NodeSlo(), qos_class(context.labels), context.annotations, wrong.__setitem__)
    wrong = {strategy: reason for strategy, reason in wrong.items() if strategy in strategies}
    on = node.gates or frozenset()
    try:
        if resctrl.NAME in on:
            pod_annotations.resctrl(context.annotations)
    except ValueError as error:
        wrong[resctrl.NAME] = str(error)
    for name, read in ((tc.NAME, tc.own_limits), (terway_qos.NAME, terway_qos.pod_limits)):
        try:
            if name in on:
                read(context.annotations)
        except HookError as error:
            wrong[name] = error.reason
    return wrong
