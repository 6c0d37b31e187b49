"""The table of who sets what: conflicts at the start, and that it tells the truth."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nri.agent.settings.values import AgentSettings
from nri.agent.transports.standalone import Standalone
from nri.agent.transports.standalone.levels import ALL_CLASSES, ROWS, Level, LevelConflict, Row, check
from nri.policies.koordinator import names as n
from nri.policies.koordinator.contexts import ContainerContext, ExtendedResources, PodContext, Resources
from nri.policies.koordinator.hooks.batch_resource import BatchRule
from nri.policies.koordinator.profile import PROFILE, Node, decide
from nri.policies.koordinator.rules.node_slo import GroupIdentityRule
from nri.policies.koordinator.rules.node_topology import CpusetRule, SharePool
from nri.policies.koordinator.writes import KNOBS
from tests.support.standalone_world import World


def test_two_hooks_for_one_level_and_knob_refuse_the_start(tmp_path: Path) -> None:
    rival = Row(Level.CONTAINER, "cpuset.cpus", "Rival", frozenset({n.LS}))
    with pytest.raises(
        LevelConflict, match=r"CPUSetAllocator and Rival both set cpuset\.cpus at level container"
    ) as it:
        Standalone(AgentSettings(), World(tmp_path, Node()).parts, rows=(*ROWS, rival))
    assert it.value.rows[1] is rival


def test_other_levels_classes_and_pods_go_together() -> None:
    check(ROWS)
    one = Row(Level.POD, "cpu.shares", "One", frozenset({n.LS}), own_cpus=True)
    check([one, replace_row(one, level=Level.SANDBOX), replace_row(one, knob="cpu.idle")])
    check([one, replace_row(one, classes=frozenset({n.BE})), replace_row(one, own_cpus=False)])
    with pytest.raises(LevelConflict):
        check([one, replace_row(one, hook="Two", own_cpus=None)])


def replace_row(row: Row, **changes: object) -> Row:
    return row._replace(**changes)  # type: ignore[arg-type]


ASKED = ExtendedResources({n.BATCH_CPU: 500}, {n.BATCH_CPU: 500, n.BATCH_MEMORY: 1024})  # type: ignore[dict-item]
NODE = Node(
    identity=GroupIdentityRule(True, dict.fromkeys(ALL_CLASSES, 1), {}, {}),
    cpus=CpusetRule((SharePool(0, 0, "0-3"),), system_cpus="0"),
    batch=BatchRule(True, 2.0),
    ratio=2.0,
    gates=frozenset(row.name for row in PROFILE),
)


@pytest.mark.parametrize(("qos", "own"), list(itertools.product(sorted(ALL_CLASSES), [False, True])))
def test_the_table_says_whose_word_counts_for_each_class_of_pods(qos: str, own: bool) -> None:
    annotations = {n.ANNOTATION_OOM_SCORE: "5"}
    if own:
        annotations[n.ANNOTATION_STATUS] = json.dumps({"cpuset": "1"})
    known = Resources(cfs_quota=100_000)
    pod = PodContext(
        "ns", "p", "u", {n.LABEL_QOS: qos}, annotations, "kubepods/podu", resources=known, extended={"c": ASKED}
    )
    container = ContainerContext(pod, "containerd://c", "c", "kubepods/podu/c", resources=known, extended=ASKED)
    sandbox = replace(container, sandbox=True, resources=None, extended=None)
    for level, stage, context in (
        (Level.POD, "ReconcilePod", pod),
        (Level.SANDBOX, "ReconcileSandbox", sandbox),
        (Level.CONTAINER, "ReconcileContainer", container),
    ):
        whose = {}
        for because in decide(stage, context, NODE).because:
            given = {knob: getattr(because.changes, name) for name, knob in KNOBS.items()}
            given["oom_score_adj"] = because.changes.oom_score_adj
            whose.update({knob: because.hook for knob, value in given.items() if value is not None})
        rows = [row for row in ROWS if row.level is level and qos in row.classes and row.own_cpus in (None, own)]
        table = {row.knob: row.hook for row in rows}
        assert {knob: table.get(knob) for knob in whose} == whose
