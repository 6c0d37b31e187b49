"""Many pods at once on both sides: measurements and their table."""

from __future__ import annotations

from typing import Any, cast

from bench.studies.engine import tables
from bench.studies.engine.run import Crowd, crowd
from bench.studies.engine.sides import Side


class Cri:
    """Pods that are there."""

    def __init__(self) -> None:
        self.ready: set[str] = set()
        self.pods: set[str] = set()

    def stop_pod(self, pod: str) -> None:
        self.ready.remove(pod)

    def remove_all(self) -> None:
        assert not self.ready, "one that was not stopped makes its removal longer"
        self.pods.clear()


class Node:
    """The calls of a `Side`: 1,000 kB, and 10 of the runtime's and 5 of a container's own for each pod that runs."""

    def __init__(self) -> None:
        self.cri = Cri()

    def memory_kb(self, without: Any = ()) -> dict[str, int]:
        running = len(self.cri.ready)
        outside = {f"container of {pod}" for pod in self.cri.ready} - {*without}
        return {"runtime": 1000 + 10 * running} | ({"sleep": 5 * len(outside)} if running else {})

    def pods(self, count: int) -> dict[str, str]:
        self.cri.pods = {f"pod{number}" for number in range(count)}
        self.cri.ready = {*self.cri.pods}
        return {pod: f"container of {pod}" for pod in self.cri.pods}


def test_memory_is_measured_with_all_pods_running() -> None:
    node = Node()
    measured = crowd(cast(Side, node), 4)
    assert measured.empty == {"runtime": 1000}
    assert measured.full == {"runtime": 1040, "sleep": 0}, "what runs in containers does not count"
    assert not node.cri.pods and measured.created_s >= 0 <= measured.stopped_s


def test_a_row_has_the_median_time_and_the_ratio_of_paired_rounds() -> None:
    def rounds(*seconds: tuple[float, float]) -> list[Crowd]:
        return [Crowd({}, {}, *values) for values in seconds]

    containerd, engine = rounds((10, 2), (20, 2), (90, 2)), rounds((5, 3), (12, 3), (18, 3))
    lines = tables.crowds({"containerd 2.4": containerd, "nri engine": engine}).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["", "containerd 2.4 s", "nri engine s", "to containerd"]
    assert [row[:3] for row in cells[2:]] == [["creation of all", "20.0", "12.0"], ["stop of all", "2.0", "3.0"]]
    assert [row[3].split()[0] for row in cells[2:]] == ["0.50", "1.50"], "the median of 0.5, 0.6 and 0.2"
