"""Many pods through the proxy, sequential and concurrent, leave no state."""

from __future__ import annotations

import gc
import os
import threading

import nri
from tests.engine.node import Recorder
from tests.support.proxied import Proxied
from tests.support.waiting import wait_for

CYCLES, THREADS = 25, 6


def cycle(world: Proxied, name: str) -> str:
    """A pod's whole life; returns what the plugin has put into its container."""
    cri = world.cri
    pod = world.run_pod(world.pod_config(name), cri)
    created_id = world.create(pod, f"c-{name}", cri)
    cri.call("StartContainer", container_id=created_id)
    (actual,) = (row for row in world.spec(created_id)["process"]["env"] if row.startswith("OF="))
    for call, fields in (
        ("StopContainer", {"container_id": created_id}),
        ("RemoveContainer", {"container_id": created_id}),
        ("StopPodSandbox", {"pod_sandbox_id": pod}),
        ("RemovePodSandbox", {"pod_sandbox_id": pod}),
    ):
        cri.call(call, **fields)
    return str(actual)


def test_many_removed_pods_leave_no_state(world: Proxied) -> None:
    plugin = world.attach(Recorder())
    plugin.on["create"] = lambda pod, container: nri.Adjustment().add_env("OF", pod.name)
    cycle(world, "first")
    assert world.proxy is not None
    gc.collect()
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    world.close_clients()
    for number in range(CYCLES):
        assert cycle(world, f"p{number}") == f"OF=p{number}"
        world.close_clients()
    assert (world.proxy.store.pods(), world.proxy.store.containers(), world.proxy.store.making) == ([], [], {})
    assert list((world.folder / "kept").glob("*.json")) == []
    # gRPC's threads come when calls overlap, and stay for later ones.
    wait_for(lambda: threading.active_count() <= threads + 16, "the end of threads")
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= files + 8, "the end of files")
    message = [event for event, _ in plugin.events]
    assert [message.count(event) for event in ("create", "stop", "remove", "remove_pod")] == [CYCLES + 1] * 4


def test_concurrent_pods_get_their_own_changes(world: Proxied) -> None:
    plugin = world.attach(Recorder())
    plugin.on["create"] = lambda pod, container: nri.Adjustment().add_env("OF", pod.name)
    actual: dict[str, str] = {}

    def work(who: int) -> None:
        for number in range(3):
            actual[f"p{who}-{number}"] = cycle(world, f"p{who}-{number}")

    crew = [threading.Thread(target=work, args=(who,)) for who in range(THREADS)]
    for row in crew:
        row.start()
    for row in crew:
        row.join()
    assert actual == {name: f"OF={name}" for name in actual} and len(actual) == THREADS * 3
    assert world.proxy is not None and world.proxy.store.containers() == []
