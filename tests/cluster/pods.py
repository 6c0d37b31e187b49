"""Pods of the tests: manifests, and waits for what the API reports of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.cluster.machine import RUNTIMES, Cluster
from tests.support.waiting import wait_for
from tools.runtimes.images import BUSYBOX

Json = dict[str, Any]
#: Seconds; a node is slow, and the wait ends as soon as the state is there.
POD_TIMEOUT_S = 300.0
NODES = tuple(f"n{number}" for number in range(1, len(RUNTIMES) + 1))
CONTAINER = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sleep", "100000"]}


def pod(
    name: str, node: str, annotations: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None, **spec: object,
) -> Json:  # fmt: skip
    """A pod with the container `main` on a node."""
    container = CONTAINER | {"resources": {"requests": limits or {}, "limits": limits or {}}}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {}), "labels": dict(labels or {})},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }  # fmt: skip


def apply(cluster: Cluster, *objects: Json) -> None:
    """Create objects, or change them."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]}))


def wait_ready(cluster: Cluster, *names: str, namespace: str = "default") -> None:
    """Wait until the pods are Ready."""
    timeout = f"--timeout={POD_TIMEOUT_S:g}s"
    try:
        cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", timeout, *(f"pod/{name}" for name in names))
    except BaseException:
        print(cluster.kubectl("describe", "pods", "-n", namespace, *names, check=False))
        raise


@contextmanager
def running(cluster: Cluster, *pods: Json) -> Iterator[None]:
    """Run pods while the block runs; they are Ready at its start and gone after its end."""
    names = [pod["metadata"]["name"] for pod in pods]
    try:
        apply(cluster, *pods)
        wait_ready(cluster, *names)
        yield
    finally:
        cluster.kubectl("delete", "pod", "--ignore-not-found", *names)


def read(cluster: Cluster, name: str, command: str, container: str = "main") -> str:
    """The output of a shell command in a container of a pod."""
    return cluster.kubectl("exec", name, "-c", container, "--", "sh", "-c", command).strip()


def best_effort_slice(cluster: Cluster, name: str, node: str, file: str) -> str:
    """A cgroup file of a best-effort pod."""
    uid = cluster.get("pod", name)["metadata"]["uid"].replace("-", "_")
    folder = "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice"
    return cluster.run(int(node[1:]), f"cat {folder}/kubepods-besteffort-pod{uid}.slice/{file}").strip()


def wait_rolled_out(cluster: Cluster, daemon_set: str, namespace: str = "kube-system") -> None:
    """Wait until a DaemonSet has its current pods on all nodes, all available."""
    timeout = f"--timeout={POD_TIMEOUT_S:g}s"
    cluster.kubectl("rollout", "status", "-n", namespace, f"daemonset/{daemon_set}", timeout)


def pod_on(cluster: Cluster, selector: str, node: str, namespace: str = "kube-system") -> str:
    """The name of the running pod with a label on a node. Raises AssertionError if there is not exactly one."""
    words = ("pods", "-n", namespace, "-l", selector, f"--field-selector=spec.nodeName={node}")
    names = [
        item["metadata"]["name"]
        for item in cluster.get(*words)["items"]
        if not item["metadata"].get("deletionTimestamp")
    ]
    assert len(names) == 1, names
    return str(names[0])


def wait_logged(cluster: Cluster, name: str, line: str, namespace: str = "kube-system", container: str = "") -> None:
    """Wait until a pod has logged a line that contains `line`."""
    words = ("logs", "-n", namespace, name, *(["-c", container] if container else []))
    wait_for(lambda: line in cluster.kubectl(*words), lambda: cluster.kubectl(*words), POD_TIMEOUT_S)
