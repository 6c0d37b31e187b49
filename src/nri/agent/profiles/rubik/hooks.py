"""Values that pods and containers have from their creation on, as hooks, so that none runs without them.

Rules: a hook is named as its service, is on with it, and asks the same decision as it. Values for which a runtime has a
word go to it, the rest is written before a container's first instruction. Next: `nri.agent.profiles.rubik.services`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from nri.agent.profiles.rubik.configuration import Node
from nri.agent.profiles.rubik.pods import OFFLINE, class_of
from nri.host import Hierarchies, Root, Unsupported, detect, probe
from nri.policies.changes import Changes, Decision
from nri.policies.contexts import ContainerContext, PodContext
from nri.policies.hooks import CREATE, RUN_POD, UPDATE, Hook
from nri.policies.rubik import preemption
from nri.policies.rubik.pods import PREEMPTIBLE

__all__ = ["HOOKS", "Kernel"]

#: For how many seconds a knob that was not there is not looked for: on cgroup v2 it may come with the first pod.
_ABSENT_S: Final = 60.0
_NOTHING: Final = Decision()


class Kernel:
    """The knobs of a machine.

    Args:
        root: the machine.
        now: monotonic seconds.
    """

    def __init__(self, root: Root, now: Callable[[], float] = time.monotonic) -> None:
        self._root, self._now = root, now
        self._hierarchies: Hierarchies | None = None
        self._until: dict[str, float] = {}
        self._found: set[str] = set()

    def has(self, knob: str) -> bool:
        """Whether there is a knob."""
        if knob not in self._found and self._now() >= self._until.get(knob, 0.0):
            if self._hierarchies is None or self._hierarchies.mode == "none":
                self._hierarchies = detect(self._root)
            if isinstance(probe(self._hierarchies, knob), Unsupported):
                self._until[knob] = self._now() + _ABSENT_S
            else:
                self._found.add(knob)
        return knob in self._found


def _preemption(context: PodContext | ContainerContext, node: Node) -> Decision:
    """The levels of an offline pod or container, or what does the same here."""
    pod = context if isinstance(context, PodContext) else context.pod
    if class_of(pod) != OFFLINE or (isinstance(context, ContainerContext) and context.sandbox):
        return _NOTHING
    resources = node.services["preemption"].resource
    knobs = preemption.values(resources, node.has, pod=isinstance(context, PodContext))
    return Decision(Changes(knobs), f"{PREEMPTIBLE} is true")


HOOKS: Final = (
    Hook("preemption", False, (), (PREEMPTIBLE,), {RUN_POD: _preemption, CREATE: _preemption, UPDATE: _preemption}),
)
