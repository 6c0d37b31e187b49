"""The agent's sources of rules and pods on a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nri.agent.koordinator.cpu_normalization import ANNOTATION_RATIO
from nri.agent.koordinator.cpuset import ANNOTATION_SHARE_POOLS
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import KINDS
from nri.agent.pods.apiserver import ApiserverPods
from nri.agent.rules.apiserver import ApiserverRules
from nri.agent.rules.store import RuleStore
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import RuleSettings
from tests.apiserver.following import NODE, make_crds, node, pod, slo, topology
from tests.kubernetes.control_plane import ControlPlane
from tests.support.waiting import wait_for

POOLS = '[{"socket":0,"node":0,"cpuset":"0-1"}]'


def identity(value: int) -> dict[str, object]:
    return {"resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": True, "groupIdentity": value}}}}


@pytest.fixture
def settings(api: ControlPlane) -> AgentSettings:
    """The settings of an agent on the node."""
    make_crds(api)
    return AgentSettings(rules=RuleSettings(source="apiserver", kubeconfig=str(api.kubeconfig), node_name=NODE))


@pytest.fixture
def store(settings: AgentSettings, api: ControlPlane) -> Iterator[RuleStore]:
    """A store that the apiserver fills."""
    store = RuleStore(Node(), KINDS)
    rules = ApiserverRules(settings, store)
    rules.start()
    wait_for(lambda: rules.health()[0], "first list")
    yield store
    rules.stop()
    for what in ("nodes", "nodeslos", "noderesourcetopologies"):
        api.kubectl("delete", what, "--all")


def be(store: RuleStore) -> int | None:
    return None if store.node.identity is None else store.node.identity.pods["BE"]


def test_custom_resources_become_rules_and_a_change_is_reported_at_once(api: ControlPlane, store: RuleStore) -> None:
    heard: list[frozenset[str]] = []
    store.subscribe(heard.append)
    api.apply(slo(identity(-1)), slo(identity(2), name="node-2"))
    api.apply(topology({ANNOTATION_SHARE_POOLS: POOLS}), node(**{ANNOTATION_RATIO: "1.5"}))
    wait_for(lambda: be(store) == -1 and store.node.cpus and store.node.ratio == 1.5, "rules")
    assert store.node.cpus is not None and store.node.cpus.shared() == "0-1"
    api.apply(slo(identity(2)))
    wait_for(lambda: be(store) == 2, "changed rule")
    api.kubectl("delete", "nodeslo", NODE)
    wait_for(lambda: be(store) == 0, "end of the rule")
    assert {kind for kinds in heard for kind in kinds} == {"NodeSLO", "NodeResourceTopology", "Node"}


def test_a_bad_rule_is_reported_while_the_last_good_rule_holds_and_can_be_corrected(
    api: ControlPlane, store: RuleStore
) -> None:
    api.apply(slo(identity(-1)), topology({ANNOTATION_SHARE_POOLS: POOLS}))
    wait_for(lambda: be(store) == -1 and store.node.cpus, "rules")
    bad = identity(2)
    bad["resourceQOSStrategy"]["beClass"]["cpuQOS"]["groupIdentity"] = "high"  # type: ignore[index]
    api.apply(slo(bad), topology({ANNOTATION_SHARE_POOLS: '[{"cpuset":"7-"}]'}))
    wait_for(lambda: len(store.problems()) == 2, "problems")
    assert be(store) == -1
    assert store.node.cpus is not None and store.node.cpus.shared() == "0-1"
    message = {problem.kind: (problem.source, problem.error) for problem in store.problems()}
    assert message["NodeSLO"][0].startswith(f"NodeSLO {NODE} of https://")
    assert message["NodeSLO"][1].startswith("spec.resourceQOSStrategy.beClass.cpuQOS.groupIdentity: ")
    assert message["NodeResourceTopology"][1].startswith(f"annotation {ANNOTATION_SHARE_POOLS}: ")
    api.apply(slo(identity(2)), topology({ANNOTATION_SHARE_POOLS: POOLS}))
    wait_for(lambda: be(store) == 2 and not store.problems(), "fixed rules")


def test_rules_hold_while_the_apiserver_is_down_and_the_problem_is_reported(
    api: ControlPlane, store: RuleStore
) -> None:
    api.apply(slo(identity(-1)))
    wait_for(lambda: be(store) == -1, "rule")
    api.kill_apiserver()
    wait_for(lambda: len(store.problems()) == 4, "problems")
    assert be(store) == -1
    api.start_apiserver()
    api.apply(slo(identity(2)))
    wait_for(lambda: be(store) == 2, "changed rule")
    wait_for(lambda: not store.problems(), "end of the problems", 60)


def test_only_pods_of_the_node_are_listed(api: ControlPlane, settings: AgentSettings) -> None:
    api.apply(pod("local"), pod("remote", node="node-2"))
    source, calls = ApiserverPods(settings), []
    source.subscribe(lambda: calls.append(1))
    source.start()
    wait_for(lambda: source.synced, "first list")
    (actual,) = source.pods()
    assert actual["metadata"]["name"] == "local"
    assert actual["status"]["qosClass"] == "BestEffort"
    api.kubectl("delete", "pod", "local", "remote", "--force", "--grace-period=0")
    wait_for(lambda: not source.pods(), "end of the pod")
    source.stop()
    assert len(calls) >= 2
