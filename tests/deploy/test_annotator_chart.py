"""Chart and manifests of resource-annotator: with a certificate or an issuer; bad values are named."""

from __future__ import annotations

import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.rendered import DEPLOY, built, kustomized, render_chart, rendered_chart

pytestmark = pytest.mark.timeout(900)
GIVEN = ("service.base64Crt=QQ==", "service.base64Key=QUI=")


def objects(*settings: str) -> dict[str, dict]:
    return {
        manifest["kind"]: manifest
        for manifest in yaml.safe_load_all(rendered_chart("resource-annotator", *settings))
        if manifest
    }


def test_a_given_certificate_becomes_the_webhooks_ca_bundle() -> None:
    manifests = objects(*GIVEN)
    kinds = {"Secret", "MutatingWebhookConfiguration", "Service", "Deployment", "NetworkPolicy", "PodDisruptionBudget"}
    assert set(manifests) == kinds
    (hook,) = manifests["MutatingWebhookConfiguration"]["webhooks"]
    assert hook["clientConfig"]["caBundle"] == "QQ==" and hook["failurePolicy"] == "Fail"
    spec = manifests["Deployment"]["spec"]["template"]["spec"]
    assert spec["containers"][0]["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
    assert spec["securityContext"]["fsGroup"] == spec["containers"][0]["securityContext"]["runAsGroup"]
    assert spec["volumes"][0]["secret"]["defaultMode"] == 0o440, "the key is for its group alone"


def test_a_disruption_budget_exists_only_with_several_replicas() -> None:
    labels = {"app.kubernetes.io/name": "nri-resource-annotator"}
    rendered = objects(*GIVEN)
    assert rendered["Deployment"]["spec"]["replicas"] == 2
    assert rendered["PodDisruptionBudget"]["spec"] == {"minAvailable": 1, "selector": {"matchLabels": labels}}
    assert "PodDisruptionBudget" not in objects(*GIVEN, "replicas=1")


def test_the_network_policy_admits_named_clients_and_no_egress() -> None:
    (port,) = objects(*GIVEN)["NetworkPolicy"]["spec"]["ingress"]
    assert port == {"ports": [{"port": 8443}]}
    policy = objects(*GIVEN, 'networkPolicy={"from": [{"ipBlock": {"cidr": "10.0.0.10/32"}}]}')["NetworkPolicy"]["spec"]
    assert policy["ingress"] == [{"ports": [{"port": 8443}], "from": [{"ipBlock": {"cidr": "10.0.0.10/32"}}]}]
    assert policy["policyTypes"] == ["Ingress", "Egress"] and "egress" not in policy


@pytest.mark.parametrize(
    ("setting", "kept_out"),
    [("excludedNamespaces={other}", ["other", "kube-system"]), ("excludedNamespaces=null", ["kube-system"])],
)
def test_the_webhook_selects_by_namespace_and_not_by_label(setting: str, kept_out: list[str]) -> None:
    (hook,) = objects(*GIVEN, setting)["MutatingWebhookConfiguration"]["webhooks"]
    assert "objectSelector" not in hook, "who labels a pod so could write the annotation by hand"
    assert hook["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": kept_out}
    ]


def test_with_an_issuer_cert_manager_provides_certificate_and_ca_bundle() -> None:
    manifests = objects("service.certificateIssuer=mine")
    assert "Secret" not in manifests and manifests["Certificate"]["spec"]["issuerRef"]["name"] == "mine"
    assert "caBundle" not in manifests["MutatingWebhookConfiguration"]["webhooks"][0]["clientConfig"]


def with_certificate(folder: Path, crt: str, key: str) -> str:
    """The output of kustomize with a given certificate."""
    shutil.copytree(DEPLOY / "kustomize", folder / "kustomize")
    certificate_folder = folder / "kustomize/resource-annotator/given"
    for name, text in (("tls.crt", crt), ("tls.key", key)):
        (certificate_folder / name).write_text(text)
    return built(certificate_folder)


def plain(manifest: dict[str, Any]) -> dict[str, Any]:
    """An object of the chart as it is without a release, its values read."""
    labels = manifest["metadata"].get("labels", {})
    for name in ("app.kubernetes.io/instance", "app.kubernetes.io/version"):
        labels.pop(name, None)
    for name, text in manifest.get("data", {}).items():
        manifest["data"][name] = b64decode(text)
    for hook in manifest.get("webhooks", ()):
        trusted = hook["clientConfig"].pop("caBundle", None)
        hook["trusts"] = trusted and b64decode(trusted)
    return manifest


@pytest.mark.parametrize("issued", [False, True], ids=["given", "issued"])
def test_kustomize_and_the_chart_print_the_same_objects(tmp_path: Path, issued: bool) -> None:
    if issued:
        text, settings = kustomized("resource-annotator/issued"), ["service.certificateIssuer=nri-resource-annotator"]
    else:
        text, settings = with_certificate(tmp_path, "A" * 999, "AB"), ["service.base64Crt=" + "QUFB" * 333, GIVEN[1]]
    manifests = {manifest["kind"]: plain(manifest) for manifest in yaml.safe_load_all(text)}
    assert manifests == {kind: plain(manifest) for kind, manifest in objects(*settings).items()}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("failurePolicy=Fail", "give service.base64Crt and service.base64Key, or service.certificateIssuer"),
        ("failurePolicy=Maybe", "at '/failurePolicy'"),
        ("service.crt=x", "at '/service': additional properties 'crt' not allowed"),
        ("replicas=0", "at '/replicas'"),
    ],
)
def test_an_invalid_value_is_an_error_with_its_name(setting: str, message: str) -> None:
    process = render_chart("resource-annotator", setting)
    assert process.returncode == 1 and message in process.stderr
