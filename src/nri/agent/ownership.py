"""Ownership of knobs: which hook or strategy sets which knob, at which level, for which pods.

Two writers of one knob of one pod would overwrite each other every round, so `check` refuses both by name. A hook that
leaves a knob to another hook lists that hook in `unless`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from nri.errors import NriError


class Level(Enum):
    """The level of the object that a knob belongs to, in the order of a round."""

    NODE = "node"
    KUBE_QOS = "kube-qos"
    POD = "pod"
    SANDBOX = "sandbox"
    CONTAINER = "container"
    HOST_APPLICATION = "host-application"


class OwnedKnob(NamedTuple):
    """A knob that a hook or strategy sets, with its level and its pods.

    Attributes:
        level: the level at which the knob is set.
        knob: the neutral name of the knob, or the name of a value that is not a cgroup file.
        classes: the QoS classes of the pods; None means all pods.
        own_cpus: whether the pods have exclusive CPUs; None means both kinds of pods.
        unless: hooks and strategies that set this knob instead when they are enabled.
    """

    level: Level
    knob: str
    classes: frozenset[str] | None = None
    own_cpus: bool | None = None
    unless: frozenset[str] = frozenset()

    def meets(self, other: OwnedKnob) -> bool:
        """Return whether both can set the same knob of the same pod."""
        if (self.level, self.knob) != (other.level, other.knob):
            return False
        if self.classes is not None and other.classes is not None and self.classes.isdisjoint(other.classes):
            return False
        return None in (self.own_cpus, other.own_cpus) or self.own_cpus == other.own_cpus


class Owner(NamedTuple):
    """A hook or strategy, and one of its knobs.

    Attributes:
        off: the setting that switches the hook or strategy off; "" if unknown.
    """

    name: str
    owns: OwnedKnob
    off: str = ""


class KnobConflict(NriError):
    """Two hooks or strategies set one knob of one level for the same pods.

    Attributes:
        owners: both hooks or strategies.
    """

    def __init__(self, one: Owner, two: Owner) -> None:
        class_sets = [owner.owns.classes for owner in (one, two) if owner.owns.classes is not None]
        shared = frozenset.intersection(*class_sets) if class_sets else None
        whom = "all pods" if shared is None else f"pods of {', '.join(sorted(name or 'no class' for name in shared))}"
        ways = " or ".join(dict.fromkeys(owner.off for owner in (one, two) if owner.off))
        super().__init__(
            f"{one.name} and {two.name} both set {one.owns.knob} at level {one.owns.level.value}, for {whom}:"
            f" switch one of them off{f': {ways}' if ways else ''}"
        )
        self.owners = (one, two)


def check(owners: Iterable[Owner]) -> None:
    """Check the owners of one profile. Raises KnobConflict if two of them conflict."""
    for one, two in itertools.combinations(owners, 2):
        agreed = one.name == two.name or one.name in two.owns.unless or two.name in one.owns.unless
        if not agreed and one.owns.meets(two.owns):
            raise KnobConflict(one, two)


def check_apart(tables: Iterable[Iterable[Owner]]) -> None:
    """Check the owners of different profiles against each other. Classes differ between profiles and are ignored.

    Raises:
        KnobConflict: two owners conflict.
    """
    every = [
        [owner._replace(owns=owner.owns._replace(classes=None, own_cpus=None)) for owner in table] for table in tables
    ]
    for first, second in itertools.combinations(every, 2):
        for one, two in itertools.product(first, second):
            if one.owns.meets(two.owns):
                raise KnobConflict(one, two)
