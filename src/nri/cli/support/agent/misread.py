"""Annotations of a pod that cannot be read, and that no stage of a hook would meet on this machine.

Rules: only of hooks and strategies that are on; nothing is decided. Next: `nri.policies.koordinator.pod_annotations`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.agent.loops.strategy import Strategies, of_pod
from nri.policies.koordinator import pod_annotations
from nri.policies.koordinator.hooks import resctrl, tc, terway_qos
from nri.policies.koordinator.names import qos_class
from nri.policies.koordinator.values import HookError

if TYPE_CHECKING:
    from collections.abc import Collection

    from nri.policies.koordinator.contexts import PodContext
    from nri.policies.koordinator.profile import Node

__all__ = ["misread"]


def misread(context: PodContext, node: Node, loops: Collection[str]) -> dict[str, str]:
    """Say what is wrong with annotations, by the hook or strategy that reads them.

    Args:
        context: the pod.
        node: which hooks are on.
        loops: the strategies that are on.
    """
    wrong: dict[str, str] = {}
    of_pod(Strategies(), qos_class(context.labels), context.annotations, wrong.__setitem__)
    wrong = {loop: reason for loop, reason in wrong.items() if loop in loops}
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
