"""Explanations without an agent, in the format of the agent's own, with every reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nri.agent import offline
from nri.agent.capabilities import Capability
from nri.agent.koordinator import cpuset, group_identity
from nri.agent.koordinator.node import Node
from nri.agent.settings import AgentSettings
from nri.agent.settings.tables import RuleSettings
from nri.config.settings import LoadedSettings
from nri.errors import ConfigError

POOLS = {
    "metadata": {"annotations": {"node.koordinator.sh/cpu-shared-pools": '[{"socket": 0, "node": 0, "cpuset": "2"}]'}}
}
SLO = {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 2}}}}
NODE = Node(cpus=cpuset.rule_of(POOLS), identity=group_identity.rule_of(SLO), gates=frozenset({"CPUSetAllocator"}))
POD = {
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "labels": {"koordinator.sh/qosClass": "LS"},
        "annotations": {"node.koordinator.sh/resctrl": "{}"},
    },
    "spec": {
        "initContainers": [{"name": "first"}],
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}],
    },
}


@pytest.fixture
def settings(tmp_path: Path) -> AgentSettings:
    """Settings whose rules are the files of a folder."""
    return AgentSettings(root=tmp_path, rules=RuleSettings(path=tmp_path / "rules", node_name="near"))


def test_every_container_of_the_spec_has_a_decision_with_the_keys_of_its_hook() -> None:
    actual = offline.explained(POD, AgentSettings(), NODE, {})
    values = [(row["container"], row["field"], row["value"], row["reads"]) for row in actual["values"]]
    assert values == [(name, "cpuset.cpus", "2", ["koordinator.sh/qosClass"]) for name in ("first", "app")]
    assert (actual["namespace"], actual["name"], actual["writes"], actual["errors"]) == ("shop", "web", [], [])


def test_annotations_without_an_enabled_hook_are_reported() -> None:
    reason = "without effect, because Resctrl is off (gates.Resctrl = true switches it on)"
    message = [f"node.koordinator.sh/resctrl: {reason}"]
    assert offline.explained(POD, AgentSettings(), NODE, {})["notes"] == message
    both = replace(NODE, gates=frozenset({"CPUSetAllocator", "Resctrl"}))
    assert offline.explained(POD, AgentSettings(), both, {})["notes"] == []
    asks = {**POD, "metadata": {"name": "web", "annotations": {"koordinator.sh/memoryQOS": "{}"}}}
    (message,) = offline.explained(asks, AgentSettings(), both, {})["notes"]
    assert message.startswith("koordinator.sh/memoryQOS: without effect, because CgroupReconcile is off")
    on = AgentSettings(gates={"CgroupReconcile": True})
    assert offline.explained(asks, on, both, {})["notes"] == []


def test_a_knob_missing_on_the_machine_is_reported_once_with_an_alternative() -> None:
    table = {"cpuset.cpus": Capability("cpuset.cpus", False, "", "no such file", "taskset", ())}
    actual = offline.explained(POD, AgentSettings(), NODE, table)
    assert actual["notes"][1:] == ["cpuset.cpus: not supported on this machine: no such file; instead: taskset"]
    assert [row["supported_here"] for row in actual["values"]] == [False, False]


def test_all_unreadable_files_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(ConfigError) as caught:
        offline.pods_of(str(tmp_path))
    assert [error.source.partition(":")[0] for error in (caught.value, *caught.value.others)] == [
        str(tmp_path / "a.yaml"),
        str(tmp_path / "b.json"),
    ]
    with pytest.raises(ConfigError, match="file not found"):
        offline.pods_of(str(tmp_path / "none.yaml"))


def test_missing_rules_with_an_explicit_path_are_an_error(settings: AgentSettings) -> None:
    named = LoadedSettings(settings, {"rules.path": "--rules"}, ())
    assert str(offline.missing_rules(named)) == f"--rules: rules.path: {settings.rules.path} not found"
    assert offline.missing_rules(LoadedSettings(settings, {}, ())) is None
    piped = AgentSettings(rules=RuleSettings(path=Path("-")))
    error = offline.missing_rules(LoadedSettings(piped, {"rules.path": "--rules"}, ()))
    assert (
        error is not None
        and error.suggestion == "use a file or a folder: it is watched for changes, so it cannot be a pipe"
    )
    settings.rules.path.mkdir()
    assert offline.missing_rules(named) is None


def test_only_pods_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("kind: Service\n---\nkind: Pod\nmetadata: {name: a}\n---\nkind: List\nitems: [{kind: Pod}]\n")
    assert [pod.pod.get("metadata", {}).get("name") for pod in offline.pods_of(str(path))] == ["a", None]


def test_an_invalid_rule_is_a_problem_of_the_store_and_is_not_logged(
    settings: AgentSettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.rules.path.mkdir()
    (settings.rules.path / "a.yaml").write_text("kind: NodeSLO\nspec: 5\n")
    assert len(offline.store_of(settings).problems()) == 1
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata: 5", "p.yaml:2: metadata: expected a mapping"),
        ("metadata: {labels: 5}", "p.yaml:2: metadata.labels: expected a mapping"),
        ("metadata: {name: [a]}", "p.yaml:2: metadata.name: expected a string"),
        ("spec: {containers: 7}", "p.yaml:2: spec.containers: expected a list"),
        ("spec: {containers: [7]}", "p.yaml:2: spec.containers[0]: expected a mapping of keys to values"),
        ("spec: {containers: [{name: [x]}]}", "p.yaml:2: spec.containers[0].name: expected a string"),
        ("spec: {containers: [{env: 1}]}", "p.yaml:2: spec.containers[0].env: expected a list"),
        (
            "spec: {containers: [{resources: {limits: {cpu: lots}}}]}",
            "p.yaml:2: spec.containers[0].resources.limits.cpu: ",
        ),
    ],
)
def test_a_pod_that_the_api_would_refuse_is_an_error_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"kind: Pod\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        offline.pods_of(str(path))
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_templates_are_checked_as_pods(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n"
        "spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, odd: 1}]}}}\n"
    )
    (listed,) = offline.pods_of(str(path))
    assert (listed.pod["metadata"]["name"], listed.pod["metadata"]["namespace"]) == ("web", "shop")
    assert listed.unknown == [f"{path}:4: spec.template.spec.containers[0].odd is ignored: unknown key"]
