"""Many pods at once under a plugin that places containers."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import nri
from nri.cri.pb import api_pb2 as pb
from tests.engine.node import CGROUPS, V2, Node

PODS, THREADS = 20, 4


class Allocator(nri.Plugin):
    """Give each container its own number of shares until it stops; change the shares of others at each creation."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, int] = {}
        self.freed: list[str] = []
        self.next = 100
        self.running: list[str] = []

    def create_container(self, pod: Any, container: Any) -> Any:
        assert container.id not in self.held and container.id not in self.freed
        self.next += 1
        self.held[container.id] = self.next
        sample = random.sample(self.running, min(2, len(self.running)))
        for other in sample:
            self.held[other] += 1000
        return (
            nri.Adjustment().set_cpu_shares(self.next),
            [nri.Update(other).set_cpu_shares(self.held[other]) for other in sample],
        )

    def post_create_container(self, pod: Any, container: Any) -> None:
        self.running.append(container.id)

    def stop_container(self, pod: Any, container: Any) -> None:
        assert container.id not in self.freed, "stopped twice"
        del self.held[container.id]
        self.freed.append(container.id)
        if container.id in self.running:
            self.running.remove(container.id)


def test_the_kernel_has_the_plugins_cpus_while_four_threads_run_twenty_pods(node: Node) -> None:
    plugin: Allocator = node.plugin(Allocator(), "10", "allocator")
    errors: list[BaseException] = []
    stay: list[tuple[str, str]] = []

    def live(number: int) -> None:
        pod = node.pod(f"p{number}", network=pb.POD if number % 2 else pb.NODE)
        container_id = node.run(pod, "long")
        short = node.run(pod, "short", ("sh", "-c", f"exit {number}"))
        node.wait_exited(short)
        assert node.engine.inventory.container(short).record.exit_code == number
        if number % 4 == 0:
            stay.append((pod, container_id))
            return
        if number % 4 == 1:
            node.engine.container_removal.stop(container_id, 0)
        if number % 4 != 3:
            node.engine.pod_removal.stop(pod)
        node.engine.pod_removal.remove(pod)

    _in_threads(live, PODS, errors)
    assert errors == [], errors
    node.wait_for(
        lambda: sorted(plugin.held) == sorted(container_id for _, container_id in stay), "the end of all others"
    )
    for _, container_id in stay:
        assert node.cgroup(container_id, "cpu", "cpu.shares") == str(plugin.held[container_id])
        assert node.engine.inventory.container(container_id).record.resources["cpu_shares"] == str(
            plugin.held[container_id]
        )
    assert len(plugin.freed) == 2 * PODS - len(stay)
    node.remove(*(pod for pod, _ in stay))
    assert plugin.held == {}
    node.assert_nothing_left()
    assert not [path for path in CGROUPS.glob(f"{'' if V2 else '*/'}{node.machine.name}/*") if path.is_dir()]


def _in_threads(work: Callable[[int], None], count: int, errors: list[BaseException]) -> None:
    numbers = iter(range(count))
    lock = threading.Lock()

    def go() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                work(number)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=go) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"


class Raiser(nri.Plugin):
    """Gives the first container a larger number of shares whenever another one is made."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shares = "", 1000

    def create_container(self, pod: Any, container: Any) -> Any:
        if not self.first:
            self.first = container.id
            return None
        self.shares += 1
        return nri.Adjustment(), [nri.Update(self.first).set_cpu_shares(self.shares)]


def test_of_overlapping_creations_the_last_update_holds(node: Node) -> None:
    plugin: Raiser = node.plugin(Raiser(), "10", "raiser")
    pod = node.pod()
    first = node.run(pod, "first")
    pod_ids = [node.pod(f"p{number}") for number in range(8)]
    for turn in range(12):
        errors: list[BaseException] = []
        _in_threads(lambda number, turn=turn: node.create(pod_ids[number], f"c{turn}"), len(pod_ids), errors)  # type: ignore[misc]
        assert errors == [], errors
        assert node.cgroup(first, "cpu", "cpu.shares") == str(plugin.shares), f"turn {turn}"
        assert node.engine.inventory.container(first).record.resources["cpu_shares"] == str(plugin.shares)
    node.remove(pod, *pod_ids)
