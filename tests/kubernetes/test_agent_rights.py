"""Pods from a kubelet that authorizes its clients at the API server, with the shipped role only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.agent.pods.kubelet import KubeletPods
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import PodSettings
from tests.kubernetes.agent import account
from tests.kubernetes.client import AnswerError, KubeletClient
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import joined
from tests.kubernetes.pods import pod
from tests.support.waiting import wait_for

ACCOUNT = "system:serviceaccount:kube-system:nri-agent"


@pytest.fixture(scope="module")
def guarded(kubelet_program: Path) -> Iterator[Cluster]:
    """A node with a pod, whose kubelet answers only authorized clients."""
    with joined("containerd", kubelet_program, guarded=True) as joined_cluster:
        account(joined_cluster)
        joined_cluster.run(pod("asked-for"))
        yield joined_cluster


@pytest.fixture(scope="module")
def token(guarded: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token of the agent's account, which may ask for pods and nothing else."""
    path = tmp_path_factory.mktemp("account") / "token"
    path.write_text(guarded.api.kubectl("create", "token", "nri-agent", "-n", "kube-system").stdout)
    return path


def source(guarded: Cluster, token: Path | None, **more: str) -> KubeletPods:
    where = f"https://127.0.0.1:{guarded.kubelet.client.port}"
    return KubeletPods(AgentSettings(pods=PodSettings(kubelet=where, kubelet_token=str(token or ""), **more)))


def test_the_kubelet_refuses_without_the_role_and_lists_pods_with_it(guarded: Cluster, token: Path) -> None:
    stranger = source(guarded, None)
    stranger.ask()
    assert "HTTP 401" in stranger.problem
    pods = source(guarded, token, kubelet_ca=str(guarded.kubelet.folder / "pki/kubelet.crt"))
    pods.ask()
    assert "HTTP 403" in pods.problem and "rbac.yaml" in pods.problem
    binding = ("clusterrolebinding", "agent-kubelet")
    guarded.api.kubectl("create", *binding, "--clusterrole=nri-agent-kubelet", f"--user={ACCOUNT}")
    guarded.kubelet.stop()  # it remembers a refusal for half a minute
    guarded.kubelet.start()
    wait_for(lambda: pods.ask() or [pod["metadata"]["name"] for pod in pods.pods()] == ["asked-for"], "pods", 60)
    assert pods.problem == ""
    client = KubeletClient(guarded.kubelet.client.port, token=token.read_text().strip())
    for path in ("/configz", "/metrics", "/logs/", "/run/default/asked-for/main"):
        with pytest.raises(AnswerError) as refused:
            client.get(path)
        assert refused.value.status == 403, path
