"""`python -m bench proxy [--write]`: the processor time of `nri proxy` at rest, between a kubelet and its runtime.

As root. Pods of one container each are made through the proxy, in front of containerd 2.4 (or `--runtime engine`)
without NRI; then the calls that a kubelet 1.34 makes of itself when nothing happens are made at its rhythm, `EVERY_S`,
by a client in this process, and the proxy's processor time is read before and after. The same once for the statuses of
everything, for which a kubelet asks just after it has made pods. With --kubelet a real one makes static pods, and
calls as it likes, by its own metrics. With --write the table goes into bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import heapq
import os
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

import grpc
from google.protobuf.message import Message
from prometheus_client.parser import text_string_to_metric_families

from bench.report import put, table
from bench.studies.cluster import process_ms
from bench.studies.modes.tables import cell
from bench.studies.plugins import memory
from nri.cri.pb import api_pb2 as pb
from tests.kubernetes import build, kubelet
from tests.kubernetes import pods as manifests
from tests.kubernetes.node import Node, condition
from tools.runtimes.config import DaemonSettings
from tools.runtimes.containerd import Containerd
from tools.runtimes.cri import Pod
from tools.runtimes.engine import PACKAGES, Engine
from tools.runtimes.machine import FOR_CONTAINERD, MissingError, ensure_packages
from tools.runtimes.proxy import Proxied
from tools.runtimes.releases import install

_RUNTIME, _IMAGES = "/runtime.v1.RuntimeService/", "/runtime.v1.ImageService/"
_ALL_PODS = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter())
_ALL = pb.ListContainersRequest(filter=pb.ContainerFilter())
_STATS = pb.ListContainerStatsRequest(filter=pb.ContainerStatsFilter())
_READY = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY)))
_RUN = pb.ListContainersRequest(filter=pb.ContainerFilter(state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)))
#: The calls of a kubelet at rest, as its sources have them (generic PLEG, statistics from the CRI): who makes them, the
#: seconds between them, methods and requests.
EVERY_S: Sequence[tuple[str, float, Sequence[tuple[str, Message]]]] = (
    ("PLEG", 1, [("ListPodSandbox", pb.ListPodSandboxRequest()), ("ListContainers", _ALL)]),
    ("is the runtime up", 5, [("Status", pb.StatusRequest())]),
    ("node status", 10, [("Version", pb.VersionRequest())]),
    ("cache of what runs", 10, [("ListPodSandbox", _READY), ("ListContainers", _RUN)]),
    ("rotation of logs", 10, [("ListContainers", _ALL)]),
    ("eviction", 10, [("ListContainers", _ALL), ("ListPodSandbox", _ALL_PODS), ("ListContainerStats", _STATS),
                      ("ImageFsInfo", pb.ImageFsInfoRequest())]),
    ("metrics-server", 15, [("ListContainers", _ALL), ("ListPodSandbox", _ALL_PODS), ("ListContainerStats", _STATS)]),
    ("images", 30, [("ListImages", pb.ListImagesRequest())]),
    ("removal of what has ended", 60, [("ListContainers", _ALL), ("ListPodSandbox", pb.ListPodSandboxRequest())]),
)  # fmt: skip
#: A kubelet's own rhythm: that of tests is faster.
_RHYTHM = {"syncFrequency": "1m", "containerLogMonitorInterval": "10s", "fileCheckFrequency": "20s"}
#: The metric of a kubelet with its calls of the runtime, and how long its pods may take.
_OPERATIONS, _PODS_S = "kubelet_runtime_operations_total", 600.0
#: How long what is still going on has to come to its end, in seconds.
SETTLE_S = 5.0
#: As long as a kubelet's texts of a pod and of a container are.
LABELS = {f"bench.example.com/label-{n}": "a value of a label" for n in range(4)}
NOTES = {f"bench.example.com/annotation-{n}": "a value of an annotation that somebody has given " * 2 for n in range(4)}


class Kubelet:
    """Makes a kubelet's calls of a proxy."""

    def __init__(self, proxied: Proxied) -> None:
        address = f"unix://{proxied.cri_socket}"
        self._channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        self._cri = proxied.cri
        self._pods: list[tuple[Pod, str]] = []
        self.calls = 0

    def stay_at_rest(self, seconds: float) -> None:
        """Make the kubelet's periodic calls for this many seconds."""
        began = time.monotonic()
        queue = [(began + every * number / len(EVERY_S), number) for number, (_, every, _) in enumerate(EVERY_S)]
        heapq.heapify(queue)
        while queue[0][0] < began + seconds:
            at, number = queue[0]
            time.sleep(max(at - time.monotonic(), 0.0))
            _, every, calls = EVERY_S[number]
            for method, request in calls:
                self._call(method, request)
            heapq.heapreplace(queue, (at + every, number))
        time.sleep(max(began + seconds - time.monotonic(), 0.0))

    def make(self, count: int) -> None:
        """Run this many pods with one container each."""
        for number in range(count):
            pod = self._cri.run_pod(f"p{number}", labels=LABELS, annotations=NOTES)
            self._pods.append((pod, self._cri.run(pod, "main", annotations=NOTES, cpu_shares=2)))

    def check(self) -> None:
        """Ask for the status of each pod and container, as a kubelet does when they are new to it."""
        for pod, _ in self._pods:
            self._call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id))
        for _, container in self._pods:
            self._call("ContainerStatus", pb.ContainerStatusRequest(container_id=container))

    def _call(self, method: str, request: Message) -> None:
        service = _IMAGES if method in ("ListImages", "ImageFsInfo") else _RUNTIME
        self._channel.unary_unary(service + method)(request.SerializeToString(), timeout=120)
        self.calls += 1

    def close(self) -> None:
        """Hang up."""
        self._channel.close()


