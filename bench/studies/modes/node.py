"""The compared node: a real cluster with Koordinator's rules in its API, and a log of all calls to that API.

The kubelet uses containerd or the proxy in front of it, and is restarted for a change. The agent finds the node's pods
at the top of the cgroup tree, through a root path with bind mounts. Calls are counted from the API server's audit log,
without those of the cluster's own clients and of this benchmark.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc

from bench.studies.cluster import USER_AGENT, Cluster, Json, cluster, wait_for_node
from bench.studies.modes.pods import FILES, RATIO
from nri.cri.pb import api_pb2 as pb
from tests.kubernetes.kubelet import NODE
from tools.runtimes.machine import MissingError, Say
from tools.runtimes.mounts import unmount

CGROUPS = Path("/sys/fs/cgroup")
_PATIENCE_S = 120.0
_OWN_CLIENTS = (USER_AGENT, "kubelet/", "kubectl/", "kube-apiserver/", "kube-probe/")
#: Everything that is asked, once it is answered; a watch when it begins.
_AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}],
          "omitStages": ["RequestReceived"]}  # fmt: skip
#: Resources that Koordinator's agents read: kind, group, version, name in URLs.
_KINDS = (
    ("NodeSLO", "slo.koordinator.sh", "v1alpha1", "nodeslos"),
    ("NodeResourceTopology", "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies"),
)


def definition(kind: str, group: str, version: str, plural: str) -> Json:
    """A custom resource of the cluster's whose content is not looked at."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    row = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    annotations = {"api-approved.kubernetes.io": "unapproved, for a benchmark"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": annotations},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [row]},
    }


def rules() -> list[Json]:
    """One object of each kind, for this node: batch pods keep a quota, all CPUs are shared."""
    slo = {"resourceUsedThresholdWithBE": {"enable": False, "cpuSuppressPolicy": "cpuset"}}
    pools = json.dumps([{"socket": 0, "node": 0, "cpuset": "0-1"}])
    specs = [
        {"metadata": {"name": NODE}, "spec": slo},
        {"metadata": {"name": NODE, "annotations": {"node.koordinator.sh/cpu-shared-pools": pools}}},
    ]
    return [
        {"apiVersion": f"{group}/{version}", "kind": kind, **spec}
        for (kind, group, version, _), spec in zip(_KINDS, specs, strict=True)
    ]


def counted(log: str) -> Counter[str]:
    """The calls in an audit log of others than the cluster and this benchmark. Pure."""
    counts: Counter[str] = Counter()
    for line in log.splitlines():
        event = json.loads(line)
        if event.get("userAgent", "").startswith(_OWN_CLIENTS):
            continue
        stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
        if event["stage"] == stage:
            what = (event.get("objectRef") or {}).get("resource") or event["requestURI"].partition("?")[0]
            counts[f"{event['verb']} {what}"] += 1
    return counts


class BenchNode:
    """The node, with what the modes need of it."""

    def __init__(self, cluster: Cluster, audit: Path, root: Path) -> None:
        self.cluster, self.audit, self.root = cluster, audit, root
        self.pods_cgroup = cluster.runtime.run_dir.name
        self._socket = cluster.runtime.cri_socket

    def set_rules(self) -> None:
        """Put Koordinator's rules into the API."""
        api = self.cluster.api
        for kind, rule in zip(_KINDS, rules(), strict=True):
            _, group, version, plural = kind
            api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(*kind))
            self._when_served(f"/apis/{group}/{version}/{plural}")
            api.call("POST", f"/apis/{group}/{version}/{plural}", rule)
        ratio = {"metadata": {"annotations": {"node.koordinator.sh/cpu-normalization-ratio": str(RATIO)}}}
        api.call("PATCH", f"/api/v1/nodes/{NODE}", ratio, "application/merge-patch+json")

    def _when_served(self, path: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self.cluster.api.call("GET", path)
                return
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def point(self, socket: Path) -> None:
        """Have kubelet use that socket, and be ready."""
        if socket == self._socket:
            return
        kubelet = self.cluster.kubelet
        kubelet.stop()
        file = kubelet.folder / "config.json"
        settings = json.loads(file.read_text())
        settings["containerRuntimeEndpoint"] = settings["imageServiceEndpoint"] = f"unix://{socket}"
        file.write_text(json.dumps(settings, indent=1))
        kubelet.start()
        wait_for_node(self.cluster.api)
        self._socket = socket

    @property
    def is_direct(self) -> bool:
        """Whether kubelet speaks with the runtime itself."""
        return self._socket == self.cluster.runtime.cri_socket

    def calls_until_now(self) -> Counter[str]:
        """The calls of others than the cluster and this benchmark, by what was asked: `list pods`."""
        return counted(self.audit.read_text())

    def clear(self) -> None:
        """Take all pods away, also from the runtime, which kubelet does once a minute only."""
        self.cluster.clear()
        cri = self.cluster.runtime.cri
        deadline = time.monotonic() + _PATIENCE_S
        with ThreadPoolExecutor(4) as pool:
            while pods := cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items:
                ended = [pod.id for pod in pods if pod.state != pb.SANDBOX_READY]
                list(pool.map(self._remove, ended))
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{len(pods)} pods do not go:\n{self.cluster.kubelet.complaints()}")
                time.sleep(0.2)

    def _remove(self, pod_id: str) -> None:
        try:
            self.cluster.runtime.cri.call("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=pod_id))
        except grpc.RpcError:
            pass  # kubelet was faster, or has it in hand

    def cri_ms(self) -> float:
        """Milliseconds that kubelet has waited so far for calls that make pods and containers."""
        operations = ("run_podsandbox", "create_container", "start_container")
        total = 0.0
        for line in self.cluster.kubelet.client.get("/metrics").splitlines():
            if line.startswith("kubelet_runtime_operations_duration_seconds_sum") and any(
                w in line for w in operations
            ):
                total += float(line.rpartition(" ")[2])
        return total * 1e3


@contextmanager
def bench_node(say: Say) -> Iterator[BenchNode]:
    """Start all of it, and end it."""
    if not all((CGROUPS / controller).is_dir() for controller in FILES.values()):
        raise MissingError("cgroup v1", "the values that are looked at are in its files")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="nri-bench-")))
        policy, audit = folder / "audit.json", folder / "audit.log"
        policy.write_text(json.dumps(_AUDIT))
        audit.touch()
        options = ("--audit-policy-file", str(policy), "--audit-log-path", str(audit))
        cluster_ = stack.enter_context(cluster(say, options))
        # In the run directory, whose sweep unmounts whatever is left.
        root = stack.enter_context(_root(cluster_.runtime.run_dir / "host", cluster_.runtime.run_dir.name))
        node = BenchNode(cluster_, audit, root)
        node.set_rules()
        yield node


@contextmanager
def _root(folder: Path, cgroup: str) -> Iterator[Path]:
    """A root path in which the run's own cgroup is the top of each hierarchy, and is also found by its own name.

    So the agent finds the node's pods at the paths that the runtime reports.
    """
    places = [(Path("/proc"), folder / "proc"), (Path("/sys/devices"), folder / "sys/devices")]
    tops = [top for top in CGROUPS.iterdir() if (top / cgroup).is_dir() and not top.is_symlink()]
    for top in tops:
        copy = folder / f"sys/fs/cgroup/{top.name}"
        places += [(top / cgroup, copy), (top / cgroup, copy / cgroup)]
    with ExitStack() as stack:
        for source, target in places:
            target.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--bind", str(source), str(target)], check=True, timeout=10)
            stack.callback(unmount, target)
        yield folder
