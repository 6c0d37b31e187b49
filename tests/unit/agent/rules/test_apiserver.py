"""Rules from an apiserver, with scripted responses. Real apiservers: tests/apiserver."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import KINDS
from nri.agent.rules.apiserver import ApiserverRules
from nri.agent.rules.store import RuleStore
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import RuleSettings
from nri.errors import ConfigError
from tests.support.http_server import HttpServer, page, status, stream
from tests.support.waiting import wait_for


class Cluster:
    """A server's lists of objects, by the kind's name in URLs."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        kinds = ("nodeslos", "noderesourcetopologies", "nodes", "configmaps")
        self.items: dict[str, list[Any]] = {kind: [] for kind in kinds}
        self.absent: set[str] = set()
        self.hold = threading.Event()
        server.otherwise = self.answer

    def cut(self, absent: set[str]) -> None:
        """End all watches; from then on these kinds do not exist."""
        self.absent = absent
        self.hold, hold = threading.Event(), self.hold
        hold.set()

    def answer(self, request: Any) -> None:
        kind = request.path.partition("?")[0].rpartition("/")[2]
        if kind in self.absent:
            status(404, "not found")(request)
        elif "watch=true" in request.path:
            stream(hold=self.hold)(request)
        else:
            page({"metadata": {"resourceVersion": "7"}, "items": self.items[kind]})(request)


def thing(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": "5", **more.pop("metadata", {})}, **more}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with HttpServer().listening() as server:
        cluster = Cluster(server)
        yield cluster
        cluster.hold.set()


@pytest.fixture
def store() -> RuleStore:
    return RuleStore(Node(), KINDS)


@pytest.fixture
def rules(cluster: Cluster, store: RuleStore, tmp_path: Path) -> Iterator[ApiserverRules]:
    path = tmp_path / "kubeconfig"
    tree = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{cluster.server.port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(tree))
    apiserver_rules = ApiserverRules(AgentSettings(rules=RuleSettings(kubeconfig=str(path), node_name="n1")), store)
    yield apiserver_rules
    apiserver_rules.stop()


def test_all_kinds_of_this_node_reach_the_store(cluster: Cluster, store: RuleStore, rules: ApiserverRules) -> None:
    annotations = {"node.koordinator.sh/cpu-normalization-ratio": "1.5"}
    cluster.items["nodes"] = [thing("n1", metadata={"annotations": annotations})]
    cluster.items["nodeslos"] = [thing("n1", spec={"systemStrategy": {}})]
    cluster.items["noderesourcetopologies"] = [thing("n1")]
    assert rules.health()[0] is False
    assert rules.health()[1].endswith("waiting for NodeSLO, NodeResourceTopology, Node")
    rules.start()
    wait_for(lambda: rules.health()[0])
    wait_for(lambda: all(store.document(kind) for kind in ("Node", "NodeSLO", "NodeResourceTopology")))
    assert store.node.ratio == 1.5
    assert store.problems() == []
    selectors = {requested["query"]["fieldSelector"] for requested in cluster.server.asked}
    assert selectors == {"metadata.name=n1", "metadata.name=slo-controller-config"}
    assert store.sources()["NodeSLO"] == f"NodeSLO n1 of http://127.0.0.1:{cluster.server.port}"


def test_the_managers_config_map_provides_the_nodes_rules(
    cluster: Cluster, store: RuleStore, rules: ApiserverRules
) -> None:
    config = {"nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "a"}}, "cpuSuppressPolicy": "cfsQuota"}]}
    data = {"resource-threshold-config": json.dumps(config)}
    names = {"namespace": "koordinator-system"}
    cluster.items["configmaps"] = [thing("slo-controller-config", metadata=names, data=data)]
    cluster.items["nodes"] = [thing("n1", metadata={"labels": {"pool": "a"}})]
    rules.start()
    wait_for(lambda: (store.document("NodeSLO") or {}).get("spec"))
    assert store.document("NodeSLO") == {
        "kind": "NodeSLO",
        "metadata": {},
        "spec": {"resourceUsedThresholdWithBE": {"cpuSuppressPolicy": "cfsQuota"}},
    }
    paths = {request["path"].partition("?")[0] for request in cluster.server.asked if "configmaps" in request["path"]}
    assert paths == {"/api/v1/namespaces/koordinator-system/configmaps"}


def test_a_forbidden_config_map_does_not_delay_readiness(
    cluster: Cluster, store: RuleStore, rules: ApiserverRules
) -> None:
    cluster.absent = {"configmaps"}
    rules.start()
    wait_for(lambda: rules.health()[0])


def test_a_kind_missing_in_the_cluster_is_a_problem_and_does_not_affect_others(
    cluster: Cluster, store: RuleStore, rules: ApiserverRules
) -> None:
    cluster.absent = {"noderesourcetopologies"}
    cluster.items["nodeslos"] = [thing("n1", spec={})]
    rules.start()
    wait_for(lambda: store.document("NodeSLO") and store.problems() and rules.health()[0])
    (problem,) = store.problems()
    assert problem.kind == "NodeResourceTopology"
    assert "CustomResourceDefinition" in problem.error
    assert rules.health()[1].endswith("cannot read NodeResourceTopology")
    cluster.absent = set()
    wait_for(lambda: not store.problems())


def test_an_invalid_rule_is_a_problem_across_reconnections(
    cluster: Cluster, store: RuleStore, rules: ApiserverRules
) -> None:
    cluster.items["nodeslos"] = [thing("n1", spec=[])]
    rules.start()
    wait_for(store.problems)
    (bad,) = store.problems()
    cluster.cut({"nodeslos"})
    wait_for(lambda: len(store.problems()) == 2)
    assert bad in store.problems()
    cluster.cut(set())
    wait_for(lambda: store.problems() == [bad])


def test_an_unusable_kubeconfig_is_a_config_error(tmp_path: Path, store: RuleStore) -> None:
    with pytest.raises(ConfigError):
        ApiserverRules(AgentSettings(rules=RuleSettings(kubeconfig=str(tmp_path / "none"))), store)
