"""Views of generated pods on a grid: numbers of pods and containers, sizes of annotations, distances to the API server.

The API server and etcd are real. Pods are objects of a node that does not exist, with statuses as a kubelet writes
them. The runtime is this package's adaptation with the same pods and containers ready, so that only the two ways
differ. A distant API server is simulated by a relay (`far.py`).
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from bench.studies.apiserver import tables, views
from bench.studies.apiserver.tables import Cell, ViewCost
from bench.studies.apiserver.turns import in_turns
from bench.studies.apiserver.views import INFORMER, INFORMER_LIST, LISTED, READY, Lists, Way, synchronized
from bench.studies.cluster import NODE_PODS, PODS, Api, Json, Place
from nri.api import messages as m
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import NODE
from tests.peers.drivers import LineProcess
from tools.runtimes.machine import Say

#: The grid: pods, containers in each, bytes of a pod's annotations.
PODS_EACH, CONTAINERS_EACH, ANNOTATIONS = (10, 50, 110), (1, 2, 5), (512, 4 << 10, 64 << 10)
#: Milliseconds to the API server and back, with one container and 4 KiB of annotations.
DISTANCES_MS = (0.2, 1.0, 5.0)
#: Where rubik's informers are measured.
INFORMED = [Cell(pods, 1, ANNOTATIONS[0], ms) for ms in (0.0, DISTANCES_MS[-1]) for pods in (1, *PODS_EACH)]
_ENV, _VOLUMES = 10, 4
_NAME = "main"


def cells() -> list[Cell]:
    """All places, in the order in which pods are made for them."""
    local_cells = [
        Cell(pods, containers, size) for size in ANNOTATIONS for containers in CONTAINERS_EACH for pods in PODS_EACH
    ]  # fewest new pods in a row
    distant_cells = [Cell(pods, 1, ANNOTATIONS[1], ms) for pods in (1, *PODS_EACH) for ms in DISTANCES_MS]
    return local_cells + distant_cells


def _id(*words: object) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()


def manifest(number: int, cell: Cell) -> Json:
    """The manifest of a pod with typical environment, volumes and requests."""
    mounts = [{"name": f"volume-{i}", "mountPath": f"/mnt/volume-{i}"} for i in range(_VOLUMES)]
    containers = [
        {
            "name": f"{_NAME}-{index}",
            "image": "registry.example.com/bench/server:v1.2.3",
            "args": ["/usr/bin/bench-server", "--listen=:8080", "--verbose"],
            "env": [{"name": f"BENCH_VARIABLE_{i:02}", "value": f"value-of-{i:02}"} for i in range(_ENV)],
            "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            "volumeMounts": mounts,
        }
        for index in range(cell.containers)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"p{number}",
            "labels": {f"app.example.com/label-{i}": f"value-{i}" for i in range(5)},
            "annotations": {f"bench.example.com/note-{i}": "x" * (cell.annotation_bytes // 4) for i in range(4)},
        },
        "spec": {
            "nodeName": NODE,
            "containers": containers,
            "volumes": [{"name": f"volume-{i}", "emptyDir": {}} for i in range(_VOLUMES)],
            "terminationGracePeriodSeconds": 0,
        },
    }


def status(number: int, cell: Cell) -> Json:
    """What a kubelet writes of a pod that runs."""
    now = "2026-01-01T00:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    rows = [
        {
            "name": f"{_NAME}-{index}",
            "image": "registry.example.com/bench/server:v1.2.3",
            "imageID": f"registry.example.com/bench/server@sha256:{_id('image')}",
            "containerID": f"containerd://{_id(number, index)}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for index in range(cell.containers)
    ]
    address = f"10.128.3.{number % 250 + 1}"
    return {
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
            "hostIP": "192.0.2.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now,
            "qosClass": "Burstable",
            "containerStatuses": rows,
        }
    }


def runtime_state(pods: Sequence[Json], cell: Cell) -> m.SynchronizeRequest:
    """The same pods as a runtime reports them by NRI."""
    request = m.SynchronizeRequest()
    for number, item in enumerate(pods):
        meta = item["metadata"]
        parent = f"/kubepods/burstable/pod{meta['uid']}"
        pod = request.pods.add(id=_id("sandbox", number), name=meta["name"], uid=meta["uid"], namespace="default")
        pod.labels.update(meta["labels"])
        pod.annotations.update(meta["annotations"])
        pod.linux.cgroup_parent = parent
        pod.ips.append(item["status"]["podIP"])
        for kind in ("ipc", "uts", "network"):
            pod.linux.namespaces.add(type=kind, path=f"/proc/4242/ns/{kind}")
        for index in range(cell.containers):
            container = request.containers.add(
                id=_id(int(meta["name"][1:]), index),
                pod_sandbox_id=pod.id,
                name=f"{_NAME}-{index}",
                state=m.ContainerState.CONTAINER_RUNNING,
                args=["/usr/bin/bench-server", "--listen=:8080", "--verbose"],
                created_at=1_700_000_000_000_000_000,
                pid=4243,
            )
            _fill(container, meta, parent)
    return request


def _fill(container: m.Container, meta: Json, parent: str) -> None:
    names = ("pod.name", "pod.namespace", "pod.uid", "container.name")
    container.labels.update({f"io.kubernetes.{name}": meta["uid"] for name in names})
    container.annotations.update({f"io.kubernetes.container.{i}": "v" * 8 for i in range(6)})
    container.env.extend(f"BENCH_VARIABLE_{i:02}=value-of-{i:02}" for i in range(_ENV))
    container.env.extend(f"KUBERNETES_SERVICE_{i}=tcp://10.96.0.1:443" for i in range(7))
    for i in range(_VOLUMES + 10):  # those of the spec, and what runtime and kubelet add
        source = f"/var/lib/kubelet/pods/{meta['uid']}/volumes/kubernetes.io~empty-dir/volume-{i}"
        container.mounts.add(destination=f"/mnt/volume-{i}", type="bind", source=source, options=["rbind", "rprivate"])
    linux = container.linux
    for kind in ("pid", "ipc", "uts", "mount", "network", "cgroup"):
        linux.namespaces.add(type=kind)
    resources = linux.resources
    resources.memory.limit.value = 1 << 30
    resources.cpu.shares.value = 256
    resources.cpu.quota.value = 200_000
    resources.cpu.period.value = 100_000
    linux.oom_score_adj.value = 900
    linux.cgroups_path = f"{parent}/{container.id}"


class Bench:
    """A control plane, and what is made on it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self._folder = plane, folder
        self.api = Api(Place.of(plane.kubeconfig))
        self._made: Cell | None = None

    def make(self, cell: Cell) -> None:
        """Have the pods of this cell, and no others."""
        existing = self._made
        if existing is None or existing[1:3] != cell[1:3] or existing.pods > cell.pods:
            self.api.call("DELETE", PODS + "?gracePeriodSeconds=0")
            have = 0
        else:
            have = existing.pods
        for number in range(have, cell.pods):
            self.api.make(manifest(number, cell))
            path = f"{PODS}/p{number}/status"
            self.api.call("PATCH", path, status(number, cell), "application/strategic-merge-patch+json")
        self._made = cell

    @contextmanager
    def runtime(self, cell: Cell) -> Iterator[tuple[Path, int]]:
        """A runtime that has them ready: its socket and its process."""
        path, file = self._folder / "ready.sock", self._folder / "state"
        file.write_bytes(runtime_state(self.api.call("GET", NODE_PODS)["items"], cell).SerializeToString())
        with LineProcess([sys.executable, "-m", "bench.studies.apiserver.ready", str(path), str(file)]) as process:
            process.wait_event("ready", timeout_s=30)
            yield path, process.pid

    @contextmanager
    def place(self, cell: Cell) -> Iterator[Place]:
        """Where the API server is seen from that distance."""
        local_place = Place.of(self.plane.kubeconfig)
        if not cell.distance_ms:
            yield local_place
            return
        words = [sys.executable, "-m", "bench.studies.apiserver.far", str(local_place.port), str(cell.distance_ms)]
        with LineProcess(words) as relay:
            yield local_place._replace(port=int(relay.wait_event("ready", timeout_s=30)["port"]))

    def informers(self, cell: Cell, rounds: int, views_each: int) -> dict[str, ViewCost]:
        """Have rubik's informers take the first view, in turns."""
        self.make(cell)
        with self.runtime(cell) as (path, pid), self.place(cell) as place:
            config_path = self._folder / "kubeconfig"
            config_path.write_text(
                self.plane.kubeconfig.read_text().replace(f":{Place.of(self.plane.kubeconfig).port}", f":{place.port}")
            )
            ways: dict[str, Way] = {
                INFORMER_LIST: lambda: views.informed(None, config_path),
                INFORMER: lambda: views.informed(path),
            }
            return in_turns(ways, {INFORMER_LIST: self.plane.pids, INFORMER: [pid]}, rounds, views_each)

    def take(self, cell: Cell, rounds: int, views_each: int) -> dict[str, ViewCost]:
        """Take the first view in all ways, in turns."""
        self.make(cell)
        with self.runtime(cell) as (path, pid), self.place(cell) as place, closing(Lists(place)) as lists:
            ways: dict[str, Way] = {
                LISTED: lambda: lists.fresh(NODE_PODS),
                views.CACHED: lambda: lists.fresh(views.CACHE),
            }
            if not cell.distance_ms:
                ways[views.CLIENT] = lambda: views.by_our_client(self.plane.kubeconfig)
            ways[READY] = lambda: synchronized(path)
            servers = dict.fromkeys(ways, self.plane.pids) | {READY: [pid]}
            costs = in_turns(ways, servers, rounds, views_each)
            return costs | {READY: costs[READY]._replace(bytes=views.relayed(path))}


def report(rounds: int, views_each: int, say: Say, chosen: Sequence[Cell] = (), *, informers: bool = False) -> str:
    """Measure the grid, or the chosen cells, or rubik's informers; the text of all tables."""
    costs_by_cell: dict[Cell, Mapping[str, ViewCost]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nri-grid-")))
        plane = ControlPlane(folder, say)
        stack.callback(plane.close)
        plane.start()
        bench = Bench(plane, folder)
        stack.callback(bench.api.close)
        take, table = (bench.informers, tables.informers) if informers else (bench.take, tables.grid)
        for cell in chosen or (INFORMED if informers else cells()):
            say(f"grid: {cell}")
            costs_by_cell[cell] = take(cell, rounds, views_each)
            say(table([(cell, costs_by_cell[cell])]))
    about = (
        f"{rounds} interleaved rounds of {views_each} views, {time.strftime('%Y-%m-%d')}, CPython "
        f"{platform.python_version()}, Linux {platform.release().split('-')[0]}, {os.cpu_count()} cores that etcd, "
        "kube-apiserver 1.34, the runtime and the agent's side share; no kubelet and no containers run."
    )
    return f"{about}\n\n{table([*costs_by_cell.items()])}\n"
