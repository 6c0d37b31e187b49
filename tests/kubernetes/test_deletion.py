"""The end of a pod whose manifest is removed from a real kubelet."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.kubernetes.conftest import RunPod
from tests.kubernetes.node import Node
from tests.kubernetes.pods import container, pod
from tools.runtimes.leftovers import cgroup_dirs


def shared(folder: Path) -> dict[str, Any]:
    return {"volumes": [{"name": "out", "hostPath": {"path": str(folder)}}]}


MOUNTS = [{"name": "out", "mountPath": "/out"}]


def test_a_container_has_time_to_end_before_the_kill(run: RunPod, tmp_path: Path) -> None:
    script = "trap 'sleep 1; echo tidied > /out/end; exit 0' TERM; while :; do sleep 0.1; done"
    static = run(pod("tidy", container("main", script, volumeMounts=MOUNTS), **shared(tmp_path)))
    static.wait_ready()
    static.remove()
    static.wait_gone()
    assert (tmp_path / "end").read_text() == "tidied\n"


def test_a_container_that_ignores_sigterm_is_killed_after_its_grace_period(run: RunPod) -> None:
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    static = run(pod("stubborn", container("main", stubborn), terminationGracePeriodSeconds=2))
    static.wait_ready()
    pid, begin = static.pid(), time.monotonic()
    static.remove()
    static.wait_gone()
    assert time.monotonic() - begin >= 2
    assert not Path(f"/proc/{pid}").exists()


def test_a_pre_stop_hook_runs_before_sigterm(run: RunPod, tmp_path: Path) -> None:
    script = "trap 'echo told >> /out/order; exit 0' TERM; while :; do sleep 0.1; done"
    hook = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 0.5; echo hook >> /out/order"]}}}
    static = run(pod("warned", container("main", script, lifecycle=hook, volumeMounts=MOUNTS), **shared(tmp_path)))
    static.wait_ready()
    static.remove()
    static.wait_gone()
    assert (tmp_path / "order").read_text().split() == ["hook", "told"]


def test_a_removed_pod_leaves_nothing(run: RunPod, node: Node) -> None:
    static = run(pod("traceless", container("one"), container("two")))
    static.wait_ready()
    uid = node.kubelet.client.pods()[static.name]["metadata"]["uid"]
    pids = [static.pid("one"), static.pid("two")]
    static.remove()
    static.wait_gone()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    deadline = time.monotonic() + 30
    while remainder := traces(node, uid):
        assert time.monotonic() < deadline, f"this was left: {remainder}"
        time.sleep(0.2)


def traces(node: Node, uid: str) -> list[str]:
    """Cgroups and mounts that have the pod's uid."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [*(folder for folder in cgroup_dirs(node.runtime.run_dir.name) if uid in folder),
            *(line for line in mounts if uid in line)]  # fmt: skip
