"""Who owns which knob: a row for each knob that a hook or a strategy sets, at which level, for which pods.

Rules: pure. Two writers of one knob of one pod are a mistake of the design, because the last one would win every round;
`check` finds them by name, for hooks and strategies alike. One that leaves a knob alone while another one sets it names
that one in its row. Next: `nri.agent.hooks`, whose rows have these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from nri.errors import NriError

__all__ = ["KnobConflict", "Level", "Owner", "Owns", "check", "check_apart"]


class Level(Enum):
    """The levels, in the order of a round."""

    NODE = "node"
    KUBE_QOS = "kube-qos"
    POD = "pod"
    SANDBOX = "sandbox"
    CONTAINER = "container"
    HOST_APPLICATION = "host-application"


class Owns(NamedTuple):
    """One knob of one level.

    Attributes:
        level: at which.
        knob: its neutral name, or that of what is no knob of a cgroup.
        classes: the QoS classes of the pods that it is for; None is all.
        own_cpus: whether it is for pods with CPUs of their own; None is both.
        unless: hooks and strategies to which it leaves the knob while they set it.
    """

    level: Level
    knob: str
    classes: frozenset[str] | None = None
    own_cpus: bool | None = None
    unless: frozenset[str] = frozenset()

    def meets(self, other: Owns) -> bool:
        """Whether both are for one knob of one pod."""
        if (self.level, self.knob) != (other.level, other.knob):
            return False
        if self.classes is not None and other.classes is not None and self.classes.isdisjoint(other.classes):
            return False
        return None in (self.own_cpus, other.own_cpus) or self.own_cpus == other.own_cpus


class Owner(NamedTuple):
    """A hook or a strategy, and one knob of its own.

    Attributes:
        off: how it is switched off, in the words of its configuration; "" if that is not said.
    """

    name: str
    owns: Owns
    off: str = ""


class KnobConflict(NriError):
    """Two hooks or strategies set one knob of one level for the same pods.

    Attributes:
        owners: both of them.
    """

    def __init__(self, one: Owner, two: Owner) -> None:
        given = [each.owns.classes for each in (one, two) if each.owns.classes is not None]
        shared = frozenset.intersection(*given) if given else None
        whom = "all pods" if shared is None else f"pods of {', '.join(sorted(name or 'no class' for name in shared))}"
        ways = " or ".join(dict.fromkeys(each.off for each in (one, two) if each.off))
        super().__init__(
            f"{one.name} and {two.name} both set {one.owns.knob} at level {one.owns.level.value}, for {whom}:"
            f" switch one of them off{f': {ways}' if ways else ''}"
        )
        self.owners = (one, two)


def check(owners: Iterable[Owner]) -> None:
    """Find out whether a table makes sense. Raises KnobConflict naming the first two that do not go together."""
    for one, two in itertools.combinations(owners, 2):
        agreed = one.name == two.name or one.name in two.owns.unless or two.name in one.owns.unless
        if not agreed and one.owns.meets(two.owns):
            raise KnobConflict(one, two)


def check_apart(tables: Iterable[Iterable[Owner]]) -> None:
    """Find out whether tables of different profiles go together; a class of one says nothing of those of another.

    Raises:
        KnobConflict: the first two owners that do not.
    """
    every = [
        [each._replace(owns=each.owns._replace(classes=None, own_cpus=None)) for each in table] for table in tables
    ]
    for first, second in itertools.combinations(every, 2):
        for one, two in itertools.product(first, second):
            if one.owns.meets(two.owns):
                raise KnobConflict(one, two)
