"""The agent under a real kubelet and API server: changing rules and the values of running containers.

Modes nri and standalone at once, with the rights that are shipped and no more. Values are read from the containers'
cgroups, and by the container itself before it does anything else.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.agent.koordinator import batch_resource, cpu_normalization, cpuset, names
from nri.agent.pods.apiserver import ApiserverPods
from nri.agent.pods.cri import CriPods
from nri.agent.pods.kubelet import KubeletPods
from nri.agent.pods.source import KnownPods
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import PodSettings, RuleSettings
from tests.kubernetes.agent import Agent, running_agent
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import CGROUPS, NODE
from tests.kubernetes.pods import UNTIL_TERM, container, pod
from tests.support.waiting import wait_for

Json = dict[str, Any]
QUOTA, SHARES = ("cpu.cfs_quota_us", "cpu.max"), ("cpu.shares", "cpu.weight")
CPUS, MEMORY = ("cpuset.cpus", "cpuset.cpus"), ("memory.limit_in_bytes", "memory.max")
BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
FIRST = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpuset/cpuset.cpus > /first 2>&1"

pytestmark = pytest.mark.skipif(not (CGROUPS / "cpu").is_dir(), reason="the values are read from files of cgroup v1")


def slo(**spec: Any) -> Json:
    """The node's NodeSLO."""
    meta = {"name": NODE}
    return {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": meta, "spec": spec}


def suppressed(how: str) -> Json:
    """A NodeSLO that holds best-effort pods down in some way."""
    return slo(resourceUsedThresholdWithBE={"enable": True, "cpuSuppressPolicy": how})


def topology(cpus: str) -> Json:
    """The node's NodeResourceTopology, with the CPUs that pods share."""
    pools = json.dumps([{"socket": 0, "node": 0, "cpuset": cpus}])
    meta = {"name": NODE, "annotations": {cpuset.ANNOTATION_SHARE_POOLS: pools}}
    return {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology", "metadata": meta}


def classed(name: str, qos: str, resources: Json | None = None, annotations: Json | None = None) -> Json:
    """A pod of one of Koordinator's classes, whose container notes what it has before it does anything else."""
    manifest = pod(
        name, container("main", f"{FIRST}; {UNTIL_TERM}", resources=resources or {}), annotations=annotations
    )
    manifest["metadata"]["labels"][names.LABEL_QOS] = qos
    return manifest


def batch(name: str) -> Json:
    """A batch pod, with half a CPU and 64 MiB."""
    spec = {"containers": {"main": {"requests": BATCH, "limits": BATCH}}}
    return classed(name, "BE", annotations={batch_resource.ANNOTATION_EXTENDED: json.dumps(spec)})


def sensitive(name: str) -> Json:
    """A latency-sensitive pod, with half a CPU."""
    return classed(name, "LS", {"requests": {"cpu": "250m"}, "limits": {"cpu": "500m", "memory": "64Mi"}})


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[Agent]:
    """The agent, with rules in the API."""
    with running_agent(cluster) as running:
        cluster.api.apply(suppressed("cpuset"), topology("0"))
        yield running


@pytest.fixture(scope="module")
def be(cluster: Cluster, agent: Agent) -> str:
    """A batch pod that runs."""
    ready(agent)
    return cluster.run(batch("batch"))


@pytest.fixture(scope="module")
def ls(cluster: Cluster, agent: Agent) -> str:
    """A latency-sensitive pod that runs."""
    ready(agent)
    return cluster.run(sensitive("sensitive"))


def ready(agent: Agent) -> None:
    """Wait until the agent has rules without problems."""

    def good() -> bool:
        status, message = agent.ask("/readyz")
        rules = next(line for line in message.splitlines() if " rules: " in line)
        return status == 200 and not any(word in rules for word in (";", "waits", "no news"))

    wait_until(agent, good, "good rules")


def wait_until(agent: Agent, holds: Callable[[], object], what: str, timeout_s: float = 30) -> None:
    """Wait until something holds; if it never does, the agent's own words are in the failure."""
    wait_for(holds, lambda: f"{what}:\n{agent.ask('/readyz')[1]}\n{agent.story()}", timeout_s)


def test_pods_start_under_the_rules(cluster: Cluster, be: str, ls: str) -> None:
    assert cluster.exec(be, "cat", "/first").stdout.split()[0] == "50000"
    assert cluster.cgroup(be, "cpu", *QUOTA) == "50000"
    assert cluster.cgroup(be, "cpu", *SHARES) == "512"
    assert cluster.cgroup(be, "memory", *MEMORY) == str(64 << 20)
    assert cluster.exec(ls, "cat", "/first").stdout.split() == ["50000", "0"]
    assert cluster.cgroup(ls, "cpuset", *CPUS) == "0"


def test_a_changed_slo_changes_running_containers(cluster: Cluster, agent: Agent, be: str) -> None:
    cluster.api.apply(suppressed("cfsQuota"))
    wait_until(agent, lambda: cluster.cgroup(be, "cpu", *QUOTA) == "-1", "container without a quota")
    cluster.api.apply(suppressed("cpuset"))
    wait_until(agent, lambda: cluster.cgroup(be, "cpu", *QUOTA) == "50000", "container with a quota")


def test_a_changed_topology_moves_running_containers(cluster: Cluster, agent: Agent, ls: str) -> None:
    cluster.api.apply(topology("0-1"))
    wait_until(agent, lambda: cluster.cgroup(ls, "cpuset", *CPUS) == "0-1", "container on both CPUs")
    cluster.api.apply(topology("0"))
    wait_until(agent, lambda: cluster.cgroup(ls, "cpuset", *CPUS) == "0", "container on one CPU")


def test_a_changed_cpu_ratio_of_the_node_scales_the_quota(cluster: Cluster, agent: Agent, ls: str) -> None:
    cluster.api.kubectl("annotate", "node", NODE, f"{cpu_normalization.ANNOTATION_RATIO}=1.25")
    wait_until(agent, lambda: cluster.cgroup(ls, "cpu", *QUOTA) == "40000", "scaled quota")
    cluster.api.kubectl("annotate", "node", NODE, f"{cpu_normalization.ANNOTATION_RATIO}=1", "--overwrite")
    wait_until(agent, lambda: cluster.cgroup(ls, "cpu", *QUOTA) == "50000", "quota as it was")
    cluster.api.kubectl("annotate", "node", NODE, f"{cpu_normalization.ANNOTATION_RATIO}-")


def test_an_invalid_rule_changes_nothing_is_reported_and_can_be_fixed(cluster: Cluster, agent: Agent, be: str) -> None:
    cluster.api.apply(slo(resourceUsedThresholdWithBE={"enable": "yes", "cpuSuppressPolicy": "cfsQuota"}))
    wait_until(
        agent, lambda: "cpuSuppressPolicy" in agent.ask("/readyz")[1] or "enable" in agent.ask("/readyz")[1], "error"
    )
    status, message = agent.ask("/readyz")
    assert status == 200
    assert f"NodeSLO of NodeSLO {NODE} of https://" in message
    assert "spec.resourceUsedThresholdWithBE.enable: " in message
    time.sleep(2)  # two rounds of the reconciler
    assert cluster.cgroup(be, "cpu", *QUOTA) == "50000"
    cluster.api.apply(suppressed("cpuset"))
    ready(agent)


def test_a_value_overwritten_by_another_program_is_repaired(cluster: Cluster, agent: Agent, be: str) -> None:
    file = quota_file(cluster, be)
    file.write_text("30000")
    wait_until(agent, lambda: file.read_text().strip() == "50000", "repaired quota", 90)


def quota_file(cluster: Cluster, name: str) -> Path:
    """The file of a container's quota."""
    return next(
        (CGROUPS / "cpu" / cluster.runtime.run_dir.name).rglob(f"{cluster.container_id(name)}/cpu.cfs_quota_us")
    )


def test_rules_apply_without_the_apiserver_and_follow_it_after_its_return(
    cluster: Cluster, agent: Agent, be: str
) -> None:
    file = quota_file(cluster, be)
    cluster.api.kill_apiserver()
    try:
        wait_until(agent, lambda: "cannot watch nodeslos" in agent.ask("/readyz")[1], "word of it")
        file.write_text("30000")
        wait_until(agent, lambda: file.read_text().strip() == "50000", "repaired quota", 90)
    finally:
        cluster.api.start_apiserver()
    cluster.api.apply(suppressed("cfsQuota"))
    wait_until(agent, lambda: file.read_text().strip() == "-1", "changed rule", 60)
    cluster.api.apply(suppressed("cpuset"))
    wait_until(agent, lambda: file.read_text().strip() == "50000", "rule as it was", 60)


def test_a_new_agent_takes_over_running_pods_after_a_kill(cluster: Cluster, agent: Agent, be: str) -> None:
    agent.end(signal.SIGKILL)
    file = quota_file(cluster, be)
    assert file.read_text().strip() == "50000"
    cluster.api.apply(suppressed("cfsQuota"))
    agent.start()
    wait_until(agent, lambda: file.read_text().strip() == "-1", "changed rule")
    cluster.api.apply(suppressed("cpuset"))
    wait_until(agent, lambda: file.read_text().strip() == "50000", "rule as it was")


@pytest.fixture(params=["apiserver", "kubelet", "cri"])
def source(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[KnownPods]:
    """Each source of pods."""
    client = cluster.kubelet.client
    settings = AgentSettings(
        rules=RuleSettings(kubeconfig=str(cluster.api.kubeconfig), node_name=NODE),
        pods=PodSettings(
            kubelet=f"https://{client.address}:{client.port}", cri=str(cluster.runtime.cri_socket), interval=0.2
        ),
    )
    kinds: dict[str, Callable[[AgentSettings], Any]] = {
        "apiserver": ApiserverPods,
        "kubelet": KubeletPods,
        "cri": CriPods,
    }
    pod_source = kinds[request.param](settings)
    pod_source.start()
    yield pod_source
    pod_source.stop()


def test_every_pod_source_returns_the_same_data_of_a_running_pod(
    cluster: Cluster, agent: Agent, ls: str, source: KnownPods
) -> None:
    wait_until(agent, lambda: any(pod["metadata"]["name"] == ls for pod in source.pods()), "pod of the source")
    (actual,) = [pod for pod in source.pods() if pod["metadata"]["name"] == ls]
    expected = cluster.api.get("pod", ls)
    for key in ("uid", "namespace"):
        assert actual["metadata"][key] == expected["metadata"][key]
    assert actual["metadata"]["labels"] == expected["metadata"]["labels"]
    assert (actual["status"]["phase"], actual["status"]["qosClass"]) == ("Running", "Burstable")
    (status,) = actual["status"]["containerStatuses"]
    assert status["containerID"] == expected["status"]["containerStatuses"][0]["containerID"]
    (listed,) = actual["spec"]["containers"]
    assert listed["resources"]["requests"]["cpu"] == "250m"
    assert listed["resources"]["limits"]["cpu"] == "500m"
    assert not actual["spec"].get("hostNetwork", False)


def test_a_new_pod_is_found_by_the_runtimes_events(cluster: Cluster, agent: Agent) -> None:
    source = CriPods(AgentSettings(pods=PodSettings(cri=str(cluster.runtime.cri_socket), interval=3600.0)))
    source.start()
    try:
        wait_until(agent, lambda: source.synced, "first list")
        name = cluster.run(sensitive("later"))
        wait_until(agent, lambda: name in {pod["metadata"]["name"] for pod in source.pods()}, "new pod", 10)
        cluster.api.kubectl("delete", "pod", name, "--force", "--grace-period=0")
        wait_until(agent, lambda: name not in {pod["metadata"]["name"] for pod in source.pods()}, "end of it", 60)
    finally:
        source.stop()
