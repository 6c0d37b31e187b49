"""The node agent of its chart, in a pod under a real kubelet, works as root without capabilities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.buildah import build_agent
from tests.deploy.rendered import rendered_chart
from tests.deploy.test_agent_manifests import named
from tests.kubernetes.conftest import RunPod, started_with_image
from tests.kubernetes.node import Node, StaticPod
from tests.kubernetes.pods import container, pod
from tests.support.waiting import wait_for

TOPOLOGY = {
    "kind": "NodeResourceTopology",
    "metadata": {
        "annotations": {
            "node.koordinator.sh/cpu-shared-pools": json.dumps([{"socket": 0, "node": 0, "cpuset": "1"}]),
        }
    },
}
ASKED = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
BATCH = {
    "node.koordinator.sh/extended-resource-spec": json.dumps(
        {"containers": {"main": {"requests": ASKED, "limits": ASKED}}}
    )
}


@pytest.fixture(scope="module")
def node(kubelet_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with the agent's image on it."""
    folder = tmp_path_factory.mktemp("image")
    with started_with_image("localhost/nri-agent:here", build_agent, folder, kubelet_program) as started_node:
        yield started_node


def agent_pod(node: Node, folder: Path) -> dict[str, object]:
    """The pod of the agent's DaemonSet as a static one, which can have neither a ConfigMap nor an account."""
    settings = {
        "config.modes": "{nri}",
        "config.rules": json.dumps({"source": "files", "path": "/etc/nri-agent/rules"}),
        "config.pods": json.dumps({"source": "files", "path": "/etc/nri-agent/pods"}),
        "config.gates": json.dumps({"BECPUSuppress": False, "CPUBurst": False}),
        "hostPaths.nri-socket": str(node.runtime.run_dir),
        "image.tag": "here",
        "image.pullPolicy": "Never",
    }
    actual = named(rendered_chart("agent", *(f"{key}={value}" for key, value in settings.items())))
    (folder / "agent.yaml").write_text(actual["ConfigMap", "nri-agent"]["data"]["agent.yaml"])
    (folder / "rules").mkdir()
    (folder / "rules/topology.json").write_text(json.dumps(TOPOLOGY))
    spec = dict(actual["DaemonSet", "nri-agent"]["spec"]["template"]["spec"])
    for key in ("priorityClassName", "serviceAccountName"):
        del spec[key]
    (config,) = [volume for volume in spec["volumes"] if volume["name"] == "config"]
    del config["configMap"]
    config["hostPath"] = {"path": str(folder), "type": "Directory"}
    metadata = {"name": "nri-agent", "namespace": "default", "labels": {"app.kubernetes.io/name": "nri-agent"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def of_pod(static: StaticPod, controller: str, file: str) -> str:
    """The text of a file of a pod's own cgroup, the one above its container's."""
    lines = Path(f"/proc/{static.pid()}/cgroup").read_text().splitlines()
    (path,) = [line.split(":", 2)[2] for line in lines if controller in line.split(":")[1].split(",")]
    return Path(f"/sys/fs/cgroup/{controller}{path}").parent.joinpath(file).read_text().strip()


@pytest.mark.skipif(not Path("/sys/fs/cgroup/cpu").is_dir(), reason="it looks at files of cgroup v1")
def test_without_capabilities_the_agent_adjusts_containers_and_writes_pod_values(
    node: Node, run: RunPod, tmp_path: Path
) -> None:
    agent = run(agent_pod(node, tmp_path))
    try:
        agent.wait_ready()
    finally:
        for log in node.runtime.run_dir.glob("kubelet/logs/*nri-agent*/agent/*.log"):
            print(log.read_text())
    manifest = pod("batch", container(), annotations=BATCH)
    manifest["metadata"]["labels"] = {"koordinator.sh/qosClass": "BE"}
    batch = run(manifest)
    batch.wait_running()
    assert batch.cgroup("cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "50000"
    wait_for(lambda: of_pod(batch, "cpu", "cpu.cfs_quota_us") == "50000", "the pod's quota", 30)
    assert of_pod(batch, "memory", "memory.limit_in_bytes") == str(64 << 20)
    document = yaml.safe_load(
        agent.run("/agent/bin/python", "-I", "-B", "-m", "nri", "agent", "explain", batch.name, "-o",
                  "json", name="agent")
    )  # fmt: skip
    outcomes = {row["name"]: row["outcome"] for row in document["writes"] if not row["container"]}
    assert outcomes["cpu.cfs_quota"] in ("applied", "unchanged")
    assert outcomes["memory.limit"] in ("applied", "unchanged")
