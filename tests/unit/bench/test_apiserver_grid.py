"""The grid of generated pods: both sides have the same pods, and a distant server has the given latency."""

from __future__ import annotations

import socket
import sys
import threading
import time

import pytest

from bench.studies.apiserver import grid, tables
from bench.studies.apiserver.tables import Cell, ViewCost
from bench.studies.apiserver.views import CACHED, INFORMER, INFORMER_LIST, LISTED, READY, View, listed, same
from tests.peers.drivers import LineProcess


def view_cost(*ms: float) -> ViewCost:
    return ViewCost([[value] for value in ms], [1.0] * len(ms), [2.0] * len(ms), 2048)


@pytest.mark.parametrize("cell", [Cell(1, 1, 512), Cell(3, 5, 4096)])
def test_the_runtime_has_the_pods_and_containers_of_the_api(cell: Cell) -> None:
    items = []
    for number in reversed(range(cell.pods)):  # the API sorts by name, which is not by number
        item = grid.manifest(number, cell) | grid.status(number, cell)
        item["metadata"] |= {"uid": f"uid-{number}"}
        items.append(item)
    state = grid.runtime_state(items, cell)
    pods = {pod.id: pod.uid for pod in state.pods}
    view = View(
        dict.fromkeys(pods.values()), {container.id: pods[container.pod_sandbox_id] for container in state.containers}
    )
    assert same(listed(items), view)
    assert len(view.containers) == cell.pods * cell.containers
    assert sum(map(len, state.pods[0].annotations.values())) == cell.annotation_bytes


def test_a_distant_server_responds_after_its_round_trips_and_completely() -> None:
    answer = b"answer" * 100_000
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                assert peer.recv(100) == b"question"
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        words = [sys.executable, "-m", "bench.studies.apiserver.far", str(server.getsockname()[1]), "100"]
        with LineProcess(words) as relay, socket.socket() as client:
            port = int(relay.wait_event("ready")["port"])
            began = time.monotonic()
            client.connect(("127.0.0.1", port))
            client.sendall(b"question")
            got = b""
            while data := client.recv(1 << 16):
                got += data
            took_s = time.monotonic() - began
        thread.join()
    assert got == answer
    assert took_s >= 0.2, "one round trip for the handshake, one for the question and its answer"


def test_rubiks_informers_are_one_row_per_cell() -> None:
    ways = {INFORMER_LIST: view_cost(20.0, 40.0), INFORMER: view_cost(1.0, 2.0)}
    row = [cell.strip() for cell in tables.informers([(Cell(10, 1, 512, 5.0), ways)]).splitlines()[2].split("|")]
    assert row[1:3] == ["10", "5"]
    assert row[5:7] == ["0.05 (0.05-0.05)", "yes"]


def test_every_cell_of_the_grid_is_a_row_with_its_goal() -> None:
    ways = {LISTED: view_cost(20.0, 40.0), CACHED: view_cost(10.0, 20.0), READY: view_cost(1.0, 2.0)}
    slow = ways | {READY: view_cost(10.0, 10.0)}
    local_row, distant_row = tables.grid([(Cell(10, 2, 4096), slow), (Cell(1, 1, 512, 5.0), ways)]).splitlines()[2:]
    assert [cell.strip() for cell in local_row.split("|")][1:5] == ["10", "2", "4", "0"]
    assert "| no " in local_row
    assert "0.05 (0.05-0.05)" in distant_row
    assert "| yes " in distant_row
