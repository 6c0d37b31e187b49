"""The agent evicts batch pods through the API server, which respects disruption budgets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.agent import THRESHOLD, agent_installed, agent_log, batch, slo
from tests.cluster.machine import Cluster
from tests.cluster.pods import NODES, POD_TIMEOUT_S, Json, apply, running
from tests.support.waiting import wait_for

#: Each node uses more memory than this, so the agent evicts batch pods until there are none.
LOW_THRESHOLD = THRESHOLD | {"memoryEvictThresholdPercent": 1, "memoryEvictLowerPercent": 0}


@pytest.fixture(scope="module")
def agent(cluster: Cluster, images: None, kinds: None) -> Iterator[None]:
    """The agent on all nodes, with evictions because of memory."""
    with agent_installed(cluster, "--set", "config.gates.BEMemoryEvict=true"):
        yield


def budget(name: str) -> Json:
    """A disruption budget that forbids each eviction of a pod."""
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }  # fmt: skip


@pytest.mark.parametrize("node", NODES)
def test_an_eviction_waits_for_the_disruption_budget_and_takes_other_pods_meanwhile(
    cluster: Cluster, agent: None, node: str
) -> None:
    guarded, free = f"guarded-{node}", f"free-{node}"

    def names() -> set[str]:
        return {item["metadata"]["name"] for item in cluster.get("pods")["items"]} & {guarded, free}

    apply(cluster, budget(guarded))
    try:
        with running(cluster, batch(guarded, node), batch(free, node)):
            wait_for(
                lambda: cluster.get("poddisruptionbudget", guarded)["status"].get("currentHealthy") == 1,
                "the budget counts the pod",
                POD_TIMEOUT_S,
            )
            apply(cluster, slo(node, resourceUsedThresholdWithBE=LOW_THRESHOLD))
            wait_for(lambda: names() == {guarded}, lambda: f"{names()}\n{agent_log(cluster, node)}", POD_TIMEOUT_S)
            wait_for(
                lambda: "disruption budget" in agent_log(cluster, node),
                lambda: agent_log(cluster, node),
                POD_TIMEOUT_S,
            )
            assert names() == {guarded}
            cluster.kubectl("delete", "poddisruptionbudget", guarded)
            wait_for(lambda: not names(), lambda: f"{names()}\n{agent_log(cluster, node)}", POD_TIMEOUT_S)
    finally:
        apply(cluster, slo(node))
        cluster.kubectl("delete", "poddisruptionbudget", "--ignore-not-found", guarded)
