"""The charts with the real helm and a real API server: installed, changed, and gone; bad values are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.apiserver.conftest import Helm
from tests.deploy.rendered import DEPLOY, PLUGINS, charted
from tests.kubernetes.control_plane import ControlPlane

SYSTEM = ("-n", "kube-system")


@pytest.mark.parametrize("name", PLUGINS)
def test_helm_makes_what_the_renderer_of_the_other_tests_makes(helm: Helm, name: str) -> None:
    text = helm("template", *SYSTEM, "mine", DEPLOY / "helm" / name)
    document = [row for row in yaml.safe_load_all(charted(name)) if row]
    assert sorted(map(repr, manifests(text))) == sorted(map(repr, document))


def manifests(text: str) -> list[object]:
    """The objects that helm printed, after what it logs."""
    return [document for document in yaml.safe_load_all(text[text.index("---\n") :]) if document]


def test_helm_finds_nothing_wrong_in_any_chart(helm: Helm) -> None:
    output = helm("lint", "--strict", *(DEPLOY / "helm" / name for name in PLUGINS))
    assert f"{len(PLUGINS)} chart(s) linted, 0 chart(s) failed" in output


@pytest.mark.parametrize("name", PLUGINS)
def test_a_chart_is_installed_and_gone_again(helm: Helm, api: ControlPlane, name: str) -> None:
    chart = DEPLOY / "helm" / name
    output = helm("install", *SYSTEM, "mine", chart)
    try:
        assert "STATUS: deployed" in output
        assert f"rollout status daemonset/nri-plugin-{name}" in output
        labels = api.get(*SYSTEM, "daemonset", f"nri-plugin-{name}")["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
    finally:
        helm("uninstall", *SYSTEM, "mine")
    assert api.kubectl("get", *SYSTEM, "daemonset", f"nri-plugin-{name}", check=False).returncode == 1


def test_an_upgrade_changes_index_and_configuration_and_can_be_taken_back(helm: Helm, api: ControlPlane) -> None:
    chart = DEPLOY / "helm/template"

    def seen() -> tuple[list[str], str | None]:
        actual = api.get(*SYSTEM, "daemonset", "nri-plugin-template")["spec"]["template"]["spec"]["containers"][0]
        completed = api.kubectl("get", *SYSTEM, "configmap", "nri-plugin-template", "-o", "yaml", check=False)
        text = yaml.safe_load(completed.stdout)["data"]["config.yaml"] if completed.returncode == 0 else None
        return actual["args"][:2], text

    helm("install", *SYSTEM, "mine", chart)
    try:
        assert seen() == (["-idx", "10"], None)
        helm("upgrade", *SYSTEM, "mine", chart, "--set", "idx=35,config.cfgParam1=word")
        assert seen() == (["-idx", "35"], "cfgParam1: word\n")
        helm("rollback", *SYSTEM, "mine", "1")
        assert seen() == (["-idx", "10"], None)
    finally:
        helm("uninstall", *SYSTEM, "mine")


def test_a_bad_value_is_refused_by_its_name_before_anything_is_made(helm: Helm, api: ControlPlane) -> None:
    with pytest.raises(AssertionError, match=r"'indx' not allowed"):
        helm("install", *SYSTEM, "mine", DEPLOY / "helm/logger", "--set", "indx=10")
    assert api.get(*SYSTEM, "daemonset", "-l", "app.kubernetes.io/component=nri-plugin")["items"] == []


def test_a_packed_chart_holds_all_that_it_needs(helm: Helm, tmp_path: Path) -> None:
    helm("package", DEPLOY / "helm/hook-injector", "--destination", tmp_path)
    (packed,) = tmp_path.glob("hook-injector-*.tgz")
    assert manifests(helm("template", *SYSTEM, "mine", packed)) == manifests(
        helm("template", *SYSTEM, "mine", DEPLOY / "helm/hook-injector")
    )
