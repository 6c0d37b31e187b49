"""Rules from files."""

import os
import time
from pathlib import Path

import pytest

from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import KINDS
from nri.agent.rules import files
from nri.agent.rules.files import FileRules
from nri.agent.rules.store import RuleStore
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import RuleSettings

SLO = """\
apiVersion: slo.koordinator.sh/v1alpha1
kind: NodeSLO
metadata:
  name: {name}
spec:
  resourceQOSStrategy:
    beClass:
      cpuQOS:
        enable: {enable}
        groupIdentity: {identity}
"""
TOPOLOGY = """\
kind: NodeResourceTopology
metadata:
  annotations:
    node.koordinator.sh/cpu-shared-pools: '{pools}'
"""
NODE = """\
kind: Node
metadata:
  name: n1
  annotations:
    node.koordinator.sh/cpu-normalization-ratio: "{ratio}"
"""


def slo(identity: int = -1, name: str = "n1", enable: str = "true") -> str:
    return SLO.format(identity=identity, name=name, enable=enable)


@pytest.fixture
def store() -> RuleStore:
    return RuleStore(Node(), KINDS)


@pytest.fixture
def rules(tmp_path: Path, store: RuleStore) -> FileRules:
    return FileRules(AgentSettings(rules=RuleSettings(path=tmp_path, node_name="n1")), store)


def identity(store: RuleStore) -> int | None:
    return None if store.node.identity is None else store.node.identity.pods["BE"]


def problems(store: RuleStore, folder: Path) -> list[tuple[str, str]]:
    return [(problem.kind, os.path.relpath(problem.source, folder)) for problem in store.problems()]


def test_documents_of_all_kinds_are_read_from_one_or_several_files(
    tmp_path: Path, store: RuleStore, rules: FileRules
) -> None:
    pools = '[{"socket":0,"node":0,"cpuset":"0-3"}]'
    (tmp_path / "a.yaml").write_text(slo() + "---\n" + TOPOLOGY.format(pools=pools))
    (tmp_path / "b.yaml").write_text(NODE.format(ratio="1.5"))
    rules.check()
    assert (identity(store), store.node.ratio) == (-1, 1.5)
    assert store.node.cpus is not None and store.node.cpus.shared() == "0-3"
    assert store.problems() == []
    assert rules.health() == (True, f"3 kinds of rules from {tmp_path}")


def test_other_nodes_and_other_kinds_are_ignored(tmp_path: Path, store: RuleStore, rules: FileRules) -> None:
    (tmp_path / "a.yaml").write_text(slo(name="n2") + "---\nkind: Pod\nmetadata: 1\n---\n" + slo(2))
    rules.check()
    assert identity(store) == 2
    assert store.problems() == store.remarks() == []


