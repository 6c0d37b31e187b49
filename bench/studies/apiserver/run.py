"""`python -m bench apiserver`: what an agent sees of its node, from a real kube-apiserver and from containerd by NRI.

As root. A cluster of one node (etcd, kube-apiserver, kubelet, containerd 2.4, then one with this package's engine in
its place) runs 1, then 10, then 110 pods of one container that sleeps. With each number the first full view is taken in
every way, in turns; while pods are made, programs that watch in different ways print when they learn of each
container. Prints tables; with --write they go into bench/RESULTS.md. With --grid there is no node: pods of all sizes on
an API server alone, near and far, and a runtime that has the same ones ready.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.report import put
from bench.studies.apiserver import grid, observers, tables, views
from bench.studies.apiserver.tables import Lag, ViewCost
from bench.studies.apiserver.turns import in_turns
from bench.studies.apiserver.views import CACHE, LISTED, NRI, Lists, Way, relayed, synchronized
from bench.studies.cluster import CONTAINERD, ENGINE, NODE_PODS, Cluster, Json, Place, cluster, container_ids
from nri.cri.pb import api_pb2 as pb
from tests.kubernetes.kubelet import NODE
from tests.kubernetes.pods import container, pod
from tests.peers.drivers import LineProcess
from tools.runtimes.machine import MissingError

#: Numbers of pods at which the first view is taken, and how many of them come one after the other.
PODS, SINGLES = (1, 10, 110), 20
#: A pod's annotations are not small on a cluster: schedulers and admission write there. As many bytes in each pod.
ANNOTATION_BYTES = 512
#: Fewer pods than that have no percentiles.
FEWEST = 5
_SETTLE_S = 2.0


def manifest(number: int) -> Json:
    """A pod whose one container sleeps."""
    annotations = {"bench.example.com/padding": "x" * ANNOTATION_BYTES}
    manifest_ = pod(f"p{number}", container(command=["/bin/sleep", "2147483647"]), annotations=annotations)
    manifest_["spec"] |= {"nodeName": NODE, "terminationGracePeriodSeconds": 0}
    return manifest_


class Counted(NamedTuple):
    """What is measured at one number of pods: rounds, and views of each way in a round."""

    rounds: int
    views: int


def ways(node: Cluster, lists: Lists) -> dict[str, Way]:
    """All ways, by name."""
    return {
        LISTED: lambda: lists.fresh(NODE_PODS),
        views.CACHED: lambda: lists.fresh(CACHE),
        views.AGAIN: lists.next_list,
        views.BARE: lists.bare,
        views.CLIENT: lambda: views.by_our_client(node.plane.kubeconfig),
        NRI: lambda: synchronized(node.runtime.nri_socket),
        views.READY: lambda: synchronized(_ready_socket(node)),
    }


def _ready_socket(node: Cluster) -> Path:
    return node.runtime.run_dir / "ready.sock"


@contextmanager
def ready(node: Cluster) -> Iterator[LineProcess]:
    """Run a runtime of this package with the present state of the node's runtime."""
    file = node.runtime.run_dir / "runtime-state"
    file.write_bytes(views.runtime_state(node.runtime.nri_socket))
    words = [sys.executable, "-m", "bench.studies.apiserver.ready", str(_ready_socket(node)), str(file)]
    with LineProcess(words) as process:
        process.wait_event("ready", timeout_s=30)
        yield process


def take(node: Cluster, counted: Counted) -> dict[str, ViewCost]:
    """Take the first view in all ways, in turns."""
    with ready(node) as process:
        return _take(node, process.pid, counted)


def _take(node: Cluster, ready_pid: int, counted: Counted) -> dict[str, ViewCost]:
    lists = Lists(Place.of(node.plane.kubeconfig))
    chosen = ways(node, lists)
    servers = dict.fromkeys(chosen, node.plane.pids) | {NRI: [node.runtime.pid], views.READY: [ready_pid]}
    costs = in_turns(chosen, servers, counted.rounds, counted.views)
    lists.close()
    return costs | {NRI: costs[NRI]._replace(bytes=relayed(node.runtime.nri_socket))}


class Watched(NamedTuple):
    """The programs that look on, by how."""

    programs: dict[str, LineProcess]

    def moments(self, how: str, what: str) -> dict[str, int]:
        """When an observer printed an event, by container."""
        return {line["id"]: line["ns"] for line in [*self.programs[how].lines] if line.get("what") == what}


@contextmanager
def watched(node: Cluster) -> Iterator[Watched]:
    """Have all programs look on for as long as the block lasts."""
    where = {"nri": node.runtime.nri_socket, "watch": node.plane.kubeconfig, "poll": node.plane.kubeconfig}
    with ExitStack() as stack:
        running = {
            how: stack.enter_context(LineProcess([sys.executable, "-m", "bench.studies.apiserver.observers", how, at]))
            for how, at in where.items()
        }
        for process in running.values():
            process.wait_for(lambda line: line.get("what") == "ready", timeout_s=30)
        yield Watched(running)


