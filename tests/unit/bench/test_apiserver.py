"""Evaluation of the comparison of the API server with NRI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench.studies.apiserver import tables
from bench.studies.apiserver.tables import Lag, ViewCost
from bench.studies.apiserver.views import CACHED, LISTED, NRI, View, informed, listed, runtime_state, same, synchronized
from nri.api import messages as m
from nri.testing import FakeRuntime
from tests.peers.drivers import LineProcess


def pod(uid: str, *containers: str) -> dict[str, Any]:
    rows = [
        {"containerID": f"containerd://{container_id}" if container_id else "", "state": {}}
        for container_id in containers
    ]
    return {"metadata": {"uid": uid}, "status": {"containerStatuses": rows}}


def view_cost(*ms: float) -> ViewCost:
    return ViewCost([[value] for value in ms], [1.0] * len(ms), [2.0] * len(ms), 2048)


def test_a_listing_becomes_a_view_of_pods_and_of_containers_with_ids() -> None:
    view = listed([pod("a", "1", ""), {"metadata": {"uid": "b"}, "status": {}}])
    assert set(view.pods) == {"a", "b"}
    assert view.containers == {"1": "a"}


def test_views_are_equal_only_with_equal_containers_in_equal_pods() -> None:
    assert same(View({"a": 1}, {"1": "a"}), View({"a": object()}, {"1": "a"}))
    assert not same(View({"a": 1}, {"1": "a"}), View({"a": 1}, {}))
    assert not same(View({"a": 1}, {}), View({"b": 1}, {}))


def test_a_recorded_runtime_state_is_served_again(tmp_path: Path) -> None:
    pods = [m.PodSandbox(id="s", uid="u")]
    containers = [m.Container(id="c", pod_sandbox_id="s")]
    with FakeRuntime(socket_path=str(tmp_path / "one"), pods=pods, containers=containers) as runtime:
        (tmp_path / "state").write_bytes(runtime_state(Path(runtime.socket_path)))
    words = [sys.executable, "-m", "bench.studies.apiserver.ready", str(tmp_path / "two"), str(tmp_path / "state")]
    with LineProcess(words) as process:
        process.wait_event("ready")
        sample = synchronized(tmp_path / "two")
    assert (set(sample.view.pods), sample.view.containers) == ({"u"}, {"c": "u"})
    assert sample.ms > 0


def test_rubiks_informer_has_the_same_view_over_nri(tmp_path: Path) -> None:
    pods = [m.PodSandbox(id="s", uid="u", name="p", namespace="d")]
    running = m.ContainerState.CONTAINER_RUNNING
    containers = [m.Container(id="c", pod_sandbox_id="s", name="app", state=running)]
    with FakeRuntime(socket_path=str(tmp_path / "nri.sock"), pods=pods, containers=containers):
        sample = informed(tmp_path / "nri.sock")
    assert (set(sample.view.pods), sample.view.containers) == ({"u"}, {"c": "u"})


def test_the_goal_is_reported_for_each_number_of_pods() -> None:
    ways = {LISTED: view_cost(20.0, 40.0), CACHED: view_cost(10.0, 20.0), NRI: view_cost(1.0, 2.0)}
    slow = ways | {NRI: view_cost(10.0, 10.0)}
    assert tables.goal({10: ways, 110: slow}).endswith("0.05 with 10 (reached), 0.33 with 110 (missed).")


def test_ratios_of_views_are_computed_by_round() -> None:
    ways = {LISTED: view_cost(20.0, 40.0), CACHED: view_cost(10.0, 20.0), NRI: view_cost(1.0, 2.0)}
    row = tables.views({10: ways}).splitlines()[-1]
    assert "0.05 (0.05-0.05)" in row
    assert "0.10 (0.10-0.10)" in row


def test_a_lag_before_the_start_is_negative_and_a_missing_lag_empty() -> None:
    text = tables.lags({"1 pod": [Lag("NRI", [-50.0, -40.0]), Lag("poll", [])]})
    assert "| 1 pod | NRI         | 2          | -50   | -40" in text
    assert "| 1 pod | poll        | 0          |" in text
