"""The store of rules: documents that are accepted, refused and kept."""

import json
from typing import Any

import pytest

from nri.agent.koordinator import cpu_normalization, cpuset
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import KINDS
from nri.agent.rules.store import RuleStore

BE_ON = {"resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": True, "groupIdentity": -1}}}}


def slo(spec: Any) -> dict[str, Any]:
    return {"kind": "NodeSLO", "metadata": {"name": "n1"}, "spec": spec}


def topology(cpus: str) -> dict[str, Any]:
    pools = json.dumps([{"socket": 0, "node": 0, "cpuset": cpus}])
    return {"metadata": {"name": "n1", "annotations": {cpuset.ANNOTATION_SHARE_POOLS: pools}}}


def node(ratio: str | None) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "annotations": {} if ratio is None else {cpu_normalization.ANNOTATION_RATIO: ratio}}
    }


@pytest.fixture
def store() -> RuleStore:
    return RuleStore(Node(fail=True), KINDS, clock=lambda: 7.0)


@pytest.fixture
def heard(store: RuleStore) -> list[set[str]]:
    calls: list[set[str]] = []
    store.subscribe(lambda kinds: calls.append(set(kinds)))
    return calls


def test_without_documents_the_base_rules_apply(store: RuleStore) -> None:
    assert store.node == Node(fail=True)
    assert (store.document("NodeSLO"), store.sources()["NodeSLO"], store.problems()) == (None, "", [])
    assert store.sources() == {"NodeSLO": "", "ConfigMap": "", "NodeResourceTopology": "", "Node": ""}


def test_every_kind_changes_its_part_of_the_rules_and_notifies_subscribers(
    store: RuleStore, heard: list[set[str]]
) -> None:
    store.put("NodeSLO", slo(BE_ON), "api")
    store.put("NodeResourceTopology", topology("0-3"), "api")
    store.put("Node", node("1.5"), "api")
    actual = store.node
    assert actual.fail
    assert actual.identity is not None and actual.identity.pods["BE"] == -1
    assert actual.cpus is not None and actual.cpus.shared() == "0-3"
    assert actual.ratio == 1.5
    assert (actual.batch.has_quota, actual.batch.ratio) == (True, 1.5)
    assert heard == [{"NodeSLO"}, {"NodeResourceTopology"}, {"Node"}]
    assert store.document("NodeSLO") == slo(BE_ON)


def test_a_snapshot_does_not_change(store: RuleStore) -> None:
    before = store.node
    store.put("NodeSLO", slo(BE_ON), "api")
    assert before.identity is None


@pytest.mark.parametrize(
    ("kind", "good", "bad", "key"),
    [
        ("NodeSLO", slo(BE_ON), slo({"resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": "x"}}}}), "spec."),
        ("NodeSLO", slo(BE_ON), slo({"hostApplications": {}}), "hostApplications"),
        ("NodeSLO", slo(BE_ON), slo({"systemStrategy": {"totalNetworkBandwidth": "-1"}}), ""),
        ("NodeSLO", slo(BE_ON), slo([1]), "spec"),
        ("NodeSLO", slo(BE_ON), {"metadata": [], "spec": BE_ON}, "metadata"),
        ("NodeResourceTopology", topology("0-3"), topology("3-0"), "annotation"),
        ("NodeResourceTopology", topology("0-3"), {"metadata": {"annotations": {"a": 1}}}, "metadata.annotations"),
        ("Node", node("1.5"), node("fast"), "annotation"),
        ("Node", node("1.5"), [], ""),
    ],
)
def test_an_invalid_document_keeps_the_last_valid_one_and_is_a_problem_until_fixed(
    store: RuleStore, heard: list[set[str]], kind: str, good: Any, bad: Any, key: str
) -> None:
    store.put(kind, good, "api")
    before = store.node
    heard.clear()
    store.put(kind, bad, "api")
    assert store.node is before
    assert store.document(kind) == good
    (problem,) = store.problems()
    assert (problem.kind, problem.source, problem.at) == (kind, "api", 7.0)
    assert problem.error.startswith(key) and problem.error
    assert heard == []
    store.put(kind, good, "api")
    assert store.problems() == []