class RealKubelet:
    """A released kubelet that has the proxy as its runtime, and static pods."""

    def __init__(self, proxied: Proxied) -> None:
        program = build.program("kubelet")
        self._kubelet = kubelet.Kubelet(program, proxied.cri_socket, proxied.run_dir, more=_RHYTHM)
        self._node = Node(self._kubelet, proxied)
        self._kubelet.start()

    @property
    def calls(self) -> float:
        """How many calls of its runtime it has made, by its own metrics."""
        families = text_string_to_metric_families(self._kubelet.client.get("/metrics"))
        samples = [sample for family in families for sample in family.samples if sample.name == _OPERATIONS]
        return sum(sample.value for sample in samples)

    def make(self, count: int) -> None:
        """Run this many pods with one container each."""
        for pod in [self._node.run(manifests.pod(f"p{number}", annotations=NOTES)) for number in range(count)]:
            pod.wait(lambda status: condition(status, "Ready") == "True", "ready", _PODS_S)

    def check(self) -> None:
        """Do nothing: a real kubelet reads all statuses by itself."""

    def stay_at_rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Stop the kubelet; its pods stay."""
        self._kubelet.close()


class Rest:
    """Processor time of a proxy at at_rest.

    Attributes:
        cpu_ms: milliseconds a second, round by round.
        calls: a second.
        look_ms: for the statuses of all pods and containers, altogether.
        mib: resident and proportional set size at the end.
    """

    def __init__(self) -> None:
        self.cpu_ms: list[float] = []
        self.calls = self.look_ms = 0.0
        self.mib = (0.0, 0.0)

    def measure(self, proxied: Proxied, caller: Kubelet | RealKubelet, rounds: int, seconds: float) -> None:
        """Have a kubelet read all statuses, and then rest."""
        used = process_ms(proxied.pid)
        caller.look()
        self.look_ms = process_ms(proxied.pid) - used
        caller.stay_at_rest(SETTLE_S)
        for _ in range(rounds):
            used, calls = process_ms(proxied.pid), caller.calls
            caller.stay_at_rest(seconds)
            self.cpu_ms.append((process_ms(proxied.pid) - used) / seconds)
            self.calls = (caller.calls - calls) / seconds
        resident, proportional = memory(proxied.pid)
        self.mib = resident / 1024, proportional / 1024


def measure(options: argparse.Namespace) -> dict[int, Rest]:
    """Rest without pods, and with all; by their number."""
    rests = {count: Rest() for count in (0, options.pods)}
    with ExitStack() as stack:
        runtime: Containerd | Engine
        if options.runtime == "engine":
            ensure_packages(_say, PACKAGES)
            runtime = Engine(_say, nri=False)
        else:
            ensure_packages(_say, FOR_CONTAINERD)
            runtime = Containerd(install("2.4", _say), DaemonSettings(log_level="warn", nri={"disable": True}), _say)
        runtime.enable_pod_network()
        proxied = Proxied(runtime)
        stack.callback(proxied.close)
        proxied.start()
        caller = RealKubelet(proxied) if options.kubelet else Kubelet(proxied)
        stack.callback(caller.close)
        for count, at_rest in rests.items():
            caller.make(count)
            at_rest.measure(proxied, caller, options.rounds, options.seconds)
            _say(f"{count} pods: {cell(at_rest.cpu_ms)} ms a second")
        caller.close()
        runtime.cri.remove_all()
    return rests


def page(options: argparse.Namespace, rests: dict[int, Rest]) -> str:
    """The text of the table."""
    about = (
        f"{options.rounds} rounds of {options.seconds:g} s, {time.strftime('%Y-%m-%d')}, "
        f"{'kubelet ' + build.version() if options.kubelet else 'its calls'}, {options.runtime}, "
        f"CPython {platform.python_version()}, Linux {platform.release().split('-')[0]}, {os.cpu_count()} cores that "
        "everything shares."
    )
    head = ["pods", "calls a second", "at rest CPU ms a second", "all statuses once, CPU ms", "RSS MiB", "PSS MiB"]
    rows = [
        [
            str(count),
            f"{at_rest.calls:.1f}",
            cell(at_rest.cpu_ms),
            f"{at_rest.look_ms:.0f}" if at_rest.look_ms else "",
            *(f"{mib:.1f}" for mib in at_rest.mib),
        ]
        for count, at_rest in rests.items()
    ]
    return f"{about}\n\n{table(head, rows)}\n"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench proxy", description=__doc__)
    parser.add_argument("--runtime", choices=["containerd", "engine"], default="containerd")
    parser.add_argument("--kubelet", action="store_true", help="a real kubelet instead of its calls")
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round (default 20)")
    parser.add_argument("--write", action="store_true", help="put the table into bench/RESULTS.md")
    options = parser.parse_args(arguments)
    try:
        rests = measure(options)
    except MissingError as error:
        _say(f"bench: error: {error}")
        return 2
    text = page(options, rests)
    print(text)
    if options.write:
        put("proxy under a kubelet" if options.kubelet else "proxy", text)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
