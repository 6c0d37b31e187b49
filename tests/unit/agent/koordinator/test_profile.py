"""The profile as a value: gates as Koordinator has them, and one owner for each knob."""

from __future__ import annotations

import pytest

from nri.agent.koordinator.bandwidths import ANNOTATION_NETWORK_QOS
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import POD_ANNOTATIONS, PROFILE
from nri.agent.koordinator.resctrl import ANNOTATION_RESCTRL
from nri.agent.loops.round import Round
from nri.agent.loops.strategy import Strategy
from nri.agent.model import Pod
from nri.agent.profile import load
from nri.agent.settings import AgentSettings

HOOKS = ("Resctrl", "TCNetworkQoS", "TerwayQoS")
READERS = {annotation.key: annotation.strategy for annotation in POD_ANNOTATIONS}
BAD = Pod(annotations=dict.fromkeys((*READERS, ANNOTATION_NETWORK_QOS, ANNOTATION_RESCTRL), "{"))


def test_without_a_word_hooks_and_strategies_are_on_as_koordinator_has_them() -> None:
    assert PROFILE.hooks_on({}) == {"GroupIdentity", "CPUSetAllocator", "BatchResource"}
    assert PROFILE.strategies_on({}) == {"BECPUSuppress", "CPUBurst", "RdtResctrl"}
    assert PROFILE.gates["BECPUManager"] is False


def test_a_gate_switches_its_own_hook_or_strategy_and_no_other() -> None:
    gates = {"Resctrl": True, "GroupIdentity": False, "CPUBurst": False, "BEMemoryEvict": True}
    assert PROFILE.hooks_on(gates) == {"CPUSetAllocator", "BatchResource", "Resctrl"}
    assert PROFILE.strategies_on(gates) == {"BECPUSuppress", "BEMemoryEvict", "RdtResctrl"}


@pytest.mark.parametrize("row", PROFILE.strategies, ids=lambda row: row.name)
def test_a_strategy_declares_what_the_timer_asks_of_it(row: object) -> None:
    created: Strategy = load(row.strategy_class)(AgentSettings(), [row.name])  # type: ignore[attr-defined]
    assert created.name == row.name  # type: ignore[attr-defined]
    assert created.key == row.key  # type: ignore[attr-defined]
    assert created.interval_s >= 0 and created.samples is not None
    assert callable(created.wants) and callable(created.round)
    assert Round.__doc__


def test_each_annotation_is_told_once_for_each_that_reads_it_and_is_on() -> None:
    on = Node(gates=frozenset(HOOKS))
    assert set(PROFILE.unreadable(BAD, on, READERS.values())) == {*HOOKS, *READERS.values()}
    assert set(PROFILE.unreadable(BAD, Node(gates=frozenset({"Resctrl"})), ["CPUBurst"])) == {"Resctrl", "CPUBurst"}
    assert PROFILE.unreadable(BAD, Node(), ()) == {}


def test_of_good_annotations_there_is_nothing_to_tell() -> None:
    good = Pod(annotations=dict.fromkeys(BAD.annotations, "{}"))
    assert PROFILE.unreadable(good, Node(gates=frozenset(HOOKS)), READERS.values()) == {}