def test_one_invalid_value_refuses_the_whole_document(store: RuleStore) -> None:
    strategy = {"policies": {"netQOSPolicy": "terway-qos"}, "lsClass": {"networkQOS": {}}}
    strategy["lsClass"]["networkQOS"] = {"enable": True, "egressLimit": "2G"}
    spec = {"systemStrategy": {"totalNetworkBandwidth": "1G"}, "resourceQOSStrategy": strategy | {"beClass": {}}}
    store.put("NodeSLO", slo(BE_ON), "api")
    store.put("NodeSLO", slo(spec), "api")
    assert store.node.identity is not None and store.node.identity.pods["BE"] == -1
    assert "more than the node's" in store.problems()[0].error


def test_an_equivalent_document_is_stored_without_a_notification(store: RuleStore, heard: list[set[str]]) -> None:
    store.put("Node", node("1.5"), "api")
    store.put("Node", node("1.501") | {"status": {}}, "api")
    assert heard == [{"Node"}]
    assert store.node.ratio == 1.5
    assert store.document("Node") == node("1.501") | {"status": {}}


def test_a_change_only_for_strategies_is_a_change_of_the_rule(store: RuleStore, heard: list[set[str]]) -> None:
    store.put("NodeSLO", slo({"cpuBurstStrategy": {"policy": "none"}}), "api")
    store.put("NodeSLO", slo({"cpuBurstStrategy": {"policy": "auto"}}), "api")
    assert heard == [{"NodeSLO"}, {"NodeSLO"}]


def test_a_deleted_nodeslo_disables_its_settings(store: RuleStore, heard: list[set[str]]) -> None:
    store.put("NodeSLO", slo(BE_ON), "api")
    store.put("NodeSLO", None, "api")
    identity = store.node.identity
    assert identity is not None and not identity.enabled and identity.pods["BE"] == 0
    assert store.document("NodeSLO") is None
    assert heard == [{"NodeSLO"}] * 2


def test_a_deleted_topology_or_node_leaves_no_rules(store: RuleStore) -> None:
    store.put("NodeResourceTopology", topology("0-3"), "api")
    store.put("Node", node("1.5"), "api")
    store.put("NodeResourceTopology", None, "api")
    store.put("Node", None, "api")
    assert (store.node.cpus, store.node.ratio) == (None, -1)


def test_only_the_source_of_a_document_can_delete_it(store: RuleStore, heard: list[set[str]]) -> None:
    store.put("NodeSLO", slo({}), "file")
    store.put("NodeSLO", slo(BE_ON), "api")
    heard.clear()
    store.put("NodeSLO", None, "file")
    assert store.sources()["NodeSLO"] == "api"
    assert heard == []


def test_deleting_an_invalid_document_removes_its_problem(store: RuleStore) -> None:
    store.put("Node", node("fast"), "api")
    store.put("Node", None, "api")
    assert store.problems() == []


def test_a_source_can_provide_the_line_of_an_error(store: RuleStore) -> None:
    store.put("Node", node("fast"), "a.yaml", lambda error: "a.yaml:3")
    assert store.problems()[0].source == "a.yaml:3"


def test_an_unreadable_file_is_a_problem_until_it_is_accepted(store: RuleStore) -> None:
    store.refuse("", "a.yaml", "not valid YAML\n")
    assert [(problem.source, problem.error) for problem in store.problems()] == [("a.yaml", "not valid YAML\\n")]
    store.accept("", "a.yaml")
    assert store.problems() == []


def test_problems_are_bounded_in_length_and_number(store: RuleStore) -> None:
    for number in range(150):
        store.refuse("", f"{number}.yaml", "x" * 10_000)
    assert len(store.problems()) == 100
    assert max(len(problem.error) for problem in store.problems()) < 600


def test_a_failed_listener_affects_neither_other_listeners_nor_the_source(
    store: RuleStore, heard: list[set[str]], caplog: pytest.LogCaptureFixture
) -> None:
    store.subscribe(lambda kinds: 1 / 0)
    store.subscribe(lambda kinds: heard.append({"last"}))
    store.put("Node", node("1.5"), "api")
    assert heard == [{"Node"}, {"last"}]
    assert "could not be applied" in caplog.text


def test_a_listener_can_read_the_store(store: RuleStore) -> None:
    collected: list[float] = []
    store.subscribe(lambda kinds: collected.append(store.node.ratio if store.document("Node") else 0))
    store.put("Node", node("2"), "api")
    assert collected == [2.0]


def test_an_unknown_kind_is_a_key_error(store: RuleStore) -> None:
    with pytest.raises(KeyError):
        store.put("Pod", {}, "api")


