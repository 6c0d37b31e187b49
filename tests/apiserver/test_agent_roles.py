"""The project's roles on a real API server: the agent's account has every right that it needs and no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri.kube.client import NODE_SLOS, NODE_TOPOLOGIES, NODES, PODS, Apiserver, ApiserverError, Kind, connect
from tests.apiserver.following import ACCOUNT, comes, make_crds, node, pod, slo, topology
from tests.kubernetes.control_plane import ControlPlane

ROLES = Path(__file__).parents[2] / "deploy/agent/rbac.yaml"
FOLLOWED = (PODS, NODES, NODE_SLOS, NODE_TOPOLOGIES)


@pytest.fixture(scope="module", autouse=True)
def objects(api: ControlPlane) -> Iterator[None]:
    """Something to read, and the roles."""
    make_crds(api)
    api.kubectl("apply", "-f", str(ROLES))
    api.apply(node(), slo({}), topology({}), pod("some"))
    assert comes(api, True, "list", "pods")
    yield
    for what in ("node", "nodeslo", "noderesourcetopology", "pod"):
        api.kubectl("delete", what, "--all", "--force", "--grace-period=0")
    api.kubectl("delete", "-f", str(ROLES))


@pytest.fixture
def client(api: ControlPlane, tmp_path: Path) -> Iterator[Apiserver]:
    """The client, with a token of the agent's service account."""
    token = api.kubectl("create", "token", "nri-agent", "-n", "kube-system").stdout.strip()
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(api.kubeconfig_of(token)))
    with connect(path) as connection:
        yield connection


def allowed(api: ControlPlane) -> set[str]:
    """All that the account may do beyond what every account may."""

    def rights_of(*who: str) -> set[str]:
        text = api.kubectl("auth", "can-i", "--list", "--no-headers", *who).stdout
        return {" ".join(line.split()) for line in text.splitlines()}

    anybody = rights_of("--as=system:serviceaccount:kube-system:somebody", "--as-group=system:authenticated")
    return rights_of(f"--as={ACCOUNT}", "--as-group=system:authenticated") - anybody


@pytest.mark.parametrize("kind", FOLLOWED, ids=str)
def test_the_agents_account_may_list_and_watch_its_resources(client: Apiserver, kind: Kind) -> None:
    items, version = client.list(kind)
    assert items
    with client.watch(kind, version, lasting_s=1) as watch:
        assert [event.type for events in watch.events() for event in events] in ([], ["BOOKMARK"])


def test_the_agents_account_has_no_other_rights(api: ControlPlane) -> None:
    assert allowed(api) == {
        "nodes [] [] [list watch]",
        "pods [] [] [list watch]",
        "nodeslos.slo.koordinator.sh [] [] [list watch]",
        "noderesourcetopologies.topology.node.k8s.io [] [] [list watch]",
        "configmaps [] [slo-controller-config] [list watch]",
    }


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.list(Kind("Secret", "", "v1", "secrets")),
        lambda client: client.list(Kind("ConfigMap", "", "v1", "configmaps")),
        lambda client: client.evict("default", "some"),
    ],
    ids=["secrets", "configmaps", "evict"],
)
def test_other_requests_are_forbidden_and_the_error_names_the_role_file(
    client: Apiserver, ask: Callable[[Apiserver], object]
) -> None:
    with pytest.raises(ApiserverError) as refused:
        ask(client)
    assert refused.value.status == 403
    assert "deploy/agent/rbac.yaml" in str(refused.value)


@pytest.mark.parametrize(
    "words",
    [
        ("get", "pod", "some"),
        ("delete", "pod", "some"),
        ("label", "node", "node-1", "a=b"),
        ("annotate", "nodeslo", "node-1", "a=b"),
        ("exec", "some", "--", "true"),
        ("create", "token", "nri-agent", "-n", "kube-system"),
    ],
    ids=" ".join,
)
def test_kubectl_with_the_agents_account_is_forbidden_other_requests(api: ControlPlane, words: tuple[str, ...]) -> None:
    completed = api.kubectl(f"--as={ACCOUNT}", *words, check=False)
    assert "is forbidden: User" in completed.stderr, completed.stderr


def test_evictions_need_a_separate_role(api: ControlPlane, client: Apiserver) -> None:
    api.kubectl("create", "clusterrolebinding", "evict", "--clusterrole=nri-agent-evict", f"--user={ACCOUNT}")
    try:
        api.apply(pod("batch"))
        assert comes(api, True, "create", "pods/eviction")
        client.evict("default", "batch")
        completed = api.kubectl("get", "pod", "batch", "-o", "jsonpath={.metadata.deletionTimestamp}", check=False)
        assert completed.returncode == 1 or completed.stdout, "it is there, and not about to end"
        assert allowed(api) >= {"pods/eviction [] [] [create]"}
        refused = api.kubectl("delete", "pod", "some", f"--as={ACCOUNT}", check=False)
        assert "(Forbidden)" in refused.stderr
    finally:
        api.kubectl("delete", "clusterrolebinding", "evict")


def test_the_kubelets_list_of_pods_needs_a_separate_role(api: ControlPlane) -> None:
    api.kubectl("create", "clusterrolebinding", "kubelet", "--clusterrole=nri-agent-kubelet", f"--user={ACCOUNT}")
    try:
        assert comes(api, True, "get", "nodes/pods")
        assert allowed(api) >= {"nodes/pods [] [] [get]"}
        for part in ("proxy", "log", "metrics"):
            completed = api.kubectl("auth", "can-i", "get", f"nodes/{part}", f"--as={ACCOUNT}", check=False)
            assert completed.stdout.strip() == "no"
    finally:
        api.kubectl("delete", "clusterrolebinding", "kubelet")
