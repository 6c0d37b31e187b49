"""Processors and memory of machines: two sockets with slow memory, two kinds of cores, no NUMA, CPUs that are off."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.host import Root, read_topology
from nri.host.topology import Cache
from tests.support.host_trees import write_files

CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"


def cpu(number: int, threads: str, package: int = 0, core: int = 0, **more: str) -> dict[str, str]:
    base = f"{CPU}/cpu{number}/topology"
    files = {
        f"{base}/thread_siblings_list": threads,
        f"{base}/physical_package_id": str(package),
        f"{base}/core_id": str(core),
    }
    return files | {f"{base}/{name}": text for name, text in more.items()}


def cache(number: int, index: int, level: int, kind: str, cpus: str, size: str, id_: str = "") -> dict[str, str]:
    base = f"{CPU}/cpu{number}/cache/index{index}"
    files = {
        f"{base}/level": str(level),
        f"{base}/type": f"{kind}\n",
        f"{base}/shared_cpu_list": cpus,
        f"{base}/size": f"{size}\n",
    }
    return files | ({f"{base}/id": id_} if id_ else {})


def node(number: int, cpus: str, kib: int, distances: str) -> dict[str, str]:
    base = f"{NODE}/node{number}"
    return {
        f"{base}/cpulist": cpus,
        f"{base}/meminfo": f"Node {number} MemTotal:  {kib} kB\n",
        f"{base}/distance": distances,
    }


@pytest.fixture
def server(tmp_path: Path) -> Root:
    """Two packages of two cores with two threads, a node each; a node of slow memory, and one of fast memory."""
    files = {f"{CPU}/online": "0-6", f"{CPU}/present": "0-7", f"{CPU}/isolated": "2,7\n", f"{NODE}/online": "0-3",
             f"{NODE}/has_normal_memory": "0-1", f"{CPU}/cpu0/cpufreq/base_frequency": "2700000\n"}  # fmt: skip
    for number in range(7):
        package, core = number % 2, number // 2 % 2
        files |= cpu(number, f"{number % 4},{number % 4 + 4}", package, core, die_id="0", cluster_id="9")
        files |= cache(number, 0, 1, "Instruction", f"{number % 4},{number % 4 + 4}", "32K", "1")
        files |= cache(number, 1, 3, "Unified", f"{package}-7:1/2", "2M", str(package))
    files |= node(0, "0,2,4,6", 4000, "10 21 17 28") | node(1, "1,3,5,7", 4000, "21 10 28 17")
    files |= node(2, "\n", 16000, "17 28 10 28") | node(3, "", 1000, "28 17 28 10")
    return write_files(tmp_path, files)


def test_packages_cores_and_caches_have_only_online_cpus(server: Root) -> None:
    topology = read_topology(server)
    assert topology.online == frozenset(range(7))
    assert (topology.present, topology.offline, topology.isolated) == (frozenset(range(8)), {7}, {2})
    assert topology.packages() == topology.dies() == topology.sharing(3) == [{0, 2, 4, 6}, {1, 3, 5}]
    assert topology.cores() == [{0, 4}, {1, 5}, {2, 6}, {3}]
    assert topology.sharing(2) == []
    assert topology.sharing(1) == [], "an instruction cache does not count as a shared data cache"
    first = topology.cpus[0]
    assert (first.node, first.cluster, first.kind, first.base_khz) == (0, 9, "uniform", 2700000)
    assert topology.cpus[1].base_khz is None
    assert first.caches == (
        Cache(1, "Instruction", frozenset({0, 4}), 32 << 10, 1),
        Cache(3, "Unified", frozenset({0, 2, 4, 6}), 2 << 20, 0),
    )


def test_memory_without_cpus_is_fast_or_slow_by_its_size(server: Root) -> None:
    nodes = read_topology(server).nodes
    assert [node.kind for node in nodes.values()] == ["dram", "dram", "pmem", "hbm"]
    assert nodes[0].memory_bytes == 4000 << 10
    assert [node.has_normal_memory for node in nodes.values()] == [True, True, False, False]
    assert nodes[1].cpus == {1, 3, 5}


def test_the_nearest_memory_comes_first(server: Root) -> None:
    topology = read_topology(server)
    assert topology.nearest(0) == [0, 2, 1, 3]
    assert topology.nearest(1) == [1, 3, 0, 2]
    with pytest.raises(KeyError):
        topology.nearest(7)


def test_two_kinds_of_cores_are_distinguished(tmp_path: Path) -> None:
    files = cpu(0, "0") | cpu(1, "1") | {"sys/devices/cpu_core/cpus": "0\n", "sys/devices/cpu_atom/cpus": "1\n"}
    topology = read_topology(write_files(tmp_path, files))
    assert [row.kind for row in topology.cpus.values()] == ["performance", "efficient"]


def test_a_kernel_without_numa_is_one_node(tmp_path: Path) -> None:
    files = cpu(0, "0") | cpu(8, "8") | {"proc/meminfo": "MemFree: 1 kB\nMemTotal: 8 kB\n"}
    topology = read_topology(write_files(tmp_path, files))
    assert topology.nodes[0].cpus == topology.online == {0, 8}
    assert (topology.nodes[0].memory_bytes, topology.nearest(0)) == (8192, [0])
    assert topology.cpus[8].node == 0


def test_missing_values_are_filled_in(tmp_path: Path) -> None:
    files = {f"{CPU}/cpu3/": "", f"{CPU}/cpufreq/": "", f"{NODE}/node0/cpulist": "3", f"{NODE}/node5/cpulist": "",
             f"{CPU}/cpu3/cache/index0/level": "1"}  # fmt: skip
    topology = read_topology(write_files(tmp_path, files))
    assert topology.cpus[3].threads == {3}
    assert (topology.cpus[3].package, topology.cpus[3].core, topology.cpus[3].cluster) == (0, -1, -1)
    assert topology.cpus[3].caches == (Cache(1, "Unified", frozenset(), 0, None),)
    assert topology.nodes[0].distances == {0: 10, 5: 20}
    assert topology.nodes[0].has_normal_memory
    assert topology.nearest(0) == []


def test_this_machines_topology_has_every_cpu() -> None:
    topology = read_topology(Root())
    assert topology.online
    assert frozenset().union(*topology.cores()) == topology.online
    assert all(node.node in topology.nodes for node in topology.cpus.values())
    assert sum(node.memory_bytes for node in topology.nodes.values()) > 1 << 20
