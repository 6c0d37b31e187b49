"""The column of mode "nri" in `tests/support/hook_modes.py`: every cell, with the real plugin.

The model for the other columns: a machine made of files, one pod of the table through its life, and what came of it as
a dict `{(place, name): value}`, in which an effect is if and only if the mode works.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.parts import Parts
from nri.agent.transports.hook_plugin import HookPlugin
from nri.api import messages as m
from nri.host import Root
from nri.testing import FakeRuntime
from nri.testing.replies import CreateReply, UpdateReply
from tests.support import agents
from tests.support.hook_modes import CASES, CONTAINER_ID, NRI, UID, UPDATED, Case, Effect, case_id, outcome, wanted
from tests.support.host_trees import v1, write_files

GROUP = f"sys/fs/resctrl/koordlet-{UID}"
#: Values that no case of the table asks for, by knob: controller, file, text.
BEFORE = {
    "cpu.shares": ("cpu,cpuacct", "cpu.shares", "77"),
    "cpu.cfs_quota": ("cpu,cpuacct", "cpu.cfs_quota_us", "77000"),
    "memory.limit": ("memory", "memory.limit_in_bytes", "7340032"),
    "cpu.bvt": ("cpu,cpuacct", "cpu.bvt_warp_ns", "1"),
    "cpu.idle": ("cpu,cpuacct", "cpu.idle", "7"),
    "cpuset.cpus": ("cpuset", "cpuset.cpus", "7"),
}
FOLDERS = {"BestEffort": "kubepods/besteffort", "Burstable": "kubepods/burstable", "Guaranteed": "kubepods"}
#: What the pod has from the beginning.
POD_CPUS = "5"
FOLDERS |= {"host application": "host-ls/nginx"}


def machine(folder: Path, case: Case) -> Root:
    """A machine of files with all cgroups of the case, and a resctrl group where the kernel would make one."""
    pod = case.pod.folder
    places = {*FOLDERS.values(), pod, f"{pod}/{CONTAINER_ID}", f"{pod}/{'5' * 64}"}
    v1(folder, *places)
    files = {
        f"sys/fs/cgroup/{controller}/{place}/{file}": f"{text}\n"
        for place in places
        for controller, file, text in BEFORE.values()
    }
    files |= {
        f"sys/fs/cgroup/cpuset/{pod}/cpuset.cpus": f"{POD_CPUS}\n",
        "sys/fs/resctrl/schemata": "MB:0=100\n",
        f"{GROUP}/schemata": "MB:0=100\n",
        f"{GROUP}/tasks": "",
    }
    return write_files(folder, files)


def changed_files(root: Root, case: Case) -> dict[tuple[str, str], str]:
    """What is otherwise in the cgroups than at the beginning."""
    pod = case.pod.folder
    folders = {**FOLDERS, "pod": pod, "container": f"{pod}/{CONTAINER_ID}", "sandbox": f"{pod}/{'5' * 64}"}
    collected = {}
    for place, folder in folders.items():
        for name, (controller, file, before) in BEFORE.items():
            text = agents.text(root, controller, folder, file)
            if text != before and (place, name) != ("pod", "cpuset.cpus"):
                collected[(place, name)] = text
    return collected


def in_messages(reply: CreateReply | UpdateReply) -> dict[tuple[str, str], str]:
    """The values of the container in the plugin's answer."""
    resources = reply.resources
    cpu, memory = resources.cpu, resources.memory
    values = {
        "cpu.shares": str(cpu.shares.value) if cpu.HasField("shares") else None,
        "cpu.cfs_quota": str(cpu.quota.value) if cpu.HasField("quota") else None,
        "cpuset.cpus": cpu.cpus or None,
        "memory.limit": str(memory.limit.value) if memory.HasField("limit") else None,
    }
    if isinstance(reply, CreateReply):
        message = reply.message
        values |= {f"env {entry.key}": entry.value for entry in message.env}
        values |= {f"mount {mount.destination}": mount.source for mount in message.mounts}
        values |= {
            f"device {device.path}": f"{device.type} {device.major}:{device.minor}" for device in message.linux.devices
        }
        values["rdt class"] = resources.rdt_class.value or None
        score = message.linux.oom_score_adj
        values["oom score"] = str(score.value) if message.linux.HasField("oom_score_adj") else None
    return {("container", name): value for name, value in values.items() if value is not None}


