"""Short runs of the benchmarks on a real cluster with few pods. Figures are not asserted."""

from __future__ import annotations

import pytest

from bench.studies.apiserver import run as apiserver
from bench.studies.cluster import CONTAINERD, ENGINE
from bench.studies.modes import run as modes
from bench.studies.modes.agents import BOTH, NONE, NRI, PROXY, STANDALONE
from tests.support.needs import need_root


@pytest.fixture(autouse=True)
def root() -> None:
    need_root()


def test_all_ways_see_the_same_first_state_and_events_reach_every_observer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert apiserver.main(["--pods", "1", "3", "--rounds", "2", "--each", "2"]) == 0
    output = capsys.readouterr().out
    for runtime in (CONTAINERD, ENGINE):
        table = output.partition(f"### When a container is reported, {runtime}\n")[2].partition("###")[0]
        for how in ("NRI: CreateContainer", "NRI: PostStartContainer", "apiserver: watch", "apiserver: a list"):
            rows = [line.split("|")[3].strip() for line in table.splitlines() if f"| {how}" in line]
            assert rows == ["2"], f"{runtime}: {how} did not receive each container once"


def test_every_mode_applies_the_policy_and_only_standalone_after_the_start() -> None:
    options = modes.parser().parse_args(["--rounds", "1", "--full", "0", "--singles", "2"])
    measured = modes.measure(options)
    assert not {name: mode.failure for name, mode in measured.items() if mode.failure}
    lives = {name: [life for live in mode.batches.values() for batch in live for life in batch.lives]
             for name, mode in measured.items()}  # fmt: skip
    assert all(len(live) == 2 + modes.FEW for live in lives.values())
    assert not any(life.right or life.force_ns for life in lives[NONE])
    for name in (NRI, PROXY, BOTH):
        assert all(life.right and life.lasting for life in lives[name]), (
            f"{name} has let a container run without policy"
        )
    assert all(life.lasting for life in lives[STANDALONE])
