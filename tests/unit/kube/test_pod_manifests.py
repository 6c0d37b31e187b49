"""Pods in manifests: objects with templates, and errors of Kubernetes about keys."""

from __future__ import annotations

import json

import pytest

from nri.config import Source
from nri.errors import ConfigError
from nri.kube.pod_manifests import PodManifest, read_pod_manifests

POD = {"metadata": {"name": "own", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "app", "image": "i"}]}}
NAMES = {"name": "web", "namespace": "shop"}


def read(*objects: object) -> tuple[list[PodManifest], list[str]]:
    pods, left_out = read_pod_manifests(Source("f.json", "\n".join(map(json.dumps, objects))))
    return [pod for pod, _ in pods], left_out


def read_yaml(text: str) -> list[PodManifest]:
    return [pod for pod, _ in read_pod_manifests(Source("f.yaml", text))[0]]


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("Deployment", "apps/v1"),
        ("Deployment", "extensions/v1beta1"),
        ("DaemonSet", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("ReplicaSet", "apps/v1"),
        ("Job", "batch/v1"),
        ("ReplicationController", "v1"),
        ("Rollout", "argoproj.io/v1alpha1"),
    ],
)
def test_a_template_becomes_a_pod_with_the_names_of_its_owner(kind: str, version: str) -> None:
    ((pod,), _) = read({"apiVersion": version, "kind": kind, "metadata": NAMES, "spec": {"template": POD}})
    assert pod.pod == {"metadata": {"labels": {"a": "b"}, **NAMES}, "spec": POD["spec"]}
    assert pod.key_notes == []


def test_templates_of_cron_jobs_and_pod_templates_are_found() -> None:
    cron = {"kind": "CronJob", "metadata": NAMES, "spec": {"jobTemplate": {"spec": {"template": POD}}}}
    plain = {"kind": "PodTemplate", "metadata": NAMES, "template": POD}
    for pod in read(cron, plain)[0]:
        assert pod.pod["metadata"] == {"labels": {"a": "b"}, **NAMES}


def test_lists_and_several_documents_of_yaml_and_json_are_read_in_order() -> None:
    items = [{"metadata": {"name": name}, "spec": POD["spec"]} for name in ("a", "b")]
    listed = {"kind": "List", "items": [{"kind": "Pod", **POD}, {"kind": "PodList", "items": items}]}
    pods, left_out = read({"kind": "ConfigMap"}, listed, {"kind": "Pod", **POD})
    assert [pod.pod["metadata"]["name"] for pod in pods] == ["own", "a", "b", "own"]
    assert left_out == ["f.json: kind ConfigMap: omitted, because it contains no pod"]
    text = f"---\n{json.dumps({'kind': 'Pod', **POD})}\n--- # next\nkind: Pod\nspec: {{containers: [{{name: a}}]}}\n"
    assert [pod.pod.get("metadata") for pod in read_yaml(text)] == [POD["metadata"], None]


def test_a_pod_of_a_stateful_set_has_the_volumes_of_its_claims() -> None:
    spec = {"template": POD, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    ((pod,), _) = read({"kind": "StatefulSet", "metadata": NAMES, "spec": spec})
    claim = {"persistentVolumeClaim": {"claimName": "data-web-0"}, "name": "data"}
    assert pod.pod["spec"]["volumes"] == [claim]


def test_a_custom_resource_without_containers_in_its_template_contains_no_pod() -> None:
    pool = {"kind": "NodePool", "spec": {"template": {"spec": {"taints": []}}}}
    volcano = {"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1", "spec": {"tasks": []}}
    _, left_out = read(pool, volcano, {"kind": "CronJob"}, {"kind": "Pod", **POD})
    assert [line.split()[2] for line in left_out] == ["NodePool:", "Job:", "CronJob:"]


def test_a_version_that_is_not_a_string_is_an_error() -> None:
    with pytest.raises(ConfigError, match="apiVersion: expected a string"):
        read({"kind": "Job", "apiVersion": {"a": None}, "spec": {"template": POD}})


def test_unknown_keys_are_reported_with_line_and_suggestion() -> None:
    (pod,) = read_yaml(
        "kind: Deployment\n"
        "spec:\n"
        "  replica: 1\n"
        "  template:\n"
        "    spec:\n"
        "      containers:\n"
        "      - name: app\n"
        "        comand: [x]\n"
        "        livenessProbe: {httpGet: {port: http, zzz: 1}}\n"
        "      nodeSelector: {any: key}\n"
        "status: {odd: 1}\n"
    )
    assert pod.key_notes == [
        "f.yaml:3: spec.replica is ignored: did you mean replicas?",
        "f.yaml:8: spec.template.spec.containers[0].comand is ignored: did you mean command?",
        "f.yaml:9: spec.template.spec.containers[0].livenessProbe.httpGet.zzz is ignored: unknown key",
    ]


def test_many_unknown_keys_are_counted() -> None:
    keys = {f"odd{number}": number for number in range(150)}
    ((pod,), _) = read({"kind": "Pod", **POD, **keys})
    assert len(pod.key_notes) == 101 and pod.key_notes[-1] == "f.json: 50 more unknown keys"


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (
            "containers: [{name: app, env: [{name: A, value: 1}]}]",
            "env[0].value: expected a string, not 1 (put the value in",
        ),
        (
            "containers: [{name: app, env: [{name: A, value: on}]}]",
            "env[0].value: expected a string, not true (put the",
        ),
        (
            "containers: [{name: app, ports: [{containerPort: '80'}]}]",
            'containerPort: expected a whole number, not "80"',
        ),
        ("hostNetwork: 'true'", 'spec.hostNetwork: expected true or false, not "true"'),
        ("priority: 3000000000", "spec.priority: expected a whole number, not 3000000000"),
        ("tolerations: {}", "spec.tolerations: expected a list"),
        ("volumes: [{emptyDir: {sizeLimit: big}}]", 'sizeLimit: expected a quantity such as 500m or 1Gi, not "big"'),
        (
            "containers: [{name: app, livenessProbe: {httpGet: {port: [1]}}}]",
            "port: expected a whole number or a string",
        ),
    ],
)
def test_values_that_the_api_server_refuses_are_errors(key: str, error: str) -> None:
    base = "" if key.startswith("containers") else "containers: [{name: app}], "
    with pytest.raises(ConfigError) as caught:
        read_yaml(f"kind: Pod\nspec: {{{base}{key}}}\n")
    assert error in str(caught.value) and str(caught.value).startswith("f.yaml:2: spec.")


def test_yaml_is_read_like_by_kubernetes() -> None:
    (pod,) = read_yaml(
        "kind: Pod\nspec:\n  hostNetwork: yes\n  containers: [{name: app, stdin: off}]\n"
        "  terminationGracePeriodSeconds: 1_000\n"
        "  volumes: [{name: v, configMap: {name: c, defaultMode: 0644}}]\n  dnsPolicy: None\n  dnsPolicy: Default\n"
    )
    spec = pod.pod["spec"]
    assert (spec["hostNetwork"], spec["containers"][0]["stdin"]) == (True, False)
    assert (spec["terminationGracePeriodSeconds"], spec["volumes"][0]["configMap"]["defaultMode"]) == (1000, 0o644)
    assert spec["dnsPolicy"] == "Default"
    assert pod.key_notes == ["f.yaml:8: spec.dnsPolicy: duplicate key: the last value is used"]


@pytest.mark.parametrize("text", ["metadata: {name: a}\n", "- 1\n"])
def test_an_object_without_a_kind_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="expected an object with a kind"):
        read_yaml(text)