def test_the_log_has_every_change_of_a_rule(caplog: pytest.LogCaptureFixture) -> None:
    def take(store: RuleStore) -> None:
        for source in (slo(BE_ON), slo(BE_ON), slo([1]), slo(BE_ON), None):
            store.put("NodeSLO", source, "a.yaml")
        store.refuse("", "a.yaml", "not valid YAML")
        store.accept("", "a.yaml")
        store.accept("", "a.yaml")

    with caplog.at_level("INFO", "nri.agent"):
        take(RuleStore(Node(), KINDS))
        assert [message.partition(": ")[0] for message in caplog.messages] == [
            "NodeSLO of a.yaml is in force",
            "NodeSLO of a.yaml has an error; the last good version stays",
            "NodeSLO of a.yaml is fixed, and in force",
            "NodeSLO of a.yaml was removed",
            "a document of a.yaml has an error; the last good version stays",
            "the problem of a document of a.yaml is fixed",
        ]
        caplog.clear()
        take(RuleStore(Node(), KINDS, log=False))
        assert caplog.messages == []


def test_unknown_keys_are_logged_once_and_forgotten_with_the_document(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = RuleStore(Node(), KINDS)
    for _ in range(2):
        store.put("NodeSLO", {"spec": {"cpuBurstStrateg": {"policy": "auto"}}}, "a.yaml")
    (line,) = [record.getMessage() for record in caplog.records if "without effect" in record.getMessage()]
    assert "cpuBurstStrateg: nothing reads it; did you mean cpuBurstStrategy?" in line and "a.yaml" in line
    assert list(store.unread()) == ["NodeSLO"]
    store.put("NodeSLO", None, "a.yaml")
    assert store.unread() == {}


def _config_map(enable: object) -> dict[str, Any]:
    text = json.dumps({"clusterStrategy": {"enable": enable}})
    return {"metadata": {"name": "slo-controller-config"}, "data": {"resource-threshold-config": text}}


def test_a_derived_document_counts_while_no_source_provides_one(store: RuleStore, heard: list[set[str]]) -> None:
    store.put("ConfigMap", _config_map(enable=True), "c.yaml")
    derived = store.document("NodeSLO")
    assert derived is not None and derived["spec"] == {"resourceUsedThresholdWithBE": {"enable": True}}
    assert store.sources()["NodeSLO"] == "c.yaml" and {"ConfigMap", "NodeSLO"} in heard
    store.put("NodeSLO", {"spec": {}}, "n.yaml")
    store.put("ConfigMap", _config_map(enable=False), "c.yaml")
    assert store.document("NodeSLO") == {"spec": {}}
    store.put("NodeSLO", None, "n.yaml")
    document = store.document("NodeSLO")
    assert document is not None and document["spec"] == {"resourceUsedThresholdWithBE": {"enable": False}}
    store.put("ConfigMap", None, "c.yaml")
    assert store.document("NodeSLO") is None


def test_a_document_that_cannot_be_converted_is_a_problem_and_keeps_the_rules(store: RuleStore) -> None:
    store.put("ConfigMap", _config_map(enable=True), "c.yaml")
    store.put("ConfigMap", {"data": {"resource-threshold-config": "{"}}, "c.yaml")
    derived = store.document("NodeSLO")
    assert derived is not None and derived["spec"] == {"resourceUsedThresholdWithBE": {"enable": True}}
    (problem,) = store.problems()
    assert problem.kind == "ConfigMap" and problem.error.startswith('data.resource-threshold-config: "{" is not JSON')


def test_a_key_with_an_error_keeps_its_last_version_while_other_keys_change(store: RuleStore) -> None:
    def sections() -> dict[str, Any]:
        derived = store.document("NodeSLO")
        assert derived is not None
        spec: dict[str, Any] = derived["spec"]
        return spec

    burst = {"cpu-burst-config": json.dumps({"clusterStrategy": {"policy": "auto"}})}
    wrong = _config_map(enable="yes")["data"]
    store.put("ConfigMap", {"data": {**wrong, **burst}}, "c.yaml")
    assert sections() == {"cpuBurstStrategy": {"policy": "auto"}}
    store.put("ConfigMap", _config_map(enable=True), "c.yaml")
    assert store.problems() == []
    store.put("ConfigMap", {"data": {**wrong, **burst}}, "c.yaml")
    assert sections() == {
        "resourceUsedThresholdWithBE": {"enable": True}, "cpuBurstStrategy": {"policy": "auto"},
    }  # fmt: skip
    (problem,) = store.problems()
    assert problem.error == 'data.resource-threshold-config: clusterStrategy.enable: "yes" is not true or false'
