"""Pods and annotations as rubik's services see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.loops.round import StrategyPod
from nri.agent.pods.running import running
from nri.agent.rubik.configuration import Node
from nri.agent.rubik.decisions.pods import PREEMPTIBLE
from nri.agent.rubik.pods import class_of, pod_of, unread, unreadable
from nri.policies import paths
from nri.policies.contexts import PodContext
from tests.support.rubik_world import RubikWorld, pod


def test_a_pod_has_its_folders_its_limits_and_its_network(tmp_path: Path) -> None:
    given = pod("a", cpu="1500m", quota_turbo="true")
    given["spec"]["hostNetwork"] = True
    world = RubikWorld(tmp_path)
    (one,) = running([given], world.parts.executor.hierarchies, paths.CGROUPFS)
    found = pod_of(StrategyPod(one))
    assert (found.uid, found.namespace, found.name, found.host_network) == ("uid-a", "shop", "a", True)
    assert [(each.folder, each.cpu_limit) for each in found.containers] == [(world.app(given), 1.5)]
    (one,) = running([pod("b")], world.parts.executor.hierarchies, paths.CGROUPFS)
    assert [each.cpu_limit for each in pod_of(StrategyPod(one)).containers] == [0.0]


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_pod_is_offline_by_label_or_annotation(where: str) -> None:
    assert class_of(PodContext(**{where: {PREEMPTIBLE: "true"}})) == "offline"  # type: ignore[arg-type]
    assert class_of(PodContext(**{where: {PREEMPTIBLE: "True"}})) == "online"  # type: ignore[arg-type]


def test_an_annotation_that_cannot_be_read_is_told_of_services_that_are_on() -> None:
    context = PodContext(annotations={"volcano.sh/quota-burst-time": "soon", "volcano.sh/cache-limit": "huge"})
    assert unreadable(context, Node(), {"dynCache", "ioLimit"}) == {
        "dynCache": "volcano.sh/cache-limit 'huge' is none of low, middle, high, max, dynamic"
    }


def test_what_is_nearly_an_annotation_and_a_switch_that_is_neither_on_nor_off_are_told() -> None:
    assert unread(
        {"volcano.sh/preemptible": "true", "app": "x"}, {PREEMPTIBLE: "yes", "volcano.sh/else": ""}, None
    ) == [
        "volcano.sh/preemptable: 'yes' is neither true nor false, and has no effect",
        "volcano.sh/preemptible: nothing reads it; did you mean volcano.sh/preemptable?",
    ]
