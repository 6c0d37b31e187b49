"""The benchmark's grid of pods on a real API server, in a short run. Figures are not asserted."""

from __future__ import annotations

from bench.studies.apiserver import grid
from bench.studies.apiserver.tables import Cell


def test_all_sources_list_the_same_pods_for_each_cell_of_the_grid() -> None:
    places = [Cell(1, 1, 512), Cell(3, 2, 512), Cell(2, 2, 4096), Cell(2, 1, 512, 0.2)]
    message = grid.report(1, 2, print, places)  # a way that sees other pods than the list is an error
    rows = [[row.strip() for row in line.split("|")[1:5]] for line in message.splitlines() if line.startswith("| ")]
    assert rows[2:] == [["1", "1", "0.5", "0"], ["3", "2", "0.5", "0"], ["2", "2", "4", "0"], ["2", "1", "0.5", "0.2"]]
