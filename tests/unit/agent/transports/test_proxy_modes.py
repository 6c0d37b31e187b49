"""The column of mode "proxy": the agent's plugin behind `nri.proxy`, before a dry engine that serves no NRI.

As in the column of NRI, but what came of a creation is read where it counts: in the OCI spec that the runtime has made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.agent.transports.hook_plugin import HookPlugin
from nri.cri.pb import api_pb2 as pb
from nri.host import Root
from tests.support import agents
from tests.support.hook_modes import MAIN, PROXY, UID, Case, Effect, OneFunction, cell_id, cells
from tests.support.host_trees import FILES_V1, TOP, V1, v1, write_files
from tests.support.proxied import Proxied

GROUP = f"sys/fs/resctrl/koordlet-{UID}"
#: What the pod's cgroup has from the beginning, and the container's, by knob: controller, file, text.
POD_CPUS = "5"
BEFORE = {
    "cpu.shares": ("cpu,cpuacct", "cpu.shares", "77"),
    "cpu.cfs_quota": ("cpu,cpuacct", "cpu.cfs_quota_us", "77000"),
    "memory.limit": ("memory", "memory.limit_in_bytes", "7340032"),
    "cpu.bvt": ("cpu,cpuacct", "cpu.bvt_warp_ns", "1"),
}


class DeviceOfThisMachine(OneFunction):
    """The one RDMA function, with the numbers of /dev/null: the CRI names devices by nodes that the host has."""

    def numbers(self, path: str) -> tuple[int, int]:
        return 1, 3


def expected(effect: Effect, works: bool) -> str | None:
    """The value of a cell, on this machine."""
    return effect.value.replace("231:192", "1:3") if works else None


def cgroup(folder: str, cpus: str) -> dict[str, str]:
    """The files of one cgroup."""
    base = {f"{TOP}/{name}/{folder}/{file}": f"{text}\n" for name in V1 for file, text in FILES_V1[name].items()}
    base |= {f"{TOP}/{name}/{folder}/{file}": "" for name in V1 for file in ("cgroup.procs", "tasks")}
    base |= {f"{TOP}/{controller}/{folder}/{file}": f"{text}\n" for controller, file, text in BEFORE.values()}
    return base | {f"{TOP}/cpuset/{folder}/cpuset.cpus": f"{cpus}\n"}


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    made = Proxied(tmp_path)
    made.start_runtime()
    made.start()
    yield made
    made.close()


def machine(folder: Path, case: Case) -> Root:
    """A machine with the pod's cgroup, whose resctrl can share bandwidth."""
    v1(folder)
    groups = {"sys/fs/resctrl/schemata": "MB:0=100\n", f"{GROUP}/schemata": "MB:0=100\n", f"{GROUP}/tasks": ""}
    return write_files(folder, cgroup(case.pod.folder, POD_CPUS) | groups)


def in_spec(spec: dict[str, Any], case: Case) -> dict[tuple[str, str], str]:
    """What the container's spec has that was not asked for."""
    linux = spec["linux"]
    resources = linux.get("resources", {})
    cpu, memory = resources.get("cpu", {}), resources.get("memory", {})
    asked = {"cpu.shares": case.pod.cpu_shares, "cpu.cfs_quota": case.pod.cfs_quota}
    values: dict[str, Any] = {
        "cpu.shares": cpu.get("shares"),
        "cpu.cfs_quota": cpu.get("quota"),
        "cpuset.cpus": cpu.get("cpus") or None,
        "memory.limit": memory.get("limit"),
        "oom score": spec["process"].get("oomScoreAdj") or None,
        "rdt class": linux.get("intelRdt", {}).get("closID"),
    }
    values = {name: value for name, value in values.items() if value and value != asked.get(name)}
    values |= {f"env {name}": value for name, _, value in (entry.partition("=") for entry in spec["process"]["env"])}
    values |= {f"mount {each['destination']}": each.get("source", "") for each in spec["mounts"]}
    values |= {f"device {each['path']}": f"{each['type']} {each['major']}:{each['minor']}" for each in linux["devices"]}
    return {("container", name): str(value) for name, value in values.items()}


def on_machine(root: Root, case: Case, container: str) -> dict[tuple[str, str], str]:
    """What is otherwise in the cgroups than at the beginning, and in the resctrl group."""
    found = {}
    for place, folder in (("pod", case.pod.folder), ("container", container)):
        for name, (controller, file, before) in BEFORE.items():
            if (text := agents.text(root, controller, folder, file)) != before:
                found[place, name] = text
    if agents.text(root, "cpuset", container, "cpuset.cpus") == POD_CPUS:
        found["container", "cpuset.cpus"] = ""
    group = Path(root.path) / GROUP
    if group.joinpath("schemata").read_text() != "MB:0=100\n":
        found["resctrl", "schemata"] = f"{group.joinpath('schemata').read_text().strip()};\n"
    if tasks := group.joinpath("tasks").read_text():
        found["resctrl", "tasks"] = tasks
    return found


def live(proxied: Proxied, case: Case, *, update: bool) -> dict[tuple[str, str], str]:
    """Bring the case's pod through its life, as a kubelet does; return all effects."""
    root = machine(proxied.folder / "machine", case)
    node = replace(case.base(), devices=DeviceOfThisMachine())
    parts = agents.parts(root, node=node, rules=case.documents)
    proxied.attach(HookPlugin(parts, "proxy"), "00", "agent")
    config = proxied.pod_config(labels=case.pod.all_labels, annotations=dict(case.pod.annotations))
    config.metadata.uid = UID
    config.linux.cgroup_parent = f"/{case.pod.folder}"
    pod = proxied.run_pod(config)
    asked = pb.LinuxContainerResources(
        cpu_shares=case.pod.cpu_shares, cpu_quota=case.pod.cfs_quota, memory_limit_in_bytes=case.pod.memory_limit
    )
    container = proxied.create(pod, MAIN, linux={"resources": asked})
    folder = proxied.spec(container)["linux"]["cgroupsPath"].strip("/")
    write_files(Path(root.path), cgroup(folder, "7"))
    found = in_spec(proxied.spec(container), case)
    proxied.cri.call("StartContainer", container_id=container)
    if update:
        write_files(Path(root.path), {f"{TOP}/cpuset/{folder}/cpuset.cpus": "7\n"})
        proxied.cri.call("UpdateContainerResources", container_id=container, linux=asked)
        found = in_spec(proxied.spec(container), case)
    found = {**found, **on_machine(root, case, folder)}
    proxied.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    proxied.cri.call("RemovePodSandbox", pod_sandbox_id=pod)
    writes = (parts.history.of(UID) or {}).get("writes", [])
    if any(each["name"] == "group" and each["wanted"] == "removed" for each in writes):
        found["resctrl", "removed"] = f"koordlet-{UID}"
    return found


@pytest.mark.parametrize(("case", "effect", "works"), list(cells(PROXY)), ids=cell_id)
def test_a_hook_works_as_the_table_says(proxied: Proxied, case: Case, effect: Effect, works: bool) -> None:
    found = live(proxied, case, update=False)
    assert found.get(effect.key) == expected(effect, works), found


@pytest.mark.parametrize(("case", "effect", "works"), [cell for cell in cells(PROXY) if cell[1].updated], ids=cell_id)
def test_an_update_by_the_kubelet_keeps_it(proxied: Proxied, case: Case, effect: Effect, works: bool) -> None:
    found = live(proxied, case, update=True)
    assert found.get(effect.key) == expected(effect, works), found
