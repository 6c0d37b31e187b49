"""Record the zones that nri-plugins itself exports in a NodeResourceTopology, for test_node_zones.py.

`python -m tests.conformance.record_zones CHECKOUT` builds main.go inside a checkout of containers/nri-plugins, plays
each case of cases.py with the original's policies, and writes data/placement/node-zones.json. It also lets the
original load each of data/placement/configurations.yaml, and ends with an error where the verdict is another. Needs Go.
"""

import json
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from shutil import copy
from typing import Any

import yaml

from nri.api import cpuset
from nri.kube.quantity import cpu_quota_us, cpu_shares
from nri.placement.recorded.machines import Machines
from tests.conformance.record_zones.cases import CASES
from tests.support.host_trees import write_files
from tests.support.placement import DATA, write_machine

HERE = Path(__file__).resolve().parent
GUEST = {
    "kind": "tree",
    "packages": 2,
    "numa_per_die": 2,
    "cores_per_numa": 2,
    "threads": 2,
    "mem_kib_per_node": 2 << 20,
}
SCORES = {"Guaranteed": -997, "BestEffort": 1000}


def main(checkout: Path) -> None:
    program = build(checkout)
    check_verdicts(program)
    described = json.loads(subprocess.check_output(["xz", "-dc", str(DATA / "placement.json.xz")]))
    machines = Machines(described["topologies"], DATA)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            root = Path(folder, case["topology"])
            if not root.exists():
                write_whole_machine(root, machines, case["topology"])
            cases.append(case | {"zones": play(program, root, case)})
    commit = subprocess.check_output(["git", "-C", str(checkout), "rev-parse", "HEAD"], text=True).strip()
    reference = {"repository": "containers/nri-plugins", "commit": commit}
    lines = [json.dumps(case) for case in cases]
    text = f'{{"reference": {json.dumps(reference)}, "cases": [\n' + ",\n".join(lines) + "\n]}\n"
    (DATA / "node-zones.json").write_text(text)


def build(checkout: Path) -> Path:
    """Build main.go as a command of the checkout, because its packages read files of their own module."""
    folder = checkout / "cmd" / "nrtzones"
    folder.mkdir(exist_ok=True)
    copy(HERE / "main.go", folder)
    program = checkout / "nrtzones"
    subprocess.run(["go", "build", "-o", str(program), "./cmd/nrtzones"], cwd=checkout, check=True)
    return program


def check_verdicts(program: Path) -> None:
    """Compare the verdicts in configurations.yaml with the original's."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        write_whole_machine(Path(folder), Machines({"guest": GUEST}, DATA), "guest")
        file = Path(folder, "policy.yaml")
        for entry in yaml.safe_load((DATA / "configurations.yaml").read_text()):
            file.write_text(yaml.safe_dump({"kind": entry["kind"], "spec": entry["spec"]}))
            result = subprocess.run(
                [str(program), "load", folder, str(file)], capture_output=True, text=True, check=False
            )
            if entry["accepted"] != (result.returncode == 0):
                wrong.append(f"{entry['id']}: {result.stdout}{result.stderr[-300:]}")
    if wrong:
        raise SystemExit("\n".join(wrong))


def write_whole_machine(root: Path, machines: Machines, name: str) -> None:
    """Write a machine with the files that only the original reads."""
    topology = machines.get(name)
    write_machine(root, topology)
    nodes, cpus = "sys/devices/system/node", "sys/devices/system/cpu"
    files = {"proc/interrupts": "           CPU0\n  4:  1  IO-APIC  4-edge  ttyS0\n"}
    files |= {f"{nodes}/has_{word}": cpuset.to_text(topology.nodes) for word in ("memory", "normal_memory")}
    files[f"{nodes}/has_cpu"] = cpuset.to_text(number for number, node in topology.nodes.items() if node.cpus)
    for number, node in topology.nodes.items():
        kib = node.memory_bytes >> 10
        lines = {"MemTotal": kib, "MemFree": kib, "MemUsed": 0}
        files[f"{nodes}/node{number}/meminfo"] = "".join(f"Node {number} {key}: {n} kB\n" for key, n in lines.items())
    for number, cpu in topology.cpus.items():
        files |= {f"{cpus}/cpu{number}/cache/index{place}/size": "32K\n" for place in range(len(cpu.caches))}
        files[f"{cpus}/cpu{number}/node{cpu.node}/cpulist"] = ""
    write_files(root, files)


def play(program: Path, root: Path, case: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The zones at the start of a case and after each of its steps."""
    steps = [as_a_kubelet_does(step, case["node_memory_capacity_bytes"]) for step in case["steps"]]
    argument = {
        "policy": case["policy"],
        "root": str(root),
        "memory_bytes": case["node_memory_capacity_bytes"],
        "spec": case["config"],
        "steps": steps,
    }
    result = subprocess.run(
        [str(program), "zones"], input=json.dumps(argument), capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise SystemExit(f"{case['id']}: {result.stderr.strip().splitlines()[-1]}")
    return [sorted(state, key=lambda zone: str(zone["name"])) for state in json.loads(result.stdout)]


def as_a_kubelet_does(step: dict[str, Any], capacity: int) -> dict[str, Any]:
    """A step with the values that a kubelet gives to the runtime."""
    if step["op"] == "delete":
        return {"op": "delete", "pod": step["pods"][0]}
    qos, containers = step["qos"], []
    for entry in step["containers"]:
        limit = entry.get("cpu_limit_m", 0)
        score = max(2, min(1000 - 1000 * entry.get("mem_request", 0) // capacity, 999))
        containers.append(
            {
                "name": entry["name"],
                "shares": cpu_shares(Fraction(entry.get("cpu_request_m", 0), 1000)),
                "quota": cpu_quota_us(Fraction(limit, 1000)) if limit else 0,
                "memory_limit": entry.get("mem_limit", 0),
                "oom_score_adj": SCORES.get(qos, score),
            }
        )
    parent = "/kubepods" if qos == "Guaranteed" else f"/kubepods/{qos.lower()}"
    keys: dict[str, Any] = {key: step[key] for key in ("op", "pod", "namespace", "annotations") if key in step}
    return {**keys, "cgroup_parent": f"{parent}/pod{step['pod']}", "containers": containers}


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
