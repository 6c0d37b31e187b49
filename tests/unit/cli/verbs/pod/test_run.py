"""`nri pod run` on a dry engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from nri.cri.client import INSTALL
from tests.unit.cli.conftest import command, environment
from tests.unit.cli.verbs.pod.conftest import MANIFEST, Pod


def test_pods_of_several_documents_run_and_are_listed(pod: Pod, tmp_path: Path) -> None:
    two = MANIFEST + "---\nkind: ConfigMap\n---\n" + MANIFEST.replace("web", "db")
    finished = pod("run", "-f", "pod.yaml", text=two)
    assert finished.returncode == 0, finished.stderr
    assert [line.split()[0:4] for line in finished.stdout.splitlines()[1:]] == [
        [f"shop/{name}", "ready", container, "running"] for name in ("web", "db") for container in ("app", "side")
    ]
    assert "note: pod.yaml: kind ConfigMap: omitted, because it contains no pod" in finished.stderr
    assert len([*(tmp_path / "pods").glob("*/volumes/data")]) == 2


def test_no_pod_runs_if_the_file_has_a_mistake(pod: Pod) -> None:
    odd = MANIFEST + "  nodeSelector: {a: b}\n"
    strict = pod("run", "-f", "-", "--strict", text=odd)
    assert (strict.returncode, strict.stdout) == (1, "")
    assert "standard input:9: spec.nodeSelector is ignored: only a cluster's scheduler" in strict.stderr
    bad = pod("run", "-f", "pod.yaml", text=MANIFEST.replace("emptyDir", "configMap"))
    assert bad.returncode == 2
    assert "pod.yaml:5: volumes.data: configMap requires a cluster: use hostPath or emptyDir" in bad.stderr
    twice = pod("run", "-f", "pod.yaml", "-f", "-")
    assert twice.returncode == 1 and "two pods in the manifests have the same namespace and name" in twice.stderr
    assert pod("ps", "-aq").stdout == ""


def test_a_file_without_the_option_is_an_error_with_the_option(pod: Pod) -> None:
    for words in (["pod.yaml"], ["--replace", "pod.yaml"], ["-f", "pod.yaml", "pod.yaml"]):
        finished = pod("run", *words)
        assert (finished.returncode, finished.stdout) == (2, "")
        assert "pod.yaml: -f is required before a manifest: nri pod run -f pod.yaml" in finished.stderr


def test_an_existing_pod_is_replaced_on_request(pod: Pod) -> None:
    first = pod("run", "-f", "pod.yaml", "-q").stdout
    assert pod("run", "-f", "pod.yaml").returncode == 1
    second = pod("run", "-f", "pod.yaml", "-q", "--replace", "--runtime-handler", "runc").stdout
    assert len(first.split()) == 1 and first != second and pod("ps", "-aq").stdout == second
    assert json.loads(pod("ps", "-o", "json").stdout)[0]["runtimeHandler"] == "runc"


def test_without_a_runtime_the_exit_code_is_3(nri, tmp_path: Path) -> None:
    result = nri("pod", "ps", "--cri-socket", str(tmp_path / "none"))
    assert result.returncode == 3
    assert "no such file or directory. Specify the runtime's CRI socket with --cri-socket" in result.stderr


def test_without_the_extra_the_error_names_it(dry: Path, tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError('not here')\n")
    argv = command("pod", "ps", "--cri-socket", str(dry / "cri.sock"))
    variables = environment(PYTHONPATH=str(tmp_path))
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert result.returncode == 1
    assert result.stderr == (f"error: the CRI requires grpcio, which is not installed. Install the extra: {INSTALL}\n")


@pytest.mark.parametrize("option", [[], ["--replace"]])
def test_the_uid_of_another_pod_is_refused(pod: Pod, tmp_path: Path, option: list[str]) -> None:
    first = MANIFEST.replace("namespace: shop", "namespace: shop, uid: u1")
    assert pod("run", "-f", "pod.yaml", "-q", text=first, NRI_PODS_DIR=str(tmp_path / "elsewhere")).returncode == 0
    second = pod("run", "-f", "pod.yaml", "-q", *option, text=first.replace("name: web", "name: db"))
    assert second.returncode == 1
    assert "pod shop/db: pod shop/web already has the uid u1; remove it, or leave metadata.uid out" in second.stderr
    assert (tmp_path / "elsewhere/u1/volumes/data").is_dir() and not (tmp_path / "pods").exists()
