"""Values that pods and containers have from their creation on, as hooks, so that none runs without them.

Rules: a hook is named as its service, is on with it, and asks the same decision as it. Values for which a
runtime has a word go to it, the rest is written before a container's first instruction. The service reports what cannot
be done: it looks at all pods, and carries out later changes. Next: `nri.agent.rubik.services`.
"""

from __future__ import annotations

from typing import Final

from nri.agent.rubik.decisions import preemption
from nri.agent.rubik.pods import OFFLINE, PREEMPTIBLE, class_of
from nri.agent.rubik.service import Node
from nri.policies.changes import Changes, Decision
from nri.policies.contexts import ContainerContext, PodContext
from nri.policies.hooks import CREATE, RUN_POD, UPDATE, Hook

_NOTHING: Final = Decision()


def _preemption(context: PodContext | ContainerContext, node: Node) -> Decision:
    """The levels of an offline pod or container, or what does the same here."""
    pod = context if isinstance(context, PodContext) else context.pod
    if class_of(pod) != OFFLINE or (isinstance(context, ContainerContext) and context.sandbox):
        return _NOTHING
    resources = node.services["preemption"].resource
    knobs = preemption.values(resources, node.has, pod=isinstance(context, PodContext))
    return Decision(Changes(knobs), f"{PREEMPTIBLE} is true")


PREEMPTION: Final = Hook(
    "preemption", False, (), (PREEMPTIBLE,), {RUN_POD: _preemption, CREATE: _preemption, UPDATE: _preemption}
)
