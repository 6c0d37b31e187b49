"""Annotations that no stage of a hook meets here: read all the same, for whom they are on."""

from __future__ import annotations

from nri.agent.loops.strategy import READERS
from nri.cli.support.agent.misread import misread
from nri.policies.koordinator.contexts import PodContext
from nri.policies.koordinator.names import ANNOTATION_NETWORK_QOS, ANNOTATION_RESCTRL
from nri.policies.koordinator.profile import Node

HOOKS = ("Resctrl", "TCNetworkQoS", "TerwayQoS")
BAD = PodContext(annotations=dict.fromkeys((*READERS, ANNOTATION_NETWORK_QOS, ANNOTATION_RESCTRL), "{"))


def test_each_annotation_is_told_once_for_each_that_reads_it_and_is_on() -> None:
    on = Node(gates=frozenset(HOOKS))
    assert set(misread(BAD, on, READERS.values())) == {*HOOKS, *READERS.values()}
    assert set(misread(BAD, Node(gates=frozenset({"Resctrl"})), ["CPUBurst"])) == {"Resctrl", "CPUBurst"}
    assert misread(BAD, Node(), ()) == {}


def test_of_good_annotations_there_is_nothing_to_tell() -> None:
    good = PodContext(annotations=dict.fromkeys(BAD.annotations, "{}"))
    assert misread(good, Node(gates=frozenset(HOOKS)), READERS.values()) == {}
