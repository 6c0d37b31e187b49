"""The node agent as installed by `kubectl apply -k`: its pod uses the API with its service account.

The pod is made of the DaemonSet that the API has, because no controller runs here that would do it. Three paths are
those of this private node: its NRI socket, and where its cgroups and processes are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.buildah import build_agent
from tests.deploy.rendered import DEPLOY
from tests.kubernetes.agent import RESOURCES, root_of
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import add_image, joined
from tests.kubernetes.kubelet import CGROUPS, NODE
from tests.kubernetes.test_agent import CPUS, batch, sensitive, suppressed, topology
from tests.support.waiting import wait_for

Json = dict[str, Any]
IMAGE = "localhost/nri-agent:here"
SPACE = "kube-system"
NAME = "nri-agent-of-this-node"

pytestmark = pytest.mark.skipif(not (CGROUPS / "cpu").is_dir(), reason="the values are read from files of cgroup v1")


@pytest.fixture(scope="module")
def cluster(kubelet_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose pods reach its API, with the account and the certificates that controllers would have made."""
    with joined("containerd", kubelet_program, for_pods=True) as joined_cluster:
        add_image(joined_cluster.runtime, IMAGE, build_agent, tmp_path_factory.mktemp("image"))
        api = joined_cluster.api
        certificate = f"--from-file=ca.crt={api.folder}/pki/apiserver.crt"
        for space in ("default", SPACE):
            api.kubectl("create", "configmap", "kube-root-ca.crt", "-n", space, certificate)
        api.kubectl("create", "serviceaccount", "default")
        api.create_crds("-f", str(RESOURCES))
        yield joined_cluster


def of_daemon_set(cluster: Cluster, root: Path) -> Json:
    """The pod that the controller of DaemonSets would make for this node."""
    template = cluster.api.get("daemonset", "nri-agent", "-n", SPACE)["spec"]["template"]
    spec = template["spec"] | {"nodeName": NODE}
    (agent,) = spec["containers"]
    agent |= {"image": IMAGE, "imagePullPolicy": "Never"}
    # Elsewhere kubelet's variables say where the service "kubernetes" is, and kube-proxy leads there.
    address = {"KUBERNETES_SERVICE_HOST": cluster.api.address, "KUBERNETES_SERVICE_PORT": str(cluster.api.port)}
    agent["env"] += [{"name": name, "value": value} for name, value in address.items()]
    replaced = {"nri-socket": cluster.runtime.run_dir, "cgroup": root / "sys/fs/cgroup"}
    for volume in spec["volumes"]:
        if volume["name"] in replaced:
            volume["hostPath"]["path"] = str(replaced[volume["name"]])
    metadata = {"name": NAME, "namespace": SPACE, "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[None]:
    """The agent, installed as documented, in a pod that is ready."""
    api = cluster.api
    api.apply(suppressed("cpuset"), topology("0"))
    api.kubectl("apply", "-k", str(DEPLOY / "kustomize/agent"))
    with root_of(cluster) as root:
        api.apply(of_daemon_set(cluster, root))
        try:
            api.kubectl("wait", "--for=condition=Ready", "pod", NAME, "-n", SPACE, "--timeout=90s", timeout_s=100)
        except AssertionError:
            print(api.kubectl("describe", "pod", NAME, "-n", SPACE, check=False).stdout)
            for log in cluster.runtime.run_dir.glob("kubelet/logs/*nri-agent*/agent/*.log"):
                print(log.read_text())
            raise
        yield
        api.kubectl("delete", "pod", NAME, "-n", SPACE, "--wait", check=False)


@pytest.mark.usefixtures("agent")
def test_pods_start_under_the_rules_of_the_api_and_follow_changes(cluster: Cluster) -> None:
    be, ls = cluster.run(batch("batch")), cluster.run(sensitive("sensitive"))
    assert cluster.exec(be, "cat", "/first").stdout.split()[0] == "50000"
    assert cluster.exec(ls, "cat", "/first").stdout.split() == ["50000", "0"]
    cluster.api.apply(topology("0-1"))
    wait_for(lambda: cluster.cgroup(ls, "cpuset", *CPUS) == "0-1", "a container on both CPUs", 30)


@pytest.mark.usefixtures("agent")
def test_the_service_account_has_all_required_permissions(cluster: Cluster) -> None:
    log = cluster.api.kubectl("logs", NAME, "-n", SPACE).stdout
    assert "orbidden" not in log, log
    words = [
        "exec",
        NAME,
        "-n",
        SPACE,
        "--",
        "/agent/bin/python",
        "-I",
        "-B",
        "-m",
        "nri",
        "agent",
        "explain",
    ]
    completed = cluster.api.kubectl(*words).stdout
    assert "batch" in completed, completed
    assert "sensitive" in completed, completed
