"""What tests share: objects, a follower that keeps its reports, the rights of an account, and a wait.

Next: `test_follow`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.kubernetes.control_plane import ControlPlane

Json = dict[str, Any]
NODE = "node-1"
#: The agent's.
ACCOUNT = "system:serviceaccount:kube-system:nri-agent"


def make_crds(api: ControlPlane) -> None:
    """Have the API serve the custom resources."""
    api.create_crds("-f", str(Path(__file__).parent / "crds.yaml"))


def may(api: ControlPlane, verb: str, what: str) -> bool:
    """Whether the agent's account is allowed this everywhere; `pods/eviction` is a subresource."""
    what, _, part = what.partition("/")
    words = ["auth", "can-i", verb, what, "-A", "--as", ACCOUNT, *([f"--subresource={part}"] if part else [])]
    return api.kubectl(*words, check=False).returncode == 0


def comes(api: ControlPlane, allowed: bool, verb: str, what: str) -> bool:
    """Whether this becomes allowed, or not, soon: the server learns of roles a moment after they are made."""
    deadline = time.monotonic() + 60
    while may(api, verb, what) is not allowed:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


class Told:
    """The last report of a follower, and all reports: names with the label `v`."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    def __call__(self, objects: Any) -> None:
        """Take it."""
        self.seen.append({name: value(thing) for (_, name), thing in objects.items()})

    @property
    def last(self) -> dict[str, str] | None:
        """The last report."""
        return self.seen[-1] if self.seen else None


def value(thing: Json) -> str:
    """The label that tests tell versions by."""
    return str((thing["metadata"].get("labels") or {}).get("v", ""))


def pod(name: str, node: str = NODE, v: str = "1") -> Json:
    """A pod that nobody runs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"v": v}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
    }


def node(name: str = NODE, v: str = "1", **annotations: str) -> Json:
    """A node that nobody runs on."""
    meta = {"name": name, "labels": {"v": v}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


def slo(spec: Json, name: str = NODE, v: str = "1") -> Json:
    """A NodeSLO."""
    meta = {"name": name, "labels": {"v": v}}
    return {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": meta, "spec": spec}


def topology(annotations: Json, name: str = NODE) -> Json:
    """A NodeResourceTopology."""
    meta = {"name": name, "annotations": annotations}
    return {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology", "metadata": meta}
