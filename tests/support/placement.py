"""Machines, pods and policies for tests of placement."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri.api import cpuset
from nri.host.topology import MemoryKind, Node, Topology
from nri.kube.requests import Requests
from nri.placement.balloons.policy import Balloons
from nri.placement.choices import Choices
from nri.placement.containers import Container, Pod
from nri.placement.machine import Machine
from nri.placement.recorded.machines import Machines, make_policy
from nri.placement.topology_aware.policy import TopologyAware
from tests.support.host_trees import write_files

DATA = Path(__file__).parents[1] / "conformance" / "data" / "placement"
GIB = 1 << 30


def guest(packages: int = 2, nodes: int = 2, cores: int = 2, threads: int = 2, **more: Any) -> Topology:
    """A machine by its shape, 2 GiB in each memory node; CPUs are numbered depth first."""
    shape = {"kind": "tree", "packages": packages, "numa_per_die": nodes, "cores_per_numa": cores, "threads": threads}
    return Machines({"guest": {"mem_kib_per_node": 2 << 20, **shape, **more}}, DATA).get("guest")


def numa_off() -> Topology:
    """The guest as its kernel shows it without NUMA: one memory node over both packages."""
    topology = guest()
    cpus = {number: replace(cpu, node=0) for number, cpu in topology.cpus.items()}
    return replace(topology, cpus=cpus, nodes={0: Node(0, topology.online, 8 * GIB, "dram", {0: 10})})


def with_memory(kind: MemoryKind, gib: int, normal: bool) -> Topology:
    """The guest with two more memory nodes, which have no CPUs, one near to each package."""
    topology = guest()
    nodes = {n: replace(node, distances={**node.distances, 4: 14 + 14 * (n > 1), 5: 28 - 14 * (n > 1)})
             for n, node in topology.nodes.items()}  # fmt: skip
    for number in (4, 5):
        distances = {n: node.distances[number] for n, node in nodes.items() if n < 4} | {4: 28, 5: 28, number: 10}
        nodes[number] = Node(number, frozenset(), gib * GIB, kind, distances, normal)
    return replace(topology, nodes=nodes)


def write_machine(folder: Path, topology: Topology) -> Path:
    """A root folder whose /sys shows a machine; returns it."""
    cpu, node = "sys/devices/system/cpu", "sys/devices/system/node"
    files = {
        f"{cpu}/online": cpuset.to_text(topology.online),
        f"{cpu}/present": cpuset.to_text(topology.present),
        f"{cpu}/isolated": cpuset.to_text(topology.isolated),
        f"{node}/online": cpuset.to_text(topology.nodes),
    }
    for number, one in topology.cpus.items():
        base = f"{cpu}/cpu{number}"
        files[f"{base}/topology/physical_package_id"] = str(one.package)
        files[f"{base}/topology/die_id"] = str(one.die)
        files[f"{base}/topology/cluster_id"] = str(one.cluster)
        files[f"{base}/topology/core_id"] = str(one.core)
        files[f"{base}/topology/thread_siblings_list"] = cpuset.to_text(one.threads)
        for place, cache in enumerate(one.caches):
            files[f"{base}/cache/index{place}/level"] = str(cache.level)
            files[f"{base}/cache/index{place}/type"] = cache.kind
            files[f"{base}/cache/index{place}/id"] = str(cache.number)
            files[f"{base}/cache/index{place}/shared_cpu_list"] = cpuset.to_text(cache.cpus)
    for number, entry in topology.nodes.items():
        files[f"{node}/node{number}/cpulist"] = cpuset.to_text(entry.cpus)
        files[f"{node}/node{number}/meminfo"] = f"Node {number} MemTotal: {entry.memory_bytes >> 10} kB\n"
        files[f"{node}/node{number}/distance"] = " ".join(map(str, entry.distances.values()))
    write_files(folder, files)
    return folder


def topology_aware(topology: Topology | None = None, choices: Choices = Choices.DEFAULT, **spec: Any) -> TopologyAware:
    """topology-aware, with one reserved CPU."""
    spec = {"reservedResources": {"cpu": "cpuset:0"}, **spec}
    policy = make_policy("topology-aware", Machine.of(topology or guest()), spec, choices)
    assert isinstance(policy, TopologyAware)
    return policy


def balloons(*types: dict[str, Any], topology: Topology | None = None, choices: Choices = Choices.DEFAULT,
             **spec: Any) -> Balloons:  # fmt: skip
    """balloons, with one reserved CPU."""
    spec = {"reservedResources": {"cpu": "1"}, "balloonTypes": list(types), **spec}
    policy = make_policy("balloons", Machine.of(topology or guest()), spec, choices)
    assert isinstance(policy, Balloons)
    return policy


def container(name: str, cpu_m: int = 0, memory: int = 0, qos: str = "", limit_m: int = 0, pod: str = "",
              namespace: str = "default", memory_limit: int = 0, **annotations: str) -> Container:  # fmt: skip
    """A container in a pod of its own; annotations by their keys without the domain, `_` for `-`."""
    qos = qos or ("Guaranteed" if cpu_m else "BestEffort")
    parts = ((*key.replace("_", "-").partition("/"), value) for key, value in annotations.items())
    argument = {f"{word}.resource-policy.nri.io{slash}{scope}": value for word, slash, scope, value in parts}
    requests = Requests(cpu_m, limit_m or (cpu_m if qos == "Guaranteed" else 0), memory, memory_limit or memory)
    return Container(name, name, Pod(pod or name, pod or name, namespace, qos=qos, annotations=argument), requests)


def sequence(pods: int, highest: int) -> Iterator[tuple[str, int]]:
    """`create N` and `stop N` of so many pods, at most `highest` at a time; drawn, and the same each time."""
    draw, alive = random.Random(24), list[int]()
    for number in range(pods):
        while len(alive) >= highest or (alive and draw.random() < 0.3):
            yield "stop", alive.pop(draw.randrange(len(alive)))
        alive.append(number)
        yield "create", number
    for number in alive:
        yield "stop", number