def test_a_kind_with_foreign_nodes_only_and_a_misspelt_kind_are_reported_once(
    tmp_path: Path, store: RuleStore, rules: FileRules, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.yaml").write_text(slo(name="n2") + "---\nkind: NodeSLOO\n---\nspec: {}\n---\nkind: NodeMetric\n")
    rules.check()
    (tmp_path / "b.yaml").write_text(NODE.format(ratio="1.5"))
    rules.check()
    odd, no_kind, foreign = store.remarks()
    assert odd.endswith("kind: NodeSLOO: nothing reads it; did you mean NodeSLO?") and no_kind.endswith("missing")
    assert foreign == f"{tmp_path}/a.yaml: NodeSLO belongs to node n2, but this node is n1 (rules.node_name)"
    assert [caplog.text.count(line) for line in store.remarks()] == [1, 1, 1]
    (tmp_path / "a.yaml").write_text(slo())
    rules.check()
    assert store.remarks() == []


@pytest.mark.parametrize("text", ["", "null\n", "kind: ConfigMap\ndata: {resource-qos-config: '{}'}\n"])
def test_files_without_rules_are_reported(
    text: str, tmp_path: Path, store: RuleStore, rules: FileRules, caplog: pytest.LogCaptureFixture
) -> None:
    rules.check()
    assert store.remarks() == [], "an empty folder is not a mistake"
    (tmp_path / "a.yaml").write_text(text)
    rules.check()
    kinds = "NodeSLO, ConfigMap slo-controller-config, NodeResourceTopology, Node"
    message = f"{tmp_path}: no rules found; expected {kinds}"
    assert store.remarks() == [message] and caplog.text.count(message) == 1
    (tmp_path / "a.yaml").write_text(slo())
    rules.check()
    assert store.remarks() == []


def test_a_changed_file_changes_the_rule_and_a_removed_file_removes_it(
    tmp_path: Path, store: RuleStore, rules: FileRules
) -> None:
    (tmp_path / "a.yaml").write_text(slo())
    rules.check()
    (tmp_path / "a.yaml").write_text(slo(1))
    rules.check()
    assert identity(store) == 1
    (tmp_path / "a.yaml").unlink()
    rules.check()
    assert identity(store) == 0
    assert store.document("NodeSLO") is None


def test_an_invalid_value_is_reported_with_file_and_line_and_keeps_the_last_rule(
    tmp_path: Path, store: RuleStore, rules: FileRules
) -> None:
    (tmp_path / "a.yaml").write_text(slo())
    rules.check()
    (tmp_path / "a.yaml").write_text("kind: Other\n---\n" + slo(enable="sometimes"))
    rules.check()
    assert identity(store) == -1
    assert problems(store, tmp_path) == [("NodeSLO", "a.yaml:11")]
    assert store.problems()[0].error.startswith("spec.resourceQOSStrategy.beClass.cpuQOS.enable: ")
    (tmp_path / "a.yaml").write_text(slo(2))
    rules.check()
    assert (identity(store), store.problems()) == (2, [])


def test_an_invalid_annotation_is_reported_with_its_line(tmp_path: Path, store: RuleStore, rules: FileRules) -> None:
    (tmp_path / "a.yaml").write_text(TOPOLOGY.format(pools="[1]"))
    rules.check()
    assert problems(store, tmp_path) == [("NodeResourceTopology", "a.yaml:4")]


def test_an_invalid_host_application_is_reported_with_its_line(
    tmp_path: Path, store: RuleStore, rules: FileRules
) -> None:
    (tmp_path / "a.yaml").write_text("kind: NodeSLO\nspec:\n  hostApplications:\n  - name: a\n  - name: [b]\n")
    rules.check()
    assert problems(store, tmp_path) == [("NodeSLO", "a.yaml:5")]


def test_invalid_yaml_is_reported_with_file_and_line_and_keeps_the_last_rule(
    tmp_path: Path, store: RuleStore, rules: FileRules
) -> None:
    (tmp_path / "a.yaml").write_text(slo())
    rules.check()
    (tmp_path / "a.yaml").write_text("kind: NodeSLO\nspec: [\n")
    rules.check()
    assert identity(store) == -1
    assert problems(store, tmp_path) == [("", "a.yaml:3")]
    (tmp_path / "a.yaml").write_text(slo())
    rules.check()
    assert store.problems() == []


def test_of_two_files_with_one_kind_the_first_counts_until_its_removal(
    tmp_path: Path, store: RuleStore, rules: FileRules
) -> None:
    (tmp_path / "a.yaml").write_text(slo(1))
    (tmp_path / "b.yaml").write_text(slo(2))
    rules.check()
    assert (identity(store), problems(store, tmp_path)) == (1, [("NodeSLO", "b.yaml")])
    (tmp_path / "a.yaml").unlink()
    rules.check()
    assert (identity(store), problems(store, tmp_path)) == (2, [])


def test_removing_the_second_file_removes_its_problem(tmp_path: Path, store: RuleStore, rules: FileRules) -> None:
    (tmp_path / "a.yaml").write_text(slo(1))
    (tmp_path / "b.yaml").write_text(slo(2))
    rules.check()
    (tmp_path / "b.yaml").unlink()
    rules.check()
    assert (identity(store), store.problems()) == (1, [])


def test_files_are_watched_while_the_source_runs(
    tmp_path: Path, store: RuleStore, rules: FileRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHECK_INTERVAL_S", 0.01)
    rules = FileRules(AgentSettings(rules=RuleSettings(path=tmp_path, node_name="n1")), store)
    (tmp_path / "a.yaml").write_text(slo(1))
    rules.start()
    assert identity(store) == 1
    (tmp_path / "a.yaml").write_text(slo(-1))
    deadline = time.monotonic() + 20
    while identity(store) != -1 and time.monotonic() < deadline:
        time.sleep(0.01)
    rules.stop()
    assert identity(store) == -1
