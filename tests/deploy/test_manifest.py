"""The scaffold's DaemonSet against the schemas of a released Kubernetes, strictly: a misspelt field is an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy import kubernetes

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def check() -> object:
    program, folder = kubernetes.kubeconform(), kubernetes.schemas()

    def conform(manifest: Path) -> subprocess.CompletedProcess[str]:
        place = f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        words = [str(program), "-strict", "-summary", "-schema-location", place, str(manifest)]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    return conform


def test_the_daemon_set_conforms_to_kubernetes_schema(check, project: Path) -> None:
    process = check(project / "deploy/daemonset.yaml")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "Valid: 1, Invalid: 0, Errors: 0, Skipped: 0" in process.stdout


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("readOnlyRootFilesystem:", "readonlyRootFilesystem:"),
        ("runAsUser: 0", 'runAsUser: "root"'),
        ("      tolerations:", "      toleration:"),
        ("  selector:", "  selectors:"),
    ],
)
def test_the_schema_check_reports_mistakes(check, project: Path, tmp_path: Path, good: str, bad: str) -> None:
    text = (project / "deploy/daemonset.yaml").read_text()
    assert good in text
    broken = tmp_path / "daemonset.yaml"
    broken.write_text(text.replace(good, bad, 1))
    assert check(broken).returncode == 1, "the schemas are not strict"
