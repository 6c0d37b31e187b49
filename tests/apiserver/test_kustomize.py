"""The kustomizations under deploy/ are applied to a real API server, changed and removed."""

from __future__ import annotations

import pytest
import yaml

from tests.deploy.rendered import NEEDS, PLUGINS, Json, kustomized, objects
from tests.kubernetes.control_plane import ControlPlane

SYSTEM = ("-n", "kube-system")


def apply(api: ControlPlane, text: str) -> str:
    """Apply with strict validation: the server then names every field that it does not know."""
    completed = api.kubectl("apply", "--validate=strict", "-f", "-", stdin=text)
    assert "Warning" not in completed.stderr, completed.stderr
    return completed.stdout


def contains(actual: object, expected: object, place: str = "") -> None:
    """Assert that an object of the API has all that was asked for; it has defaults besides."""
    if isinstance(expected, dict):
        assert isinstance(actual, dict), place
        for key, value in expected.items():
            if value in ([], False) and key not in actual:  # what is empty is left out
                continue
            assert key in actual, f"{place}.{key} is gone"
            contains(actual[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert isinstance(actual, list) and len(actual) == len(expected), place
        for number, value in enumerate(expected):
            contains(actual[number], value, f"{place}[{number}]")
    elif expected is not False:  # what is false is left out by some types, as by hostPath's readOnly
        assert actual == expected, place


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugins_daemon_set_is_created_changed_and_removed(api: ControlPlane, name: str) -> None:
    text = kustomized(name)
    assert apply(api, text) == f"daemonset.apps/nri-plugin-{name} created\n"
    try:
        actual = api.get(*SYSTEM, "daemonset", f"nri-plugin-{name}")
        contains(actual, objects(text)["DaemonSet"])
        assert apply(api, text) == f"daemonset.apps/nri-plugin-{name} unchanged\n"
        # Selectors cannot be changed: an overlay that changed one could not be applied over another.
        assert apply(api, kustomized(f"{name}/unstable")) == f"daemonset.apps/nri-plugin-{name} configured\n"
    finally:
        api.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


@pytest.mark.parametrize("name", [name for name in PLUGINS if NEEDS[name].config])
def test_a_plugins_configuration_becomes_a_config_map(api: ControlPlane, name: str) -> None:
    text = kustomized(f"{name}/configured")
    apply(api, text)
    try:
        named = objects(text)["ConfigMap"]["metadata"]["name"]
        data = api.get(*SYSTEM, "configmap", named)["data"]
        assert yaml.safe_load(data["config.yaml"]) == NEEDS[name].config
    finally:
        api.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


def test_all_plugins_can_be_installed_together(api: ControlPlane) -> None:
    text = "---\n".join(kustomized(name) for name in PLUGINS)
    apply(api, text)
    try:
        actual = api.get(*SYSTEM, "daemonset", "-l", "app.kubernetes.io/component=nri-plugin")["items"]
        assert sorted(row["metadata"]["name"] for row in actual) == [f"nri-plugin-{name}" for name in PLUGINS]
    finally:
        api.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("readOnlyRootFilesystem:", "readonlyRootFilesystem:", "unknown field"),
        ("path: /var/run/nri", "path: ../nri", "must not contain '..'"),
        ("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: false\n          procMount: Odd", "procMount"),
    ],
)
def test_strict_validation_of_the_server_reports_mistakes(api: ControlPlane, good: str, bad: str, message: str) -> None:
    text = kustomized("device-injector")
    assert good in text
    words = ("apply", "--validate=strict", "--dry-run=server", "-f", "-")
    completed = api.kubectl(*words, stdin=text.replace(good, bad, 1), check=False)
    assert completed.returncode == 1
    assert message in completed.stderr


def pod(name: str) -> Json:
    """The pod that the controller of a plugin's DaemonSet would make."""
    template = objects(kustomized(name))["DaemonSet"]["spec"]["template"]
    metadata = template["metadata"] | {"name": f"try-{name}", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugins_pod_is_admitted_with_its_priority(api: ControlPlane, name: str) -> None:
    completed = api.kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=yaml.safe_dump(pod(name)))
    document = yaml.safe_load(completed.stdout)
    assert document["spec"]["priority"] == 2_000_001_000, "system-node-critical"
    contains(
        document["spec"]["containers"][0]["securityContext"], pod(name)["spec"]["containers"][0]["securityContext"]
    )
