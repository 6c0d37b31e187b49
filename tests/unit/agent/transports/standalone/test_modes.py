"""The standalone column of the table of hooks and modes, with files instead of a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri.agent import cgroup_paths as paths
from nri.api import cpuset
from nri.host import ClassId
from tests.support.hook_modes import CASES, CONTAINER_ID, SANDBOX_ID, STANDALONE, UID, Case, Effect, case_id
from tests.support.standalone_world import FIRST, World

FILES = {
    "cpu.bvt": "cpu.bvt_warp_ns", "cpu.idle": "cpu.idle", "cpu.shares": "cpu.shares",
    "cpu.cfs_quota": "cpu.cfs_quota_us", "cpuset.cpus": "cpuset.cpus", "memory.limit": "memory.limit_in_bytes",
}  # fmt: skip


def came_of(case: Case, folder: Path) -> dict[tuple[str, str], str]:
    """What two rounds with a pod and one without it have brought about."""
    world = World(folder, case.base())
    for kind, document in case.documents.items():
        world.store.put(kind, document, "test")
    manifest = case.pod.manifest()
    pod = world.pod(manifest, SANDBOX_ID)
    world.cgroup("host-ls/nginx")
    places = {"pod": pod, "container": f"{pod}/{CONTAINER_ID}", "sandbox": f"{pod}/{SANDBOX_ID}"}
    places |= {
        entry: paths.kube_class_path(entry, paths.CGROUPFS) for entry in ("BestEffort", "Burstable", "Guaranteed")
    }
    places["host application"] = "host-ls/nginx"
    world.source.replace([manifest])
    world.round("NodeSLO", "rules")
    world.round()
    first = {file: text for files in FIRST.values() for file, text in files.items()}
    actual = {
        (place, knob): text
        for place, path in places.items()
        for knob, file in FILES.items()
        if (text := world.text(path, file)) != first[file]
    }
    group = f"koordlet-{UID}"
    schemata = world.root.find(f"/sys/fs/resctrl/{group}/schemata")
    if schemata is not None:
        actual["resctrl", "schemata"] = schemata.strip()
        if "100" in (world.root.find(f"/sys/fs/resctrl/{group}/tasks") or "").split():
            actual["resctrl", "tasks"] = group
    if (score := world.root.read("/proc/100/oom_score_adj").strip()) != "0":
        actual["container", "oom score"] = score
    account = (world.history.account(UID) or {}).get("writes", ())
    for row in account:
        if row["name"] == "core_sched.cookie" and row["container"] and world.pids.cookies.get(100):
            actual["container", "cookie"] = row["wanted"]
    if int(world.text(pod, "net_cls.classid")) and any(
        words[:2] == ["tc", "class"] for words, _ in world.programs.calls
    ):
        actual["node", "tc"] = str(ClassId.of(int(world.text(pod, "net_cls.classid"))))
    if (text := world.root.find("/var/lib/terway/qos/pod.json")) is not None:
        actual["node", "terway"] = ",".join(json.loads(text))
    world.source.replace([])
    world.round()
    if schemata is not None and not world.root.exists(f"/sys/fs/resctrl/{group}"):
        actual["resctrl", "removed"] = group
    return actual


def is_there(actual: str | None, effect: Effect) -> bool:
    """Whether this came about; CPUs are written in more than one way."""
    if effect.name == "cpuset.cpus" and actual is not None:
        return cpuset.parse(actual) == cpuset.parse(effect.value)
    return actual == effect.value


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_hook_has_the_effects_of_the_table(case: Case, tmp_path: Path) -> None:
    actual = came_of(case, tmp_path)
    came = {effect.key for effect in case.effects if is_there(actual.get(effect.key), effect)}
    assert came == {effect.key for effect in case.effects if STANDALONE in effect.modes}, actual
