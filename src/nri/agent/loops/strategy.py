"""The shape of a strategy: what it declares, and how it is called; and that of the rules that strategies go by.

Rules: a strategy derives from `Strategy` and declares what is not as most have it: its interval, the cgroups that are
sampled for it, the annotation that asks for it; nothing else is sampled. Next:
:mod:`nri.agent.loops.round`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto
from typing import Any, ClassVar, Protocol

from nri.agent.loops.round import Round

__all__ = ["Rules", "Sampled", "Strategy"]


class Sampled(Flag):
    """The cgroups whose use of CPU and memory a strategy looks at; the node's own is in every sample."""

    NODE = 0
    BEST_EFFORT = auto()
    PODS = auto()
    CONTAINERS = auto()
    PROGRAMS = auto()


class Rules(Protocol):
    """All that a document asks of strategies.

    Attributes:
        kind: of the document.
        known: whether there was one.
    """

    kind: str
    known: bool

    @property
    def errors(self) -> list[str]:
        """The errors of the parts that cannot be read, and are not used."""
        ...

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read the document; None is none, which switches everything off."""
        ...


class Strategy(Protocol):
    """A decision over samples, by a timer. It is called by one thread.

    Attributes:
        name: of the gates that switch it on, with commas between.
        interval_s: the pause between two of its rounds in seconds; 0 is that of the settings. A rule holds for
            it as soon as `wants` was asked.
        samples: the cgroups that it looks at.
        key: the annotation by which a pod asks for it, whatever the rules say; "" if there is none.
        transient: whether what it has set goes back when the agent ends.
        prompt: whether it has a round as soon as pods have come or changed, beside those of the timer.
    """

    name: str
    interval_s: float = 0.0
    samples: Sampled = Sampled.NODE
    key: str = ""
    transient: ClassVar[bool] = False
    prompt: ClassVar[bool] = False

    def wants(self, rules: Any) -> bool:
        """Whether there is work: it is asked for, or there is something to take back."""
        ...

    def round(self, made: Round[Any]) -> None:
        """Look at a round, and add values and evictions to it."""
        ...

    def state(self, now: float) -> str:  # noqa: ARG002  for those that have a time to tell
        """Say in one line by what it decides, at a time in monotonic seconds; "" if there is nothing to say."""
        return ""

    def unchanged(self, uid: str) -> Mapping[str, str]:  # noqa: ARG002  most have nothing to explain
        """Return why the last round left values of a pod as they were, by container; "" is the pod itself.

        Any thread may call it.
        """
        return {}
