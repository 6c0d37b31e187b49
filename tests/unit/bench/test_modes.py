"""Evaluation of the comparison of the agent's modes, and its watcher of cgroups."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.studies.modes import tables
from bench.studies.modes.agents import NONE, NRI, STANDALONE
from bench.studies.modes.measured import Batch, Life, Mode, Rest, in_force, together
from bench.studies.modes.node import counted
from bench.studies.modes.picture import picture
from bench.studies.modes.pods import FILES, WANTED, kind_of, manifest, parse
from tests.peers.drivers import LineProcess

MS = 10**6
WATCH = [sys.executable, "-m", "bench.studies.modes.watcher"]


def life(first_ms: int, force_ms: int | None, *, right: bool) -> Life:
    force = None if force_ms is None else force_ms * MS
    return Life("LS", 0, first_ms * MS, right, force, lasting=force is not None)


def batch(*lives: Life, cri_ms: float = 100.0) -> Batch:
    return Batch([*lives], cri_ms, 3.0, Counter({"watch pods": 1}))


def test_policy_is_in_force_when_its_last_value_is_written() -> None:
    changes = [(3, "b", "2"), (1, "a", "9"), (2, "a", "1"), (4, "c", "x")]
    assert in_force(changes, {"a": "1", "b": "2"}) == (3, True)


def test_overwritten_policy_was_in_force_and_is_not_kept() -> None:
    assert in_force([(1, "a", "1"), (2, "a", "0")], {"a": "1"}) == (1, False)


def test_partially_written_policy_is_never_in_force() -> None:
    assert in_force([(1, "a", "1")], {"a": "1", "b": "2"}) == (None, False)
    assert in_force([], {"a": "1"}) == (None, False)


def test_time_without_policy_starts_with_the_first_instruction() -> None:
    assert life(200, 150, right=True).window_ms == 0
    assert life(200, 700, right=False).window_ms == 500
    assert life(200, None, right=False).window_ms is None


def test_batches_of_a_round_are_weighted_by_their_number_of_pods() -> None:
    one = together([batch(life(1, 1, right=True)), batch(*[life(1, 1, right=True)] * 3, cri_ms=200.0)])
    assert (len(one.lives), one.cri_ms, one.calls.total()) == (4, 175.0, 2)


def test_the_output_of_a_process_has_its_values_and_time() -> None:
    values = parse("2026-11-22T12:00:00.5Z stdout F first 1795351700.000123 1024 80000 268435456\n")
    assert values is not None
    assert values.ns == 1795351700 * 10**9 + 123_000
    assert values.right("BE")
    assert parse("2026-11-22T12:00:00.5Z stdout F fir") is None
    bare = parse("first 1795351700.000123 2 -1 9223372036854771712")
    assert bare is not None
    assert not bare.right("BE")
    assert not bare.right("LS")


def test_every_expected_value_is_watched() -> None:
    assert all(set(values) <= set(FILES) for values in WANTED.values())
    assert {kind_of(number) for number in range(2)} == set(WANTED)


def test_batch_pods_have_batch_resources_and_sensitive_pods_a_limit() -> None:
    batch_pod, sensitive = manifest(0), manifest(1)
    spec = json.loads(batch_pod["metadata"]["annotations"]["node.koordinator.sh/extended-resource-spec"])
    assert spec["containers"]["main"]["limits"]["kubernetes.io/batch-cpu"] == 1000
    assert not batch_pod["spec"]["containers"][0]["resources"]
    assert sensitive["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}


def event(verb: str, stage: str, agent: str, resource: str = "pods") -> str:
    return json.dumps({"verb": verb, "stage": stage, "userAgent": agent, "objectRef": {"resource": resource}})


def test_only_calls_of_the_agent_are_counted_and_only_once() -> None:
    log = "\n".join(
        [
            event("list", "ResponseComplete", "python-httpx2/1"),
            event("watch", "ResponseStarted", "python-httpx2/1"),
            event("watch", "ResponseComplete", "python-httpx2/1"),
            event("get", "ResponseComplete", "kubelet/v1.34.4 (linux/amd64)", "nodes"),
            event("list", "ResponseComplete", "nri-bench"),
        ]
    )
    assert counted(log) == Counter({"list pods": 1, "watch pods": 1})


@pytest.fixture
def modes() -> dict[str, Mode]:
    """A mode without an agent, one with policy before the start, and one after."""
    modes_by_name = {name: Mode() for name in (NONE, NRI, STANDALONE)}
    modes_by_name[NONE].batches[1] = [batch(life(200, None, right=False)), batch(life(100, None, right=False))]
    modes_by_name[NRI].batches[1] = [batch(life(220, 190, right=True)), batch(life(110, 90, right=True))]
    modes_by_name[STANDALONE].batches[1] = [batch(life(200, 900, right=False)), batch(life(100, None, right=False))]
    for name in (NRI, STANDALONE):
        modes_by_name[name].start_ms, modes_by_name[name].start_calls = [300.0], [Counter({"list nodes": 1})]
        modes_by_name[name].rests = [Rest(0, 1.0, 0.5, 40.0, 30.0)]
    return modes_by_name


def row_of(text: str, name: str) -> list[str]:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return next(line for line in lines if name in line)


def test_a_table_shows_the_pods_without_policy_and_the_duration(modes: dict[str, Mode]) -> None:
    text = tables.lives(modes)
    assert row_of(text, NONE)[-5:] == ["never", "", "all", "always", ""]
    assert row_of(text, NRI)[-5:] == ["190", "190", "0 of 2", "", ""]
    assert row_of(text, STANDALONE)[-3:] == ["2 of 2", "700", "always (1)"]


def test_a_ratio_is_computed_by_round_and_not_from_totals(modes: dict[str, Mode]) -> None:
    assert row_of(tables.lives(modes), NRI)[5] == "1.10 (1.10-1.10)"


def test_a_mode_that_failed_after_a_round_is_compared_by_that_round(modes: dict[str, Mode]) -> None:
    del modes[NRI].batches[1][1:]
    assert row_of(tables.lives(modes), NRI)[2] == "1"


def test_the_table_of_agents_has_calls_by_verb(modes: dict[str, Mode]) -> None:
    row = row_of(tables.agents(modes), NRI)
    assert row[-3:] == ["1 list", "1 watch", "30.0"]
    assert not [line for line in tables.agents(modes).splitlines() if NONE in line]


def test_an_agent_without_idle_measurements_keeps_the_other_columns(modes: dict[str, Mode]) -> None:
    modes[NRI].rests.clear()
    assert row_of(tables.agents(modes), NRI)[-5:] == ["", "", "1 list", "1 watch", ""]


def test_a_picture_has_one_bar_per_mode(modes: dict[str, Mode]) -> None:
    drawn = picture(modes)
    assert drawn.count("#d9534f") == 2  # the legend, and standalone
    assert "policy at 900" in drawn


def test_the_watcher_prints_present_values_and_writes_in_new_folders(tmp_path: Path) -> None:
    for hierarchy in set(FILES.values()):
        (tmp_path / hierarchy / "pods").mkdir(parents=True)
    (tmp_path / "cpu/pods/cpu.shares").write_text("2\n")
    with LineProcess([*WATCH, "pods", str(tmp_path)]) as watcher:
        watcher.wait_event("ready")
        container = tmp_path / "cpu/pods/container"
        container.mkdir()
        (container / "cpu.shares").write_text("1024\n")
        watcher.wait_for(lambda line: line.get("cgroup") == "container" and line["value"] == "1024")
        with open(container / "cpu.shares", "r+") as file:  # as to a cgroup: the file is neither made nor cut
            file.write("2048\n")
        change = watcher.wait_for(lambda line: line.get("value") == "2048")
    assert change["file"] == "cpu.shares"
    assert [line["value"] for line in watcher.lines if line.get("cgroup") == "pods"] == ["2"]
