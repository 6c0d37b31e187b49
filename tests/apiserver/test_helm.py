"""The plugins' chart with the real helm and a real API server: installed, changed, removed; bad values are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.apiserver.conftest import Helm
from tests.deploy.rendered import DEPLOY, PLUGINS, charted
from tests.kubernetes.control_plane import ControlPlane

SYSTEM = ("-n", "kube-system")
CHART = DEPLOY / "helm/nri-plugin"


@pytest.mark.parametrize("name", PLUGINS)
def test_helm_and_the_tests_renderer_print_the_same_manifests(helm: Helm, name: str) -> None:
    text = helm("template", *SYSTEM, "mine", CHART, "-f", CHART / f"values/{name}.yaml")
    objects = [object_ for object_ in yaml.safe_load_all(charted(name)) if object_]
    assert sorted(map(repr, manifests(text))) == sorted(map(repr, objects))


def manifests(text: str) -> list[object]:
    """The objects that helm printed after its log lines."""
    return [object_ for object_ in yaml.safe_load_all(text[text.index("---\n") :]) if object_]


@pytest.mark.parametrize("name", PLUGINS)
def test_helm_lint_accepts_the_chart(helm: Helm, name: str) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", CHART, "--set", f"plugin={name}")


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_is_installed_and_removed(helm: Helm, api: ControlPlane, name: str) -> None:
    output = helm("install", *SYSTEM, "mine", CHART, "--set", f"plugin={name}")
    try:
        assert "STATUS: deployed" in output
        assert f"rollout status daemonset/nri-plugin-{name}" in output
        labels = api.get(*SYSTEM, "daemonset", f"nri-plugin-{name}")["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
    finally:
        helm("uninstall", *SYSTEM, "mine")
    assert api.kubectl("get", *SYSTEM, "daemonset", f"nri-plugin-{name}", check=False).returncode == 1


def test_an_upgrade_and_a_rollback_change_index_and_configuration(helm: Helm, api: ControlPlane) -> None:
    def state() -> tuple[list[str], str | None]:
        pod = api.get(*SYSTEM, "daemonset", "nri-plugin-template")["spec"]["template"]["spec"]
        process = api.kubectl("get", *SYSTEM, "configmap", "nri-plugin-template", "-o", "yaml", check=False)
        config = yaml.safe_load(process.stdout)["data"]["config.yaml"] if process.returncode == 0 else None
        return pod["containers"][0]["args"][:2], config

    template = ("mine", CHART, "--set", "plugin=template")
    helm("install", *SYSTEM, *template)
    try:
        assert state() == (["-idx", "10"], None)
        helm("upgrade", *SYSTEM, *template, "--set", "nri.plugin.index=35,config.cfgParam1=word")
        assert state() == (["-idx", "35"], "cfgParam1: word\n")
        helm("rollback", *SYSTEM, "mine", "1")
        assert state() == (["-idx", "10"], None)
    finally:
        helm("uninstall", *SYSTEM, "mine")


@pytest.mark.parametrize(
    ("setting", "message"), [("plugin=logger,indx=10", r"'indx' not allowed"), ("plugin=loger", r"at '/plugin'")]
)
def test_a_bad_value_is_an_error_with_its_name_and_creates_no_object(
    helm: Helm, api: ControlPlane, setting: str, message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        helm("install", *SYSTEM, "mine", CHART, "--set", setting)
    assert api.get(*SYSTEM, "daemonset", "-l", "app.kubernetes.io/component=nri-plugin")["items"] == []


def test_a_packed_chart_is_complete(helm: Helm, tmp_path: Path) -> None:
    helm("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("nri-plugin-*.tgz")
    texts = [helm("template", *SYSTEM, "mine", chart, "--set", "plugin=hook-injector") for chart in (package, CHART)]
    assert manifests(texts[0]) == manifests(texts[1])
