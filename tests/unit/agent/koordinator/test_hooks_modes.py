"""Hooks behind Koordinator's proxy: its column of the shared table, row by row, over real gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nri.agent.koordinator.hook_server import HooksTransport
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import HooksSettings
from nri.host import Root
from tests.support.agents import parts
from tests.support.hook_modes import (
    CASES,
    CONTAINER_ID,
    MAIN,
    PROXY,
    UID,
    UPDATED,
    Case,
    Effect,
    case_id,
    outcome,
    wanted,
)
from tests.support.hook_peers import ask
from tests.support.host_trees import TOP, v1, write_files

GROUP = f"sys/fs/resctrl/koordlet-{UID}"
TASK = 4711
#: Fields of resources, by the knobs that they are of.
KNOBS = {
    "cpu_shares": "cpu.shares",
    "cpu_quota": "cpu.cfs_quota",
    "cpuset_cpus": "cpuset.cpus",
    "memory_limit_in_bytes": "memory.limit",
    "oom_score_adj": "oom score",
}


def works(effect: Effect) -> bool:
    """As behind our own proxy, where NRI's words are there: without mounts and devices, and with the tasks' group."""
    if effect.key == ("resctrl", "tasks"):
        return True
    return PROXY in effect.modes and not effect.name.startswith(("mount ", "device "))


def machine(folder: Path, case: Case) -> Root:
    """A machine on which the container's process runs, with Anolis' file and a resctrl that can share bandwidth."""
    pod, container = case.pod.folder, f"{case.pod.folder}/{CONTAINER_ID}"
    v1(folder, pod, container)
    return write_files(
        folder,
        {
            f"{TOP}/cpu,cpuacct/{pod}/cpu.bvt_warp_ns": "9\n",
            f"{TOP}/cpu,cpuacct/{container}/tasks": f"{TASK}\n",
            "sys/fs/resctrl/schemata": "MB:0=100\n",
            "sys/fs/resctrl/tasks": "1\n",
            f"{GROUP}/schemata": "MB:0=100\n",
            f"{GROUP}/tasks": "",
        },
    )


def requests(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """The requests of Koordinator's proxy for the pod and for its container."""
    meta = {"name": "pod", "uid": UID, "namespace": "tests"}
    labels, annotations, parent = case.pod.all_labels, dict(case.pod.annotations), f"/{case.pod.folder}"
    pod = {"pod_meta": meta, "labels": labels, "annotations": annotations, "cgroup_parent": parent}
    container = {
        "pod_meta": meta,
        "pod_labels": labels,
        "pod_annotations": annotations,
        "pod_cgroup_parent": parent,
        "container_meta": {"name": MAIN},
        "container_resources": {
            "cpu_shares": case.pod.cpu_shares,
            "cpu_quota": case.pod.cfs_quota,
            "memory_limit_in_bytes": case.pod.memory_limit,
            "cpuset_cpus": "7",
        },
        "container_envs": {"PATH": "/bin"},
    }
    return pod, container


def answered(request: Mapping[str, Any], response: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """The effects of a response on the container."""
    old, new = request["container_resources"], response.get("container_resources", {})
    actual = {
        ("container", knob): str(new.get(field, ""))
        for field, knob in KNOBS.items()
        if (new.get(field) or 0) != (old.get(field) or 0)
    }
    env = response.get("container_envs", {})
    return actual | {
        ("container", f"env {name}"): value for name, value in env.items() if name not in request["container_envs"]
    }


def written(root: Root, case: Case, history: Any) -> dict[tuple[str, str], str]:
    """The effects of what was written, as it is on the machine."""
    folders = {case.pod.folder: "pod", f"{case.pod.folder}/{CONTAINER_ID}": "container"}
    account = history.account(UID) or {"writes": []}
    rows = [row for row in account["writes"] if row["outcome"] in ("applied", "unchanged")]
    actual = {(folders[row["target"]], row["name"]): row["wanted"] for row in rows if row["target"] in folders}
    base = Path(root.path)
    if (base / GROUP / "tasks").exists():
        actual["resctrl", "schemata"] = (base / GROUP / "schemata").read_text().strip()
        if (base / GROUP / "tasks").read_text().strip() == str(TASK):
            actual["resctrl", "tasks"] = f"koordlet-{UID}"
    elif not (base / GROUP).exists() and any(row["target"] == f"koordlet-{UID}" for row in rows):
        actual["resctrl", "removed"] = f"koordlet-{UID}"
    return actual


def life(tmp_path: Path, case: Case, updated: bool) -> dict[tuple[str, str], str]:
    """Run a pod through all calls, and collect every effect."""
    root = machine(tmp_path / "root", case)
    shared = parts(root, node=case.base(), rules=case.documents)
    hooks = HooksSettings(socket=str(tmp_path / "hooks.sock"), registration_folder=tmp_path / "hookserver.d")
    transport = HooksTransport(AgentSettings(hooks=hooks), shared)
    transport.start()
    socket, (pod, container) = tmp_path / "hooks.sock", requests(case)
    try:
        ask(socket, "PreRunPodSandbox", **pod)
        effects = {} if updated else answered(container, ask(socket, "PreCreateContainer", **container))
        running = {**container, "container_meta": {"name": MAIN, "id": CONTAINER_ID}}
        if updated:
            effects = answered(container, ask(socket, "PreUpdateContainerResources", **running))
        else:
            ask(socket, "PostStartContainer", **running)
        effects = written(root, case, shared.history) | effects
        for path in (Path(root.path) / GROUP).iterdir():
            path.unlink()  # the kernel's files go with the folder
        ask(socket, "PostStopContainer", **running)
        ask(socket, "PostStopPodSandbox", **pod)
        return written(root, case, shared.history) | effects
    finally:
        transport.stop()


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_a_creation_has_the_result_of_the_table(tmp_path: Path, case: Case) -> None:
    assert outcome(case, life(tmp_path, case, updated=False)) == wanted(case, works)


@pytest.mark.parametrize("case", UPDATED, ids=case_id)
def test_an_update_has_the_result_of_the_table(tmp_path: Path, case: Case) -> None:
    actual = life(tmp_path, case, updated=True)
    assert outcome(case, actual, updated=True) == wanted(case, works, updated=True)
