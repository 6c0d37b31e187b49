"""The base class of strategies, and the protocol of the rules that they read.

A strategy declares its interval, the cgroups to sample for it, and the annotation that requests it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto
from typing import Any, ClassVar, Protocol

from nri.agent.loops.round import Round


class SampledCgroups(Flag):
    """The cgroups to sample for a strategy. Each sample contains the usage of the node."""

    NODE = 0
    BEST_EFFORT = auto()
    PODS = auto()
    CONTAINERS = auto()
    PROGRAMS = auto()


class Rules(Protocol):
    """The rules for strategies, read from a document.

    Attributes:
        kind: the kind of the document.
        has_document: whether a document was ever read.
    """

    kind: str
    has_document: bool

    @property
    def errors(self) -> list[str]:
        """The errors of unreadable fields, which are not used."""
        ...

    def take(self, document: Mapping[str, Any] | None) -> None:
        """Read the document. None switches all strategies off."""
        ...


class Strategy(Protocol):
    """A strategy, which decides by samples of the machine when a timer calls it. All rounds run in one thread.

    Attributes:
        name: the gates of the strategy, separated by commas.
        interval_s: the pause between two rounds in seconds; 0 means the interval in the settings. A value from rules
            applies after `is_needed` was called.
        samples: the cgroups to sample.
        key: the annotation that requests the strategy for a pod, regardless of the rules; "" if there is none.
        transient: whether the values of the strategy are reset when the agent ends.
        prompt: whether the strategy also has a round as soon as pods appear or change.
    """

    name: str
    interval_s: float = 0.0
    samples: SampledCgroups = SampledCgroups.NODE
    key: str = ""
    transient: ClassVar[bool] = False
    runs_on_pod_changes: ClassVar[bool] = False

    def is_needed(self, rules: Any) -> bool:
        """Return whether the rules request the strategy, or its values have to be reset."""
        ...

    def round(self, round_: Round[Any]) -> None:
        """Decide, and add values and evictions to the round."""
        ...

    def state(self, now: float) -> str:  # noqa: ARG002  for strategies that show a remaining time
        """Return the inputs of decisions in one line, at a time in monotonic seconds; "" if there are none."""
        return ""

    def unchanged(self, uid: str) -> Mapping[str, str]:  # noqa: ARG002  most strategies have nothing to explain
        """Return why the last round left values of a pod unchanged, by container. The key "" stands for the pod itself.

        Thread-safe.
        """
        return {}
