"""Pods of a Deployment run on both nodes of the cluster."""

from __future__ import annotations

import json

from tests.cluster.machine import Cluster
from tests.support.waiting import wait_for
from tools.runtimes.images import BUSYBOX

_CONTAINER = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sleep", "100000"]}
_LABELS = {"app": "spread"}
_SPREAD = {
    "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": _LABELS},
}  # fmt: skip
_POD = {"terminationGracePeriodSeconds": 0, "topologySpreadConstraints": [_SPREAD], "containers": [_CONTAINER]}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "spread"},
    "spec": {
        "replicas": 4, "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS}, "spec": _POD},
    },
}  # fmt: skip


def test_a_deployment_runs_on_both_nodes(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(DEPLOYMENT))
    try:
        wait_for(
            lambda: cluster.get("deployment", "spread")["status"].get("readyReplicas") == 4,
            lambda: cluster.kubectl("describe", "pods"),
            timeout_s=300,
        )
        nodes = {pod["spec"]["nodeName"] for pod in cluster.get("pods", "-l", "app=spread")["items"]}
        assert nodes == {"n1", "n2"}
    finally:
        cluster.kubectl("delete", "deployment", "spread")
