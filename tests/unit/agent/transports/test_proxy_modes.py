"""The column of mode "proxy" in `tests/support/hook_modes.py`: every cell, with the real proxy.

A runtime without NRI (the engine, dry) stands behind the proxy of the agent's transport; what came of it is read from
the OCI spec that the runtime made, and from a machine made of files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nri.agent.parts import Parts
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import ProxySettings
from nri.agent.transports.proxy import ProxyTransport
from nri.cri.pb import api_pb2 as pb
from nri.host import Root
from tests.support import agents
from tests.support.hook_modes import CASES, MAIN, PROXY, UID, UPDATED, Case, Effect, case_id, outcome, wanted
from tests.support.host_trees import TOP, v1, write_files
from tests.support.needs import need_machine, need_root
from tests.support.proxied import Proxied
from tests.support.waiting import wait_for
from tests.unit.agent.transports.test_nri_modes import BEFORE, FOLDERS, GROUP, POD_CPUS, group

TASK = 4711
DEVICES = ("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0")


def works(effect: Effect) -> bool:
    """Whether the table lists mode proxy; where the CRI has no RDT class, the threads are moved to the group."""
    return PROXY in effect.modes or effect.key == ("resctrl", "tasks")


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> Iterator[None]:
    """The nodes of the devices that the table's hook gives, where this machine has none."""
    case: Case = request.node.callspec.params["case"]
    collected: list[str] = []
    if case.hook == "RDMADeviceInject":
        need_root()
        need_machine(not os.path.exists("/dev/infiniband"), "place for made-up RDMA devices: it has real ones")
        os.mkdir("/dev/infiniband")
        for path in DEVICES:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(231, 192))
            os.chmod(path, 0o666)
            collected.append(path)
    yield
    for path in collected:
        os.unlink(path)
    with suppress(OSError):
        if collected:
            os.rmdir("/dev/infiniband")


def machine(folder: Path, case: Case) -> Root:
    """A machine of files with the pod's cgroups; those of its container are made when the runtime has made it."""
    places = {*FOLDERS.values(), case.pod.folder}
    v1(folder, *places)
    files = {
        f"{TOP}/{controller}/{place}/{file}": f"{text}\n"
        for place in places
        for controller, file, text in BEFORE.values()
    }
    files |= {
        f"{TOP}/cpuset/{case.pod.folder}/cpuset.cpus": f"{POD_CPUS}\n",
        "sys/fs/resctrl/schemata": "MB:0=100\n",
        f"{GROUP}/schemata": "MB:0=100\n",
        f"{GROUP}/tasks": "",
    }
    return write_files(folder, files)


def make_container(folder: Path, place: str) -> None:
    """A container's cgroup with one thread."""
    v1(folder, place)
    files = {f"{TOP}/{controller}/{place}/{file}": f"{text}\n" for controller, file, text in BEFORE.values()}
    write_files(folder, files | {f"{TOP}/cpu,cpuacct/{place}/tasks": f"{TASK}\n"})


def changed_files(root: Root, case: Case, container: str) -> dict[tuple[str, str], str]:
    """What is otherwise in the cgroups than at the beginning; on cgroup v1 a clear is all that the pod has."""
    collected = {}
    for place, folder in {**FOLDERS, "pod": case.pod.folder}.items():
        for name, (controller, file, before) in BEFORE.items():
            text = agents.text(root, controller, folder, file)
            if text != before and (place, name) != ("pod", "cpuset.cpus"):
                collected[(place, name)] = text
    if agents.text(root, "cpuset", container, "cpuset.cpus") == POD_CPUS:
        collected[("container", "cpuset.cpus")] = ""
    return collected


def in_spec(spec: dict[str, Any], case: Case) -> dict[tuple[str, str], str]:
    """The values of the container's spec that were not requested."""
    resources = spec["linux"]["resources"]
    cpu, memory = resources.get("cpu", {}), resources.get("memory", {})
    requested = {"cpu.shares": case.pod.cpu_shares, "cpu.cfs_quota": case.pod.cfs_quota, "memory.limit": 0}
    values: dict[str, Any] = {
        "cpu.shares": cpu.get("shares"),
        "cpu.cfs_quota": cpu.get("quota"),
        "cpuset.cpus": cpu.get("cpus"),
        "memory.limit": memory.get("limit"),
        "oom score": spec["process"].get("oomScoreAdj") or None,
        "rdt class": (spec["linux"].get("intelRdt") or {}).get("closID"),
    }
    values = {name: value for name, value in values.items() if value != requested.get(name)}
    values |= {f"env {entry.partition('=')[0]}": entry.partition("=")[2] for entry in spec["process"]["env"]}
    values |= {f"mount {mount['destination']}": mount["source"] for mount in spec["mounts"]}
    for device in spec["linux"].get("devices") or ():
        values[f"device {device['path']}"] = f"{device['type']} {device['major']}:{device['minor']}"
    return {("container", name): str(value) for name, value in values.items() if value is not None}


