"""Placement policies on a real API server, with the project's roles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.plugins.topology_aware.plugin import TopologyAwarePlugin
from nri.testing import FakeRuntime
from tests.apiserver.following import make_crds, node
from tests.kubernetes.control_plane import ControlPlane
from tests.support.placement import guest, write_machine
from tests.support.waiting import wait_for
from tests.unit.placement.placing import ask, create, pod

DEPLOY = Path(__file__).parents[2] / "deploy" / "placement"
NODE, NAMESPACE = "place-1", "kube-system"


@pytest.fixture
def cluster(api: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    """An apiserver with the kinds, the roles and a node."""
    for file in (DEPLOY / "crds.yaml", DEPLOY / "rbac.yaml"):
        api.kubectl("apply", "-f", str(file))
    make_crds(api)
    put(api, tmp_path, node(NODE))
    yield api
    api.kubectl("delete", "node", NODE)
    api.kubectl("delete", "topologyawarepolicies", "--all", "-n", NAMESPACE)
    api.kubectl("delete", "-f", str(DEPLOY / "rbac.yaml"))


def put(api: ControlPlane, folder: Path, thing: dict[str, Any]) -> None:
    path = folder / "put.json"
    path.write_text(json.dumps(thing))
    api.kubectl("apply", "-f", str(path))


def policy(name: str, folder: Path, **spec: Any) -> dict[str, Any]:
    """A policy for the machine in a folder."""
    spec = {"reservedResources": {"cpu": "cpuset:0"}, **spec}
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "config.nri/v1alpha1", "kind": "TopologyAwarePolicy", "metadata": meta, "spec": spec}


def status(api: ControlPlane, name: str) -> dict[str, Any]:
    completed = json.loads(api.kubectl("get", "topologyawarepolicy", name, "-n", NAMESPACE, "-o", "json").stdout)
    message: dict[str, Any] = completed.get("status", {}).get("nodes", {}).get(NODE, {})
    return message


def as_account(api: ControlPlane, folder: Path) -> Path:
    """A kubeconfig of the account that deploy/placement has roles for, and of no other."""
    token = api.kubectl("create", "token", "nri-placement", "-n", NAMESPACE).stdout.strip()
    tree = json.loads(api.kubectl("config", "view", "--raw", "--flatten", "-o", "json").stdout)
    tree["users"] = [{"name": user["name"], "user": {"token": token}} for user in tree["users"]]
    path = folder / "kubeconfig"
    path.write_text(json.dumps(tree))
    path.chmod(0o600)
    return path


def follow(folder: Path, kubeconfig: Path, *more: str) -> subprocess.Popen[str]:
    words = ["placement", "follow", "topology-aware", "--node", NODE, "--kubeconfig", str(kubeconfig)]
    command = [sys.executable, "-m", "nri", *words, "--state-dir", str(folder / "state"), *more]
    return subprocess.Popen(command, text=True, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})


def test_a_nodes_policy_reaches_its_plugin_which_publishes_status_and_zones(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    write_machine(tmp_path, guest())
    kubeconfig, state = as_account(cluster, tmp_path), tmp_path / "state"
    state.mkdir(mode=0o700)
    put(cluster, tmp_path, policy("default", tmp_path))
    put(cluster, tmp_path, policy("group.fast", tmp_path, preferSharedCPUs=True))
    first = follow(tmp_path, kubeconfig, "--once")
    _, text = first.communicate(timeout=120)
    assert first.returncode == 0, text
    file = state / "topology-aware.policy.json"
    assert json.loads(file.read_text())["spec"] == {"reservedResources": {"cpu": "cpuset:0"}}
    document = json.loads(file.read_text())["spec"] | {"hostRoot": str(tmp_path), "stateDir": str(state)}
    with FakeRuntime(real_time=False) as runtime:
        plugin = TopologyAwarePlugin()
        runtime.add(plugin, idx="90", config=json.dumps(document))
        create(runtime, pod("own"), ask("own", 2000))
        following = follow(tmp_path, kubeconfig)
        try:
            wait_for(lambda: zones_of(cluster), "zones")
            zones = zones_of(cluster)
            assert {"root", "NUMA node #3"} <= {resource["name"] for resource in zones}
            free = {
                zone["name"]: {resource["name"]: resource["available"] for resource in zone["resources"]}
                for zone in zones
            }
            pinned = next(zone for zone in zones if free[zone["name"]]["cpu"] == "2")
            assert pinned["type"] == "numa node"
            cluster.kubectl("label", "node", NODE, "config.nri/group=fast")
            wait_for(lambda: json.loads(file.read_text())["spec"].get("preferSharedCPUs"), "the group's policy")
            put(cluster, tmp_path, policy(f"node.{NODE}", tmp_path, pinCPUs=True))
            wait_for(lambda: status(cluster, f"node.{NODE}").get("status") == "Failure", "a failure")
            assert "pinCPUs" in status(cluster, f"node.{NODE}")["errors"]
            assert status(cluster, "group.fast") == {}, "it is no longer this node's"
        finally:
            following.send_signal(signal.SIGTERM)
            _, text = following.communicate(timeout=60)
    assert following.returncode == 0, text
    assert "Traceback" not in text


def zones_of(api: ControlPlane) -> list[dict[str, Any]]:
    completed = api.kubectl(
        "get", "noderesourcetopologies.v1alpha2.topology.node.k8s.io", NODE, "-o", "json", check=False
    )
    zones: list[dict[str, Any]] = json.loads(completed.stdout)["zones"] if completed.returncode == 0 else []
    return zones
