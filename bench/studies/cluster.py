"""A private cluster of one node for benchmarks: etcd, kube-apiserver, kubelet and a runtime.

The parts are those of tests/kubernetes. One HTTP client that keeps its connection creates the pods, without kubectl.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlparse

from tests.kubernetes import build
from tests.kubernetes.cluster import make_bridge
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import NODE, Kubelet
from tools.runtimes.config import DaemonSettings, pod_gateway
from tools.runtimes.containerd import Containerd
from tools.runtimes.engine import PACKAGES, Engine
from tools.runtimes.machine import FOR_CONTAINERD, Say, ensure_packages
from tools.runtimes.releases import install

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
#: Pods of this node, as an agent asks for them.
OF_NODE = {"fieldSelector": f"spec.nodeName={NODE}"}
NODE_PODS = f"/api/v1/pods?{urlencode(OF_NODE)}"
#: What the benchmark's own calls say that they are.
USER_AGENT = "nri-bench"
JSON = "application/json"
#: The runtimes that a cluster can have, as tables call them.
CONTAINERD, ENGINE = "containerd 2.4", "nri engine"
_PATIENCE_S = 180.0
_CALL_S = 60.0


class Place(NamedTuple):
    """Where an API server is: host, port, and the token that opens it."""

    host: str
    port: int
    token: str

    @classmethod
    def of(cls, kubeconfig: Path) -> Place:
        """Read it from a kubeconfig of `ControlPlane`."""
        config = json.loads(kubeconfig.read_text())
        server = urlparse(config["clusters"][0]["cluster"]["server"])
        return cls(server.hostname or "", server.port or 443, config["users"][0]["user"]["token"])

    def headers(self, accept: str = JSON) -> dict[str, str]:
        """What each request says of itself."""
        return {"Authorization": f"Bearer {self.token}", "Accept": accept, "User-Agent": USER_AGENT}


def unchecked() -> ssl.SSLContext:
    """TLS with a server whose certificate is its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Api:
    """A client that keeps one connection."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._connection = http.client.HTTPSConnection(place.host, place.port, timeout=_CALL_S, context=unchecked())

    def call(self, method: str, path: str, body: Json | None = None, kind: str = JSON) -> Json:
        """Return the answer. RuntimeError with the server's words if it is an error."""
        sent = json.dumps(body).encode() if body is not None else None
        self._connection.request(method, path, sent, self.place.headers() | {"Content-Type": kind})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: HTTP {answer.status}: {text[:500].decode(errors='replace')}")
        reply: Json = json.loads(text)
        return reply

    def text(self, path: str) -> str:
        """Return an answer that is no JSON."""
        self._connection.request("GET", path, None, self.place.headers("*/*"))
        return self._connection.getresponse().read().decode()

    def pods(self) -> list[Json]:
        """Return the pods of the node."""
        pods: list[Json] = self.call("GET", NODE_PODS + "&resourceVersion=0")["items"]
        return pods

    def make(self, manifest: Json) -> tuple[str, int]:
        """Make a pod; its uid, and the moment at which the request was sent (`time.time_ns`)."""
        began = time.time_ns()
        return self.call("POST", PODS, manifest)["metadata"]["uid"], began

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


class Cluster:
    """What runs: `api`, `kubelet`, `runtime`."""

    def __init__(self, runtime: Containerd | Engine, plane: ControlPlane, kubelet: Kubelet) -> None:
        self.runtime, self.plane, self.kubelet = runtime, plane, kubelet
        self.api = Api(Place.of(plane.kubeconfig))

    def wait(self, holds: Callable[[list[Json]], object], what: str) -> list[Json]:
        """Wait until the API says so of the node's pods; returns them."""
        deadline = time.monotonic() + _PATIENCE_S
        while not holds(pods := self.api.pods()):
            if time.monotonic() > deadline:
                phases = [(pod["metadata"]["name"], pod["status"].get("phase")) for pod in pods]
                raise RuntimeError(f"not {what} in {_PATIENCE_S:g} s: {phases}\n{self.kubelet.complaints()}")
            time.sleep(0.25)
        return pods

    def wait_running(self, count: int) -> list[Json]:
        """Wait until this many pods run; returns them."""
        return self.wait(lambda pods: len(pods) == count and all(map(runs, pods)), f"{count} running pods")

    def clear(self) -> None:
        """Take all pods away, and wait until the runtime has none."""
        self.api.call("DELETE", PODS + "?gracePeriodSeconds=0")
        self.wait(lambda pods: not pods, "without pods")


def runs(pod: Json) -> bool:
    """Whether all containers of a pod run by what the API says."""
    rows = pod["status"].get("containerStatuses") or []
    return bool(rows) and all("running" in row["state"] for row in rows)


def container_ids(pod: Json) -> list[str]:
    """The runtime's ids of a pod's containers, as far as the API, or the agent, knows them."""
    rows = pod["status"].get("containerStatuses") or []
    return [row["containerID"].rpartition("://")[2] for row in rows if row.get("containerID")]


def process_ms(pid: int) -> float:
    """Processor time of a process, in milliseconds, with that of threads that have ended."""
    clock = (~pid << 3) | 2  # clock_getcpuclockid(3), of a process
    return time.clock_gettime(clock) * 1e3


@contextmanager
def cluster(say: Say, arguments: Sequence[str] = (), runtime_name: str = CONTAINERD) -> Iterator[Cluster]:
    """A node that has joined; `arguments` are further ones of the API server. MissingError if a part is not there."""
    ensure_packages(say, PACKAGES if runtime_name == ENGINE else FOR_CONTAINERD)
    program = build.program("kubelet")
    with ExitStack() as stack:
        runtime: Containerd | Engine
        if runtime_name == ENGINE:
            runtime = Engine(say)
        else:
            runtime = Containerd(install("2.4", say), DaemonSettings(log_level="warn"), say)
        stack.callback(runtime.close)
        runtime.enable_pod_network()
        make_bridge(runtime.run_dir)
        runtime.start()
        plane = ControlPlane(runtime.run_dir, say, arguments)
        stack.callback(plane.close)
        plane.start()
        kubelet = Kubelet(program, runtime.cri_socket, runtime.run_dir, plane.kubeconfig, pod_gateway(runtime.run_dir))
        stack.callback(kubelet.close)
        kubelet.start()
        _weigh(runtime.run_dir.name)
        node = Cluster(runtime, plane, kubelet)
        stack.callback(node.api.close)
        wait_for_node(node.api)
        yield node


def _weigh(cgroup: str) -> None:
    """Give what runs in pods the priority of this process, whose nice value does not reach into their cgroups."""
    file = Path("/sys/fs/cgroup/cpu", cgroup, "cpu.shares")
    if file.exists():
        file.write_text(str(round(1024 * 1.25 ** -os.nice(0))))


def wait_for_node(api: Api) -> None:
    """Wait until the kubelet has registered its node in the API."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(RuntimeError):
            api.call("GET", f"/api/v1/nodes/{NODE}")
            return
        time.sleep(0.1)
    raise RuntimeError("the node did not register")
