"""A plugin that joins a full node receives the state in one message or in parts."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.real.conftest import Plug, Start
from tests.real.plugin_process import PluginProcess
from tests.real.support_matrix import FACTS, YES
from tools.runtimes import Containerd
from tools.runtimes.machine import PATIENCE

# containerd 2.x takes longer for each container that a pod has already, so not all in a few pods.
PODS = 16


def fill(daemon: Containerd, containers: int, annotation_bytes: int = 0, pod_count: int = PODS) -> set[str]:
    """Create that many containers in a few pods, without starting them; returns their ids."""
    pods = [daemon.cri.run_pod(f"full-{number}") for number in range(pod_count)]
    annotations = {"padding": "x" * annotation_bytes}
    with ThreadPoolExecutor(2) as pool:
        created = pool.map(
            lambda n: daemon.cri.create(pods[n % pod_count], f"c{n}", annotations=annotations), range(containers)
        )
        return set(created)


def test_a_thousand_containers_are_synchronized(start: Start, plug: Plug) -> None:
    daemon = start(log_level="info", request_timeout_s=10.0)
    containers = fill(daemon, 1000)
    line = plug(daemon).wait_for("Synchronize", timeout_s=60)
    assert len(line["pods"]) == PODS
    assert line["ids"] == len(containers) == 1000


@pytest.mark.parametrize("pods", [PODS, 1])
def test_a_state_larger_than_a_message_is_synchronized_where_documented(key: str, start: Start, pods: int) -> None:
    daemon = start(log_level="info", request_timeout_s=10.0 if pods > 1 else 2.0)
    containers = fill(daemon, 100, annotation_bytes=60_000, pod_count=pods)
    with PluginProcess(daemon.nri_socket) as plugin:
        if FACTS["split-sync"][key] == YES and pods > 1:
            assert plugin.wait_for("Synchronize", timeout_s=60)["ids"] == len(containers)
            return
        plugin.wait_for("Configure")
        until = time.monotonic() + 60 * PATIENCE
        while not daemon.log_lines("failed to sync") and time.monotonic() < until:
            time.sleep(0.05)
        assert daemon.log_lines("failed to sync"), plugin.story()
        assert not plugin.lines("Synchronize")
