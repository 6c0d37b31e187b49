"""`nri resource-annotator` as the webhook of a real API server, with the configuration of chart and manifests."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri.kube.requests import ANNOTATION, Requests, annotated
from tests.apiserver.conftest import Helm
from tests.deploy.test_annotator_chart import with_certificate
from tests.kubernetes.control_plane import ControlPlane
from tests.unit.cli.conftest import command, environment
from tests.unit.plugins.resource_annotator.test_webhook import certify

CHART = Path(__file__).parents[2] / "deploy/helm/resource-annotator"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "annotated", "namespace": "default"},
    "spec": {
        "containers": [
            {
                "name": "app",
                "image": "x",
                "resources": {"requests": {"cpu": "0.2", "memory": "64Mi"}, "limits": {"cpu": "1000m"}},
            }
        ],
        "initContainers": [{"name": "init", "image": "x"}],
    },
}


def of_chart(helm: Helm, folder: Path) -> str:
    """What the chart makes with the certificate of a folder."""
    files = {"Crt": "tls.crt", "Key": "tls.key"}
    values = [f"service.base64{key}={b64encode((folder / name).read_bytes()).decode()}" for key, name in files.items()]
    text = helm("template", "mine", CHART, "-n", "mine", "--set", ",".join(values))
    return text[text.index("---\n") :]


@pytest.fixture(params=["chart", "kustomize"])
def webhook(
    api: ControlPlane, helm: Helm, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[], None]]:
    """The webhook of chart or manifests, answered by a program here; what is yielded ends the program."""
    certify(tmp_path)
    if request.param == "chart":
        text = of_chart(helm, tmp_path)
    else:
        text = with_certificate(tmp_path, *((tmp_path / name).read_text() for name in ("tls.crt", "tls.key")))
    objects = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    (hook,) = [manifest for manifest in objects if manifest["kind"] == "MutatingWebhookConfiguration"]
    words = command("resource-annotator", "--port", "0", "--cert-file", str(tmp_path / "tls.crt"))
    with subprocess.Popen(
        [*words, "--key-file", str(tmp_path / "tls.key")], env=environment(), stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        line = program.stderr.readline()
        assert "ready: port " in line, line
        where = hook["webhooks"][0]["clientConfig"]
        del where["service"]  # there is no node here, and no network of services
        where["url"] = f"https://localhost:{line.split()[-1]}/"
        api.apply(hook)
        try:
            yield program.kill
        finally:
            program.kill()
            api.kubectl("delete", "mutatingwebhookconfiguration", hook["metadata"]["name"])


def apply_pod(api: ControlPlane, pod: dict[str, Any]) -> dict[str, str]:
    """Apply a pod and return its annotations."""
    api.apply(pod)
    actual: dict[str, str] = api.get("pod", pod["metadata"]["name"])["metadata"].get("annotations", {})
    return actual


def test_a_pod_is_annotated_with_its_requests_and_is_refused_without_the_webhook(
    api: ControlPlane, webhook: Callable[[], None]
) -> None:
    try:
        annotations = apply_pod(api, POD)
        assert annotated(annotations, "app") == Requests(200, 1000, 64 << 20, 0)
        assert json.loads(annotations[ANNOTATION])["initContainers"] == {"init": {}}
        api.kubectl("annotate", "pod", "annotated", f"{ANNOTATION}=mine", "--overwrite")
        remaining = api.get("pod", "annotated")["metadata"]["annotations"]
        assert remaining[ANNOTATION] == annotations[ANNOTATION], "nobody can say something else"
        webhook()
        other = {**POD, "metadata": {"name": "other", "namespace": "default"}}
        with pytest.raises(AssertionError, match="nri-resource-annotator"):
            apply_pod(api, other)
    finally:
        api.kubectl("delete", "pod", "annotated", "--grace-period=0", "--force", check=False)


def test_a_pod_is_created_without_the_annotation_if_its_annotations_would_be_too_long(
    api: ControlPlane, webhook: Callable[[], None]
) -> None:
    room = (256 << 10) - len("note")
    metadata = {"name": "full", "namespace": "default", "annotations": {"note": "x" * room}}
    try:
        api.kubectl("create", "-f", "-", stdin=json.dumps({**POD, "metadata": metadata}))
        assert list(api.get("pod", "full")["metadata"]["annotations"]) == ["note"]
    finally:
        api.kubectl("delete", "pod", "full", "--grace-period=0", "--force", check=False)


def test_pods_of_excluded_namespaces_are_not_annotated(api: ControlPlane, webhook: Callable[[], None]) -> None:
    metadata = {"name": "kept-out", "namespace": "kube-system"}
    try:
        api.kubectl("create", "-f", "-", stdin=json.dumps({**POD, "metadata": metadata}))
        assert ANNOTATION not in api.get("pod", "kept-out", "-n", "kube-system")["metadata"].get("annotations", {})
    finally:
        api.kubectl("delete", "pod", "kept-out", "-n", "kube-system", "--grace-period=0", "--force", check=False)
