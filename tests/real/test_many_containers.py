"""A plugin that joins a full node gets everything at once, in one message or in parts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.real.conftest import Plug, Start

PODS = 4
CONTAINERS = 1000


def test_a_thousand_containers_are_synchronized(start: Start, plug: Plug) -> None:
    daemon = start(log_level="info", request_timeout_s=10.0)
    pods = [daemon.cri.run_pod(f"full-{number}") for number in range(PODS)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: daemon.cri.create(pods[n % PODS], f"c{n}"), range(CONTAINERS)))
    line = plug(daemon).wait_for("Synchronize", timeout_s=60)
    assert len(line["pods"]) == PODS
    assert line["ids"] == len(set(made)) == CONTAINERS
