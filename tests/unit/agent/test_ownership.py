"""Owners of knobs: conflicts at the start, and the owners of each class of pods."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.agent.agent import Agent
from nri.agent.hooks import Hook, decide
from nri.agent.koordinator import cpuset, oom_score_adj
from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import BatchRule, CpusetRule, GroupIdentityRule, Node, SharePool
from nri.agent.koordinator.profile import HOOKS, PROFILE
from nri.agent.model import Container, ExtendedResources, Pod, Resources
from nri.agent.ownership import KnobConflict, Level, OwnedKnob, Owner, check, check_apart
from nri.agent.settings.values import AgentSettings


def test_two_writers_of_one_knob_refuse_the_start_and_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rival = OwnedKnob(Level.CONTAINER, "cpu.cfs_burst", frozenset({n.LS}))
    hook = Hook("Rival", True, (), (), {}, (rival,))
    row = PROFILE.strategies[1]._replace(name="Second", owns=(rival,))
    for profile, words in (
        (replace(PROFILE, hooks=(*HOOKS, hook)), "Rival and CPUBurst"),
        (replace(PROFILE, strategies=(*PROFILE.strategies, row)), "CPUBurst and Second"),
    ):
        monkeypatch.setattr("nri.agent.agent.profile_of", lambda _, created=profile: created)
        with pytest.raises(KnobConflict, match=rf"{words} both set cpu\.cfs_burst at level container, for pods of LS"):
            Agent(AgentSettings(root=tmp_path, modes=("standalone",)))


def test_different_levels_classes_and_pods_do_not_conflict() -> None:
    check(PROFILE.owners())
    one = Owner("One", OwnedKnob(Level.POD, "cpu.shares", frozenset({n.LS}), own_cpus=True))

    def owners(name: str = "Two", **changes: Any) -> list[Owner]:
        return [one, Owner(name, one.owns._replace(**changes))]

    for changes in (
        {"level": Level.SANDBOX},
        {"knob": "cpu.idle"},
        {"classes": frozenset({n.BE})},
        {"own_cpus": False},
        {"unless": frozenset({"One"})},
    ):
        check(owners(**changes))
    check(owners("One"))
    for changes in ({}, {"own_cpus": None}, {"classes": None}):
        with pytest.raises(KnobConflict):
            check(owners(**changes))


ALL_CLASSES = frozenset({n.LSE, n.LSR, n.LS, n.BE, n.SYSTEM, n.NONE})
ASKED = ExtendedResources({n.BATCH_CPU: 500}, {n.BATCH_CPU: 500, n.BATCH_MEMORY: 1024})  # type: ignore[dict-item]
NODE = Node(
    identity=GroupIdentityRule(True, dict.fromkeys(ALL_CLASSES, 1), {}, {}),
    cpus=CpusetRule((SharePool(0, 0, "0-3"),), system_cpus="0"),
    batch=BatchRule(True, 2.0),
    ratio=2.0,
    gates=frozenset(row.name for row in HOOKS),
)


@pytest.mark.parametrize(("qos", "own_part"), list(itertools.product(sorted(ALL_CLASSES), [False, True])))
def test_the_table_names_the_owner_of_a_knob_for_each_class_of_pods(qos: str, own_part: bool) -> None:
    annotations = {oom_score_adj.ANNOTATION_OOM_SCORE: "5"}
    if own_part:
        annotations[cpuset.ANNOTATION_STATUS] = json.dumps({"cpuset": "1"})
    resources = Resources(cfs_quota=100_000)
    pod = Pod(
        "ns", "p", "u", {n.LABEL_QOS: qos}, annotations, "kubepods/podu", resources=resources, extended={"c": ASKED}
    )
    container = Container(pod, "containerd://c", "c", "kubepods/podu/c", resources=resources, extended=ASKED)
    sandbox = replace(container, sandbox=True, resources=None, extended=None)
    for level, stage, context in (
        (Level.POD, "ReconcilePod", pod),
        (Level.SANDBOX, "ReconcileSandbox", sandbox),
        (Level.CONTAINER, "ReconcileContainer", container),
    ):
        whose = {}
        for because in decide(HOOKS, stage, context, NODE).because:
            whose.update(dict.fromkeys(because.changes.knobs, because.hook))
        rows = [
            (owns.knob, hook.name)
            for hook in HOOKS
            for owns in hook.owns
            if owns.level is level and qos in (owns.classes or ALL_CLASSES) and owns.own_cpus in (None, own_part)
        ]
        table = dict(rows)
        assert {knob: table.get(knob) for knob in whose} == whose


def test_a_knob_conflict_of_two_profiles_names_the_settings_of_both() -> None:
    quota = OwnedKnob(Level.POD, "cpu.cfs_quota", frozenset({"BE"}))
    one = [
        Owner("BatchResource", quota, "gates.BatchResource = false"),
        Owner("Other", OwnedKnob(Level.POD, "memory.low")),
    ]
    two = [Owner("cpi", quota._replace(classes=frozenset({"offline"})), '"cpi" out of agent.enabledFeatures')]
    with pytest.raises(KnobConflict) as caught:
        check_apart([one, two])
    assert str(caught.value) == (
        "BatchResource and cpi both set cpu.cfs_quota at level pod, for all pods: switch one of them off: "
        'gates.BatchResource = false or "cpi" out of agent.enabledFeatures'
    )
    check_apart([one, [Owner("x", quota._replace(level=Level.CONTAINER))]])