def group(root: Root, parts: Parts) -> dict[tuple[str, str], str]:
    """What became of the pod's resctrl group."""
    text = (Path(root.path) / GROUP / "schemata").read_text()
    actual = {("resctrl", "schemata"): text.strip()} if text != "MB:0=100\n" else {}
    writes = (parts.history.account(UID) or {}).get("writes", [])
    if any(write["name"] == "group" and write["wanted"] == "removed" for write in writes):
        actual[("resctrl", "removed")] = f"koordlet-{UID}"
    tasks = (Path(root.path) / GROUP / "tasks").read_text()
    return {**actual, **({("resctrl", "tasks"): tasks} if tasks else {})}


def works(effect: Effect) -> bool:
    """Whether the table lists mode nri for the effect."""
    return NRI in effect.modes


def live(folder: Path, case: Case, *, update: bool) -> dict[tuple[str, str], str]:
    """Bring the case's pod through its life, with an update of its container or without; return all effects."""
    root = machine(folder, case)
    parts = agents.parts(root, node=case.base(), rules=case.documents)
    plugin = HookPlugin(parts)
    pod, container = case.pod.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.run_pod_sandbox(pod)
        created = runtime.create_container(pod, container)
        runtime.post_create_container(pod, created.container)
        runtime.start_container(pod, created.container)
        actual = in_messages(created)
        if update:
            clear_file(root, case)
            built = m.Container()
            built.CopyFrom(created.container)
            built.linux.resources.Clear()
            actual = in_messages(runtime.update_container(pod, built, case.pod.resources()))
            runtime.post_update_container(pod, built)
        plugin.reapply.run(plugin.runtime)
        runtime.stop_container(pod, created.container)
        runtime.remove_pod_sandbox(pod)
    return {
        **changed_files(root, case),
        **_without_request(actual, case, update),
        **cleared(root, case),
        **group(root, parts),
    }


def _without_request(actual: dict[tuple[str, str], str], case: Case, update: bool) -> dict[tuple[str, str], str]:
    """Leave out the requested values, which an answer to an update repeats: they are not effects."""
    requested = {"cpu.cfs_quota": str(case.pod.cfs_quota), "cpu.shares": str(case.pod.cpu_shares)}
    return {key: value for key, value in actual.items() if not update or requested.get(key[1]) != value}


def clear_file(root: Root, case: Case) -> None:
    """Let the kubelet's update have set CPUs again."""
    path = Path(root.path) / "sys/fs/cgroup/cpuset" / case.pod.folder / CONTAINER_ID / "cpuset.cpus"
    path.write_text(f"{BEFORE['cpuset.cpus'][2]}\n")


def cleared(root: Root, case: Case) -> dict[tuple[str, str], str]:
    """On cgroup v1 a clear is all that the pod has."""
    own_file = agents.text(root, "cpuset", f"{case.pod.folder}/{CONTAINER_ID}", "cpuset.cpus")
    return {("container", "cpuset.cpus"): ""} if own_file == POD_CPUS else {}


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_hook_works_as_in_the_table(tmp_path: Path, case: Case) -> None:
    assert outcome(case, live(tmp_path, case, update=False)) == wanted(case, works)


@pytest.mark.parametrize("case", UPDATED, ids=case_id)
def test_an_update_by_the_kubelet_keeps_the_effects_of_a_hook(tmp_path: Path, case: Case) -> None:
    actual = live(tmp_path, case, update=True)
    assert outcome(case, actual, updated=True) == wanted(case, works, updated=True)
