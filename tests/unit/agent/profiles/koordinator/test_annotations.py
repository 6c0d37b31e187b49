"""Annotations that no stage of a hook meets here are read all the same."""

from __future__ import annotations

from nri.agent.profiles.koordinator.annotations import unreadable
from nri.agent.profiles.koordinator.strategies.rules import READERS
from nri.policies.contexts import PodContext
from nri.policies.koordinator.names import ANNOTATION_NETWORK_QOS, ANNOTATION_RESCTRL
from nri.policies.koordinator.profile import Node

HOOKS = ("Resctrl", "TCNetworkQoS", "TerwayQoS")
BAD = PodContext(annotations=dict.fromkeys((*READERS, ANNOTATION_NETWORK_QOS, ANNOTATION_RESCTRL), "{"))


def test_each_annotation_is_told_once_for_each_that_reads_it_and_is_on() -> None:
    on = Node(gates=frozenset(HOOKS))
    assert set(unreadable(BAD, on, READERS.values())) == {*HOOKS, *READERS.values()}
    assert set(unreadable(BAD, Node(gates=frozenset({"Resctrl"})), ["CPUBurst"])) == {"Resctrl", "CPUBurst"}
    assert unreadable(BAD, Node(), ()) == {}


def test_of_good_annotations_there_is_nothing_to_tell() -> None:
    good = PodContext(annotations=dict.fromkeys(BAD.annotations, "{}"))
    assert unreadable(good, Node(gates=frozenset(HOOKS)), READERS.values()) == {}
