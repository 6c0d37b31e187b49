"""The agent's manifests and chart on a real API server: install, change, remove, and the rights of its account."""

from __future__ import annotations

import pytest

from tests.apiserver.conftest import Helm
from tests.apiserver.following import comes, make_crds, may
from tests.apiserver.test_helm import SYSTEM, manifests
from tests.apiserver.test_kustomize import apply, contains
from tests.deploy.rendered import DEPLOY, Json, kustomized, rendered_chart
from tests.deploy.test_agent_manifests import named
from tests.kubernetes.control_plane import ControlPlane

CHART = DEPLOY / "helm/agent"
ALLOWED = [(verb, what) for what in ("pods", "nodes", "nodeslos.slo.koordinator.sh") for verb in ("list", "watch")]
REFUSED = [("get", "secrets"), ("create", "pods"), ("patch", "nodes"), ("delete", "pods"), ("list", "configmaps")]


@pytest.fixture(scope="module", autouse=True)
def kinds(api: ControlPlane) -> None:
    """Create Koordinator's CRDs: the API server must know a kind before it can check the right to read it."""
    make_crds(api)


def daemon_set(api: ControlPlane) -> Json:
    return api.get(*SYSTEM, "daemonset", "nri-agent")


def test_the_api_server_accepts_changes_and_removes_kustomizes_output(api: ControlPlane) -> None:
    text = kustomized("agent")
    assert "daemonset.apps/nri-agent created\n" in apply(api, text)
    try:
        contains(daemon_set(api), named(text)["DaemonSet", "nri-agent"])
        assert [row for row in ALLOWED if not comes(api, True, *row)] == []
        assert [row for row in (*REFUSED, ("create", "pods/eviction")) if may(api, *row)] == []
        # Selectors cannot be changed: an overlay that changed one could not be applied over another.
        assert "daemonset.apps/nri-agent configured\n" in apply(api, kustomized("agent/unstable"))
    finally:
        api.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


def test_helm_and_the_tests_renderer_print_the_same_manifests(helm: Helm) -> None:
    for settings in ((), ("config.gates.OOMScoreAdj=true", "anolis=true")):
        flags = [word for setting in settings for word in ("--set", setting)]
        actual = named(rendered_chart("agent", *settings))
        original = manifests(helm("template", *SYSTEM, "mine", CHART, *flags))
        assert sorted(map(repr, original)) == sorted(map(repr, actual.values()))
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


def test_only_a_chart_with_an_evicting_strategy_may_create_evictions(helm: Helm, api: ControlPlane) -> None:
    output = helm("install", *SYSTEM, "mine", CHART)
    try:
        assert "STATUS: deployed" in output
        before = daemon_set(api)["spec"]["template"]["metadata"]["annotations"]
        assert [row for row in ALLOWED if not comes(api, True, *row)] == []
        assert not may(api, "create", "pods/eviction")
        helm("upgrade", *SYSTEM, "mine", CHART, "--set", "config.gates.BEMemoryEvict=true")
        assert comes(api, True, "create", "pods/eviction")
        after = daemon_set(api)["spec"]["template"]["metadata"]["annotations"]
        assert before != after, "changed settings start the agent anew"
        helm("rollback", *SYSTEM, "mine", "1")
        assert comes(api, False, "create", "pods/eviction")
    finally:
        helm("uninstall", *SYSTEM, "mine")
    assert api.kubectl("get", *SYSTEM, "daemonset", "nri-agent", check=False).returncode == 1
    assert comes(api, False, "list", "pods")


def test_a_bad_setting_is_an_error_with_its_name_and_creates_no_object(helm: Helm, api: ControlPlane) -> None:
    with pytest.raises(AssertionError, match=r"'indx' not allowed"):
        helm("install", *SYSTEM, "mine", CHART, "--set", "config.nri.indx=10")
    assert api.kubectl("get", *SYSTEM, "daemonset", "nri-agent", check=False).returncode == 1
