"""The profile as a value: gates as in Koordinator, and one owner for each setting."""

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


def test_by_default_hooks_and_strategies_are_enabled_as_in_koordinator() -> None:
    assert PROFILE.hooks_on({}) == {"GroupIdentity", "CPUSetAllocator", "BatchResource"}
    assert PROFILE.strategies_on({}) == {"BECPUSuppress", "CPUBurst", "RdtResctrl"}
    assert PROFILE.gates["BECPUManager"] is False


def test_a_gate_switches_only_its_hook_or_strategy() -> None:
    gates = {"Resctrl": True, "GroupIdentity": False, "CPUBurst": False, "BEMemoryEvict": True}
    assert PROFILE.hooks_on(gates) == {"CPUSetAllocator", "BatchResource", "Resctrl"}
    assert PROFILE.strategies_on(gates) == {"BECPUSuppress", "BEMemoryEvict", "RdtResctrl"}


@pytest.mark.parametrize("row", PROFILE.strategies, ids=lambda row: row.name)
def test_a_strategy_declares_what_the_timer_requires(row: object) -> None:
    created: Strategy = load(row.strategy_class)(AgentSettings(), [row.name])  # type: ignore[attr-defined]
    assert created.name == row.name  # type: ignore[attr-defined]
    assert created.key == row.key  # type: ignore[attr-defined]
    assert created.interval_s >= 0 and created.samples is not None
    assert callable(created.is_needed) and callable(created.round)
    assert Round.__doc__


def test_an_unreadable_annotation_is_reported_once_for_each_enabled_reader() -> None:
    on = Node(gates=frozenset(HOOKS))
    assert set(PROFILE.unreadable(BAD, on, READERS.values())) == {*HOOKS, *READERS.values()}
    assert set(PROFILE.unreadable(BAD, Node(gates=frozenset({"Resctrl"})), ["CPUBurst"])) == {"Resctrl", "CPUBurst"}
    assert PROFILE.unreadable(BAD, Node(), ()) == {}


def test_valid_annotations_are_not_reported() -> None:
    good = Pod(annotations=dict.fromkeys(BAD.annotations, "{}"))
    assert PROFILE.unreadable(good, Node(gates=frozenset(HOOKS)), READERS.values()) == {}