def agent_settings(world: Proxied) -> AgentSettings:
    """An agent's settings for the proxy before that runtime."""
    own_part = world.settings
    proxy = ProxySettings(
        listen=own_part.listen, runtime_endpoint=own_part.runtime_endpoint, state=own_part.state, policy_path=""
    )
    return AgentSettings(modes=("proxy",), proxy=proxy)


def live(folder: Path, case: Case, *, update: bool) -> dict[tuple[str, str], str]:
    """Bring the case's pod through its life, with an update of its container or without; return all effects."""
    root = machine(folder / "machine", case)
    parts = agents.parts(root, node=case.base(), rules=case.documents)
    world = Proxied(folder)
    transport = ProxyTransport(agent_settings(world), parts)
    try:
        world.start_runtime()
        transport.start()
        served = (True, f"serving {world.settings.listen} in front of {world.settings.runtime_endpoint}")
        wait_for(lambda: transport.health() == served, "that it serves")
        return _life(world, transport, root, parts, case, update=update)
    finally:
        transport.stop()
        world.close()


def _life(
    world: Proxied, transport: ProxyTransport, root: Root, parts: Parts, case: Case, *, update: bool
) -> dict[tuple[str, str], str]:
    config = world.pod_config("pod", labels=case.pod.all_labels, annotations=dict(case.pod.annotations))
    config.metadata.uid = UID
    config.linux.cgroup_parent = f"/{case.pod.folder}"
    pod = world.run_pod(config)
    resources = pb.LinuxContainerResources(
        cpu_shares=case.pod.cpu_shares, cpu_quota=case.pod.cfs_quota, memory_limit_in_bytes=case.pod.memory_limit
    )
    created = world.create(pod, MAIN, linux=pb.LinuxContainerConfig(resources=resources))
    place = f"{case.pod.folder}/{created}"
    make_container(Path(root.path), place)
    world.cri.call("StartContainer", container_id=created)
    if update:
        (Path(root.path) / TOP / "cpuset" / place / "cpuset.cpus").write_text(f"{BEFORE['cpuset.cpus'][2]}\n")
        world.cri.call("UpdateContainerResources", container_id=created, linux=resources)
    transport.plugin.reapply.run(transport.plugin.runtime)
    actual = in_spec(world.spec(created), case)
    tasks = (Path(root.path) / GROUP / "tasks").read_text().split()
    world.cri.call("StopContainer", container_id=created)
    world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    world.cri.call("RemovePodSandbox", pod_sandbox_id=pod)
    actual |= {**changed_files(root, case, place), **group(root, parts)}
    if tasks == [str(TASK)]:
        actual[("resctrl", "tasks")] = f"koordlet-{UID}"
    return actual


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_hook_works_as_in_the_table(tmp_path: Path, case: Case) -> None:
    assert outcome(case, live(tmp_path, case, update=False)) == wanted(case, works)


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("case", UPDATED, ids=case_id)
def test_an_update_by_the_kubelet_keeps_the_effects_of_a_hook(tmp_path: Path, case: Case) -> None:
    actual = live(tmp_path, case, update=True)
    assert outcome(case, actual, updated=True) == wanted(case, works, updated=True)


def test_changed_rules_reach_running_containers(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.title == "share pools")
    root = machine(tmp_path / "machine", case)
    parts = agents.parts(root, node=case.base())
    world = Proxied(tmp_path)
    transport = ProxyTransport(agent_settings(world), parts)
    parts.store.subscribe(transport.rules_changed)
    try:
        world.start_runtime()
        transport.start()
        created = world.run(world.run_pod(world.pod_config(labels=case.pod.all_labels)))
        assert "cpus" not in world.spec(created)["linux"]["resources"].get("cpu", {})
        for kind, document in case.documents.items():
            parts.store.put(kind, document, "a test")
        wait_for(lambda: world.spec(created)["linux"]["resources"].get("cpu", {}).get("cpus") == "0-1,2-3", "its CPUs")
    finally:
        transport.stop()
        world.close()
