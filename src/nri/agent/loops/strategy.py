"""The base class of strategies, and the protocol of the rules that they read.

A strategy declares its interval, the cgroups to sample for it, and the annotation that requests it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto
from typing import Any, ClassVar, Protocol

from nri.agent.loops.round import Round

__all__ = ["Rules", "Sampled", "Strategy"]


class Sampled(Flag):
    """The cgroups to sample for a strategy; the node's use is in every sample."""

    NODE = 0
    BEST_EFFORT = auto()
    PODS = auto()
    CONTAINERS = auto()
    PROGRAMS = auto()


class Rules(Protocol):
    """What a document requests of strategies.

    Attributes:
        kind: the kind of the document.
        has_document: whether a document was ever read.
    """

    kind: str
    has_document: bool

    @property
    def errors(self) -> list[str]:
        """The errors of the parts that cannot be read, and are not used."""
        ...

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read the document; None switches everything off."""
        ...


class Strategy(Protocol):
    """A strategy decides by samples, on a timer, in one thread.

    Attributes:
        name: the gates that switch it on, separated by commas.
        interval_s: the pause between two rounds in seconds; 0 for that of the settings. A rule applies to
            it as soon as `wants` was called.
        samples: the cgroups to sample.
        key: the annotation by which a pod requests it, independent of the rules; "" if there is none.
        transient: whether its values are reset when the agent ends.
        prompt: whether it also has a round as soon as pods appear or change.
    """

    name: str
    interval_s: float = 0.0
    samples: Sampled = Sampled.NODE
    key: str = ""
    transient: ClassVar[bool] = False
    prompt: ClassVar[bool] = False

    def wants(self, rules: Any) -> bool:
        """Whether there is work: it is requested, or values have to be reset."""
        ...

    def round(self, round_: Round[Any]) -> None:
        """Look at a round, and add values and evictions to it."""
        ...

    def state(self, now: float) -> str:  # noqa: ARG002  for those that have a time to tell
        """Return one line on what it decides by, at a time in monotonic seconds; "" for nothing."""
        return ""

    def unchanged(self, uid: str) -> Mapping[str, str]:  # noqa: ARG002  most have nothing to explain
        """Return why the last round left values of a pod unchanged, by container; "" is the pod itself.

        Thread-safe.
        """
        return {}
