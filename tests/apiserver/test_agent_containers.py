"""The agent between a real API server and a real containerd: rules of the API hold in containers.

It has the rights that are shipped; pods are made as a kubelet makes them. With a real kubelet: tests/kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent.files import of_process
from tests.agent.node import AgentProgram, Node, machine
from tests.agent.pods import BATCH, SENSITIVE, containerd
from tests.apiserver.following import NODE, make_crds, node, slo, topology
from tests.kubernetes.control_plane import ControlPlane
from tests.support.waiting import wait_for
from tools.runtimes import Containerd

ROLES = Path(__file__).parents[2] / "deploy/agent/rbac.yaml"
SHARED = "node.koordinator.sh/cpu-shared-pools"


def pools(cpus: str) -> dict[str, Any]:
    return topology({SHARED: json.dumps([{"socket": 0, "node": 0, "cpuset": cpus}])})


def suppressed(how: str) -> dict[str, Any]:
    return slo({"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": how}})


@pytest.fixture(scope="module")
def daemon() -> Iterator[Containerd]:
    """A containerd."""
    with containerd() as runtime:
        yield runtime


@pytest.fixture
def ruled(api: ControlPlane, daemon: Containerd, tmp_path: Path) -> Iterator[Node]:
    """A node without pods, whose rules are in the API."""
    make_crds(api)
    api.kubectl("apply", "-f", str(ROLES))
    api.apply(suppressed("cpuset"), pools("1"), node())
    with machine(daemon.run_dir / "host", daemon.run_dir.name) as root:
        yield Node(daemon, root, tmp_path / "agent")
        daemon.cri.remove_all()
    if not api.is_up:
        api.start_apiserver()
    for what in ("nodes", "nodeslos", "noderesourcetopologies"):
        api.kubectl("delete", what, "--all")


@contextmanager
def agent_of(api: ControlPlane, ruled: Node) -> Iterator[AgentProgram]:
    """The agent, with rules from the API by its own account; not started."""
    kubeconfig = ruled.folder / "kubeconfig"
    token = api.kubectl("create", "token", "nri-agent", "-n", "kube-system").stdout.strip()
    kubeconfig.write_text(json.dumps(api.kubeconfig_of(token)))
    program = AgentProgram(ruled, "nri,standalone", "[gates]\nBECPUSuppress = false\n")
    files = f'source = "files"\npath = "{ruled.rules}"'
    text = program.settings_file.read_text()
    assert files in text
    rules = f'source = "apiserver"\nkubeconfig = "{kubeconfig}"\nnode_name = "{NODE}"'
    program.settings_file.write_text(text.replace(files, rules))
    try:
        yield program
    finally:
        program.__exit__(None, None, None)


def started(ruled: Node, name: str, kube_class: str, words: dict[str, Any]) -> int:
    """The first process of a container that runs."""
    pod = ruled.run_pod(name, kube_class, **words)
    pid: int = ruled.daemon.cri.info(ruled.daemon.cri.run(pod, "app", ("sh", "-c", "sleep 1000")))["pid"]
    return pid


def quota(pid: int) -> str:
    return of_process(pid, "cpu.cfs_quota_us")


def cpus(pid: int) -> str:
    return of_process(pid, "cpuset.cpus")


def test_changed_custom_resources_change_running_containers(api: ControlPlane, ruled: Node) -> None:
    with agent_of(api, ruled) as agent:
        agent.start()
        batch, web = started(ruled, "batch", "BestEffort", BATCH), started(ruled, "web", "Burstable", SENSITIVE)
        assert (quota(batch), cpus(web)) == ("50000", "1")
        api.apply(suppressed("cfsQuota"), pools("0"))
        wait_for(lambda: (quota(batch), cpus(web)) == ("-1", "0"), agent.story)
        bad = slo({"resourceUsedThresholdWithBE": {"enable": "yes"}})
        api.apply(bad, pools("0-1"))
        wait_for(lambda: cpus(web) == "0-1" and "WithBE.enable: " in agent.ask("/readyz"), agent.story)
        assert quota(batch) == "-1"
        api.apply(suppressed("cpuset"))
        wait_for(lambda: quota(batch) == "50000", agent.story)


def test_pods_created_while_the_apiserver_is_down_get_the_last_rules(api: ControlPlane, ruled: Node) -> None:
    with agent_of(api, ruled) as agent:
        agent.start()
        api.kill_apiserver()
        wait_for(lambda: "cannot watch nodeslos" in agent.ask("/readyz"), agent.story)
        batch, web = started(ruled, "batch", "BestEffort", BATCH), started(ruled, "web", "Burstable", SENSITIVE)
        assert (quota(batch), cpus(web)) == ("50000", "1")
        api.start_apiserver()
        api.apply(pools("0"))
        wait_for(lambda: cpus(web) == "0", agent.story)


def test_an_agent_without_an_apiserver_waits_for_rules_and_does_not_delay_pods(api: ControlPlane, ruled: Node) -> None:
    with agent_of(api, ruled) as agent:
        api.kill_apiserver()
        registered(agent)
        web = started(ruled, "web", "Burstable", SENSITIVE)
        batch = started(ruled, "batch", "BestEffort", BATCH)
        assert quota(batch) == "50000", "a value from the pod's annotations needs no rule"
        assert cpus(web) != "1"
        api.start_apiserver()
        wait_for(lambda: cpus(web) == "1", agent.story)
        agent.wait_ready()


def registered(agent: AgentProgram) -> None:
    """Start the agent, and wait until it is registered with the runtime, which is before it is ready."""

    def readiness_text() -> str:
        try:
            return agent.asked("/readyz")[2]
        except OSError:
            return ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "wait_ready", lambda: wait_for(lambda: "registered with" in readiness_text(), agent.story))
        agent.start()
    assert agent.asked("/readyz")[0] == 503, readiness_text()