def fill(node: Cluster, numbers: Sequence[int], watchers: Watched, *, apart: bool) -> list[Lag]:
    """Make pods, one after the other or all at once, and say when each observer knew of their containers."""
    uids = set()
    for number in numbers:
        uids.add(node.api.make(manifest(number))[0])
        if apart:
            node.wait_running(number + 1)
    pods = node.wait_running(numbers[-1] + 1)
    time.sleep(2 * observers.POLL_S)
    began = {name: started(node, name) for pod in pods if pod["metadata"]["uid"] in uids for name in container_ids(pod)}
    moments = {
        "NRI: CreateContainer": watchers.moments("nri", observers.CREATED),
        "NRI: PostStartContainer": watchers.moments("nri", observers.RUNNING),
        "apiserver: watch": watchers.moments("watch", observers.RUNNING),
        f"apiserver: a list each {observers.POLL_S:g} s": watchers.moments("poll", observers.RUNNING),
    }
    return [
        Lag(how, [(at[name] - moment) / 1e6 for name, moment in began.items() if name in at])
        for how, at in moments.items()
    ]


def started(node: Cluster, container_id: str) -> int:
    """When the runtime has started a container (`time.time_ns`)."""
    status = node.runtime.cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=container_id)).status
    return int(status.started_at)


class Measured(NamedTuple):
    """All of one cluster: views by number of pods, lags by how pods were made."""

    costs: dict[int, dict[str, ViewCost]]
    lags: dict[str, list[Lag]]


def measure(options: argparse.Namespace, runtime: str) -> Measured:
    """Fill a cluster with that runtime, and look at it."""
    measured = Measured({}, {})
    with cluster(_say, runtime_name=runtime) as node:
        pod_count = 0
        for target in options.pods:
            with watched(node) as watchers:
                apart = min(pod_count + options.singles, target) if pod_count else pod_count
                if apart > pod_count and target > 10:
                    _say(f"{runtime}: pods {pod_count} to {apart}, one after the other")
                    lag = fill(node, range(pod_count, apart), watchers, apart=True)
                    measured.lags[f"{apart - pod_count}, one after the other"] = lag
                    pod_count = apart
                _say(f"{runtime}: pods {pod_count} to {target}, at once")
                lag = fill(node, range(pod_count, target), watchers, apart=False)
                if target - pod_count >= FEWEST or target == max(options.pods):
                    measured.lags[f"{target - pod_count}, at once"] = lag
                pod_count = target
            time.sleep(_SETTLE_S)
            _say(f"{runtime}: views of {pod_count} pods")
            measured.costs[pod_count] = take(node, Counted(options.rounds, options.each))
            _say(tables.views({pod_count: measured.costs[pod_count]}))
    return measured


def report(options: argparse.Namespace) -> str:
    """Measure everything; the text of all tables."""
    about = (
        f"{options.rounds} interleaved rounds of {options.each} views, {time.strftime('%Y-%m-%d')}, "
        f"CPython {platform.python_version()}, Linux {platform.release().split('-')[0]}, {os.cpu_count()} cores that "
        "everything shares: etcd, kube-apiserver 1.34, kubelet, the runtime, pods and the agent's side."
    )
    parts = [about]
    for runtime in options.runtimes:
        measured = measure(options, runtime)
        parts += [f"### First full view, {runtime}", tables.goal(measured.costs), tables.views(measured.costs)]
        parts += [f"### When a container is reported, {runtime}", tables.lags(measured.lags)]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench apiserver", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--each", type=int, default=10, help="views of each way in a round (default 10)")
    parser.add_argument("--pods", type=int, nargs="+", default=list(PODS), metavar="N", help="numbers of pods, growing")
    both = [CONTAINERD, ENGINE]
    parser.add_argument("--runtimes", nargs="+", choices=both, default=both, metavar="RUNTIME")
    parser.add_argument("--singles", type=int, default=SINGLES, help="pods that are made one after the other")
    parser.add_argument("--grid", action="store_true", help="vary pods, containers, annotations and distance instead")
    parser.add_argument("--informers", action="store_true", help="rubik's own informers on such pods, near and far")
    parser.add_argument("--write", action="store_true", help="put the tables into bench/RESULTS.md")
    options = parser.parse_args(arguments)
    on_grid = options.grid or options.informers
    name = "apiserver-informers" if options.informers else "apiserver-grid" if options.grid else "apiserver"
    try:
        text = (
            grid.report(options.rounds, options.each, _say, informers=options.informers) if on_grid else report(options)
        )
    except MissingError as error:
        _say(f"bench: error: {error}")
        return 2
    print(text)
    if options.write:
        put(name, text)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
