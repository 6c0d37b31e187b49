"""The webhook resource-annotator with failurePolicy Fail: annotated pods, refused pods, and its own restarts."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.machine import Cluster, ClusterError
from tests.cluster.placement import SPACE
from tests.cluster.pods import NODES, POD_TIMEOUT_S, apply, pod, running
from tests.support.needs import need_tool
from tests.support.waiting import wait_for

NAME = "nri-resource-annotator"
WEBHOOK = f"{NAME}.noderesource.dev"
ROLE = "node-role.kubernetes.io/control-plane"
ANNOTATION = "noderesource.dev/resources"
LIMITS = {"cpu": "200m", "memory": "64Mi"}


@pytest.fixture(scope="module")
def annotator(cluster: Cluster, images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The webhook, with a certificate made as the manual says, on nodes with the label of a control plane."""
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = _certificate(folder)
    cluster.kubectl("label", "node", "--all", f"{ROLE}=")
    try:
        words = ("--set", f"service.base64Crt={certificate},service.base64Key={key}")
        cluster.helm("install", *SPACE, "resource-annotator", "deploy/helm/resource-annotator", *words)
        wait_rolled_out(cluster)
        yield
    finally:
        cluster.helm("uninstall", *SPACE, "resource-annotator", "--ignore-not-found", "--wait")
        cluster.kubectl("label", "node", "--all", f"{ROLE}-")


def _certificate(folder: Path) -> tuple[str, str]:
    """A certificate and its key, as base64."""
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "365", "-keyout", "tls.key", "-out", "tls.crt"]
    words += ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}.kube-system.svc"]
    subprocess.run([need_tool("openssl"), *words], cwd=folder, check=True, capture_output=True, timeout=60)
    certificate, key = (base64.b64encode((folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key"))
    return certificate, key


def wait_rolled_out(cluster: Cluster) -> None:
    """Wait until all replicas are available, and have addresses that the API server calls."""
    cluster.kubectl("rollout", "status", *SPACE, f"deployment/{NAME}", f"--timeout={POD_TIMEOUT_S:g}s")


def refusal(cluster: Cluster) -> str:
    """The error of the creation of a pod, which is not created; empty if it would be."""
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod("refused", NODES[0])))
    except ClusterError as error:
        return str(error)
    return ""


def test_pods_have_their_exact_resources_in_an_annotation(cluster: Cluster, annotator: None) -> None:
    wait_for(lambda: not refusal(cluster), lambda: refusal(cluster), POD_TIMEOUT_S)
    with running(cluster, *(pod(f"annotated-{node}", node, limits=LIMITS) for node in NODES)):
        for node in NODES:
            annotations = cluster.get("pod", f"annotated-{node}")["metadata"]["annotations"]
            document = json.loads(annotations[ANNOTATION])
            assert "200m" in json.dumps(document) and "64Mi" in json.dumps(document), document


def test_each_creation_of_a_pod_succeeds_during_a_rollout_of_the_webhook(cluster: Cluster, annotator: None) -> None:
    wait_for(lambda: not refusal(cluster), lambda: refusal(cluster), POD_TIMEOUT_S)
    refusals = []
    cluster.kubectl("rollout", "restart", *SPACE, f"deployment/{NAME}")

    def is_rolled_out() -> bool:
        if text := refusal(cluster):
            refusals.append(text)
        document = cluster.get(*SPACE, f"deployment/{NAME}")
        status = document["status"]
        return bool(
            status["observedGeneration"] == document["metadata"]["generation"]
            and status.get("updatedReplicas") == status.get("availableReplicas") == status.get("replicas") == 2
        )

    wait_for(is_rolled_out, "the webhook's rollout", POD_TIMEOUT_S)
    assert not refusals, refusals


def test_without_the_webhook_pods_are_refused_except_in_kube_system(cluster: Cluster, annotator: None) -> None:
    cluster.kubectl("scale", *SPACE, f"deployment/{NAME}", "--replicas=0")
    try:
        wait_for(lambda: refusal(cluster), "a refusal", POD_TIMEOUT_S)
        assert WEBHOOK in refusal(cluster)
        exempt = pod("exempt", NODES[0])
        exempt["metadata"]["namespace"] = "kube-system"
        apply(cluster, exempt)
        cluster.kubectl("delete", "pod", *SPACE, "exempt")
    finally:
        cluster.kubectl("scale", *SPACE, f"deployment/{NAME}", "--replicas=2")
    wait_rolled_out(cluster)
    wait_for(lambda: not refusal(cluster), lambda: refusal(cluster), POD_TIMEOUT_S)
