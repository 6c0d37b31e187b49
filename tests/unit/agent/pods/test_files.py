"""Pods from files."""

import time
from pathlib import Path

import pytest

from nri.agent.pods import files
from nri.agent.pods.files import FilePods
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import PodSettings, RuleSettings

POD = "kind: Pod\nmetadata: {{name: {name}, uid: u-{name}}}\nspec: {{nodeName: {node}}}\nstatus: {{phase: Running}}\n"


def names(source: FilePods) -> list[str]:
    return [pod["metadata"]["name"] for pod in source.pods()]


@pytest.fixture
def source(tmp_path: Path) -> FilePods:
    return FilePods(AgentSettings(rules=RuleSettings(node_name="n1"), pods=PodSettings(path=tmp_path)))


def test_only_pods_of_this_node_are_known(tmp_path: Path, source: FilePods) -> None:
    parts = [POD.format(name="a", node="n1"), POD.format(name="b", node="n2"), POD.format(name="c", node='""')]
    odd = ["kind: Pod\nmetadata: 1\n", "kind: Node\nmetadata: {name: x}\n", "kind: Pod\nmetadata: {}\nspec: 1\n"]
    (tmp_path / "a.yaml").write_text("---\n".join([*parts, *odd]))
    assert not source.synced
    source.check()
    assert (names(source), source.synced, source.problem) == (["a", "c"], True, "")


def test_a_pod_without_a_uid_is_left_out_and_reported_once_with_file_and_fix(
    tmp_path: Path, source: FilePods, caplog: pytest.LogCaptureFixture
) -> None:
    complete, file = POD.format(name="a", node="n1"), tmp_path / "a.yaml"
    odd = ["kind: Pod\nmetadata: {name: b, namespace: ns}\n", "kind: Pod\nmetadata: {name: c, uid: 5}\n"]
    elsewhere = "kind: Pod\nmetadata: {name: d}\nspec: {nodeName: n2}\n"
    file.write_text("---\n".join([complete, *odd, elsewhere]))
    source.check()
    assert names(source) == ["a"]
    advice = "has no uid and is ignored. Add the metadata.uid that its cgroups have; kubectl get pod -o "
    assert caplog.messages == [f"{file}:{line} {advice}yaml prints it" for line in ("7: pod ns/b", "10: pod c")]
    file.write_text("---\n".join([complete, *odd, elsewhere, complete]))
    source.check()
    assert len(caplog.messages) == 2
    file.write_text("---\n".join(odd[:1] * 30))
    source.check()
    assert caplog.messages[-1] == "10 more pods without a uid are ignored"


def test_subscribers_are_notified_only_of_changes(tmp_path: Path, source: FilePods) -> None:
    calls: list[list[str]] = []
    source.subscribe(lambda: calls.append(names(source)))
    source.check()
    source.check()
    (tmp_path / "a.yaml").write_text(POD.format(name="a", node="n1"))
    source.check()
    assert calls == [[], ["a"]]


def test_an_invalid_file_is_a_problem_and_its_pods_are_kept(tmp_path: Path, source: FilePods) -> None:
    (tmp_path / "a.yaml").write_text(POD.format(name="a", node="n1"))
    source.check()
    (tmp_path / "a.yaml").write_text("a: [")
    source.check()
    assert names(source) == ["a"]
    assert "a.yaml:2" in source.problem
    (tmp_path / "a.yaml").write_text(POD.format(name="b", node="n1"))
    source.check()
    assert (names(source), source.problem) == (["b"], "")


def test_files_are_watched_while_the_source_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHECK_INTERVAL_S", 0.01)
    source = FilePods(AgentSettings(rules=RuleSettings(node_name="n1"), pods=PodSettings(path=tmp_path)))
    source.start()
    (tmp_path / "a.yaml").write_text(POD.format(name="a", node="n1"))
    deadline = time.monotonic() + 20
    while not names(source) and time.monotonic() < deadline:
        time.sleep(0.01)
    source.stop()
    assert names(source) == ["a"]
