"""One batch of pods in one mode: created through the API and followed until the policy is in force; and its cost.

Without an agent nothing waits for a policy. A pod whose process wrote nothing is an error.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from bench.studies.cluster import Json, container_ids
from bench.studies.modes.agents import Agent
from bench.studies.modes.measured import Batch, Life, in_force
from bench.studies.modes.node import BenchNode
from bench.studies.modes.pods import WANTED, First, first, kind_of, manifest
from tests.peers.drivers import LineProcess

#: How long policy is waited for once all containers run, in seconds; what comes later is counted as never.
PATIENCE_S = 20.0
_LOGS_S = 10.0


class Values:
    """The values that the watcher printed, by cgroup."""

    def __init__(self, watcher: LineProcess) -> None:
        self._watcher = watcher
        self._taken = 0
        self._by_cgroup: dict[str, list[tuple[int, str, str]]] = {}

    def take(self) -> None:
        """Take in what is new. RuntimeError if the watcher has ended."""
        if self._watcher.returncode is not None:
            raise RuntimeError("the watcher of cgroups has ended")
        lines = self._watcher.lines
        while self._taken < len(lines):
            line = lines[self._taken]
            self._taken += 1
            if "cgroup" in line:
                self._by_cgroup.setdefault(line["cgroup"], []).append((line["ns"], line["file"], line["value"]))

    def force(self, cgroup: str, policy: Mapping[str, str]) -> tuple[int | None, bool]:
        """When all was in force first, and whether it is now."""
        return in_force(self._by_cgroup.get(cgroup, ()), policy)


def live(node: BenchNode, agent: Agent | None, values: Values, numbers: Sequence[int]) -> Batch:
    """Make pods of these numbers in addition to existing ones, and follow them."""
    used, waited, calls = _cost(node, agent)
    pod_count = len(node.cluster.api.pods())
    created: dict[str, tuple[Json, str, int]] = {}
    for number in numbers:
        manifest_ = manifest(number)
        uid, began = node.cluster.api.make(manifest_)
        created[uid] = manifest_, kind_of(number), began
    pods = {pod["metadata"]["uid"]: pod for pod in node.cluster.wait_running(pod_count + len(created))}
    ids = {uid: container_ids(pods[uid])[0] for uid in created}
    if agent is not None:
        _wait_for_policy(values, {ids[uid]: WANTED[kind] for uid, (_, kind, _) in created.items()})
    used_now, waited_now, asked_now = _cost(node, agent)
    values.take()
    lives = []
    for uid, (manifest_, kind, began) in created.items():
        first_values = _first(node, manifest_, uid)
        force_ns, is_lasting = values.force(ids[uid], WANTED[kind])
        lives.append(Life(kind, began, first_values.ns, first_values.right(kind), force_ns, is_lasting))
    count = len(created)
    return Batch(lives, (waited_now - waited) / count, (used_now - used) / count, asked_now - calls)


def _cost(node: BenchNode, agent: Agent | None) -> tuple[float, float, Counter[str]]:
    return agent.cpu_ms() if agent is not None else 0.0, node.cri_ms(), node.calls_until_now()


def _wait_for_policy(values: Values, policies: Mapping[str, Mapping[str, str]]) -> None:
    """Wait until all of these cgroups have their values, or as long as there is any sense in it."""
    deadline = time.monotonic() + PATIENCE_S
    pending = dict(policies)
    while pending and time.monotonic() < deadline:
        values.take()
        pending = {cgroup: policy for cgroup, policy in pending.items() if values.force(cgroup, policy)[0] is None}
        time.sleep(0.05)


def _first(node: BenchNode, pod: Json, uid: str) -> First:
    deadline = time.monotonic() + _LOGS_S
    while (first_values := first(node.cluster.kubelet.folder, pod, uid)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"pod {pod['metadata']['name']} has said nothing")
        time.sleep(0.05)
    return first_values
