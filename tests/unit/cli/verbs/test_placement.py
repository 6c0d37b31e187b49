"""`nri placement simulate` on a machine whose /sys was copied."""

from __future__ import annotations

import json

import pytest

from tests.support.host_trees import write_files

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    image: shop
    resources: {limits: {cpu: "2", memory: 1Mi}}
  - name: huge
    image: shop
    resources: {limits: {cpu: "9", memory: 1Mi}}
"""


@pytest.fixture
def machine(tmp_path):
    cpu, node = "sys/devices/system/cpu", "sys/devices/system/node"
    files = {f"{cpu}/online": "0-3", f"{node}/online": "0", f"{node}/node0/cpulist": "0-3"}
    files |= {f"{node}/node0/meminfo": "Node 0 MemTotal: 1000000 kB", f"{node}/node0/distance": "10"}
    for number in range(4):
        files |= {f"{cpu}/cpu{number}/topology/thread_siblings_list": str(number)}
        files |= {f"{cpu}/cpu{number}/topology/physical_package_id": "0"}
    write_files(tmp_path / "machine", files)
    (tmp_path / "pods.yaml").write_text(POD)
    return tmp_path


def simulate(nri, folder, policy: str, *more: str):
    (folder / "policy.yaml").write_text(policy)
    files = ("--machine", str(folder / "machine"), "--policy", str(folder / "policy.yaml"))
    return nri("placement", "simulate", *files, "--pods", str(folder / "pods.yaml"), *more)


def test_containers_are_placed_or_refused_with_the_reason(nri, machine) -> None:
    policy = "kind: TopologyAwarePolicy\nspec: {reservedResources: {cpu: 'cpuset:0'}}\n"
    done = simulate(nri, machine, policy, "-o", "json")
    main, huge = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert main == {"container": "default/web/main", "cpus": "1-2", "mems": "0", "shares": 2048, "refused": ""}
    assert huge["refused"].startswith("socket #0 lacks")


def test_what_is_no_policy_is_one_line(nri, machine) -> None:
    for policy, words in (
        ("kind: Pod\nspec: {}\n", '"Pod" is no kind of policy'),
        ("kind: BalloonsPolicy\nspec: {balloonType: []}\n", "balloonTypes"),
    ):
        done = simulate(nri, machine, policy)
        assert done.returncode != 0
        assert words in done.stderr


def test_a_folder_without_a_machine_is_one_line(nri, machine) -> None:
    done = nri("placement", "simulate", "--machine", str(machine / "none"), "--policy", "x", "--pods", "y")
    assert done.returncode != 0
    assert "there are no CPUs in sys/devices/system/cpu" in done.stderr
