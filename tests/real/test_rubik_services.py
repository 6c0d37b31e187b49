"""Rubik's services on a real kernel: decisions for containers of runc are applied or reported.

The same tests run on cgroup v1 here and on cgroup v2 in the guest, where pods have pressure and `memory.high`.
"""

from __future__ import annotations

import itertools
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.loops import Loops
from nri.agent.loops.samples import Sample, Sampler
from nri.agent.rubik import PROFILE
from nri.agent.rubik.settings import KIND
from nri.agent.settings.values import AgentSettings
from nri.host import Root, Unsupported, probe
from nri.host.usage import CpuTimes, memory
from tests.real.bundles import Bundles, rootfs
from tests.real.controls import disk, disk_path
from tests.real.test_loops import BUSY
from tests.real.test_standalone import MIB, Machine
from tests.real.test_standalone import pod as manifest_of
from tests.support.loop_world import Asked
from tests.support.needs import need_machine, need_root, need_tool
from tools.runtimes.machine import PATIENCE

PAGE = os.sysconf("SC_PAGE_SIZE")
WORDS = dict.fromkeys(("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"), 1000)


class Services(Machine):
    """A machine with rubik's services on, each with its block."""

    def __init__(self, folder: Path, *, full: bool = False, **blocks: Any) -> None:
        settings = AgentSettings(profile="rubik", gates=dict.fromkeys(blocks, True))
        bundles, top = Bundles(folder, rootfs(folder / "rootfs")), f"nri-rubik-{uuid.uuid4().hex[:8]}"
        super().__init__(bundles, top, PROFILE.node(settings, Root()), profile=PROFILE, full=full)
        document = {"agent": {"enabledFeatures": list(blocks)}, **json.loads(json.dumps(blocks))}
        self.store.put(KIND, document, "config.json")
        self.asked, self.pods = Asked(), list[dict[str, Any]]()
        self.loops = Loops(settings, self.parts, evictor=self.asked)

    def pod(self, command: str = "sleep 600", limit: str = "", ask_mib: int = 0, **words: str) -> tuple[str, str, int]:
        """Run a pod with these annotations; return its folder, its container's, and its process."""
        results = {f"volcano.sh/{key.replace('_', '-')}": text for key, text in words.items()}
        manifest = manifest_of("LS", paths.BURSTABLE, results, limit)
        if ask_mib:
            manifest["spec"]["containers"][0]["resources"] = {"requests": {"memory": str(ask_mib * MIB)}}
        pod_folder, container, pid = self.run(manifest, command)
        self.pods.append({**manifest, "cgroupParent": f"/{pod_folder}", "cgroups": {"c": f"/{container}"}})
        self.source.replace(self.pods)
        return pod_folder, container, pid

    def until(self, holds: Callable[[], bool]) -> None:
        """Rounds, half a second apart, until something holds."""
        end = time.monotonic() + 30 * PATIENCE
        while not holds():
            assert time.monotonic() < end, self.loops.health()
            time.sleep(0.5)
            self.loops.round()

    def health_message(self) -> str:
        """Run a round; return the services' health message."""
        self.loops.round()
        return self.loops.health()[1]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Callable[..., Services]]:
    need_root()
    need_tool("runc")
    created: list[Services] = []

    def make(**blocks: Any) -> Services:
        created.append(Services(tmp_path, **blocks))
        return created[-1]

    try:
        yield make
    finally:
        for entry in created:
            entry.clean()
    assert not [remaining for entry in created for remaining in entry.remaining_cgroups()]


def test_offline_pods_have_low_shares_and_online_memory_is_protected(services: Callable[..., Services]) -> None:
    node = services(preemption={"resource": ["cpu", "memory"]})
    batch, work, pid = node.pod(preemptable="true")
    web, app, _ = node.pod(ask_mib=8)
    node.round()
    assert node.value(work, "cpu.shares") in (2, 3), "on cgroup v2 a weight stands for several shares"
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
    if not isinstance(probe(node.hierarchies, "cpu.idle"), Unsupported):
        assert (node.value(batch, "cpu.idle"), node.value(web, "cpu.idle")) == (1, 0)
    message = node.health_message()
    if node.hierarchies.mode == "v2":
        low = [node.value(entry, "memory.low") for entry in ("kubepods", "kubepods/burstable", web, app, batch)]
        assert low == [8 * MIB] * 4 + [0]
    else:
        assert "memory of online pods is protected only by OOM scores: unsupported here" in message


def test_memory_high_of_offline_pods_is_applied(services: Callable[..., Services]) -> None:
    node = services(dynMemory={"policy": "fssr"})
    (batch, *_), (web, *_) = node.pod(preemptable="true"), node.pod()
    message = node.health_message()
    if node.hierarchies.mode != "v2":
        assert "dynMemory: offline pods have no limit: unsupported here" in message
        return
    expected = memory(Root())["MemTotal"] * 8 // 10 // PAGE * PAGE
    assert (node.value(batch, "memory.high"), node.value(web, "memory.high")) == (expected, -1)
    node.store.put(KIND, {"agent": {"enabledFeatures": []}}, "config.json")
    node.loops.round()
    assert node.value(batch, "memory.high") == -1


def test_block_io_is_limited_per_disk(services: Callable[..., Services]) -> None:
    need_machine(bool(disk_path()), "disk")
    node = services(ioLimit=None)
    devices = [{"device": disk_path(), "value": str(3 * MIB)}]
    text = json.dumps({"device_read_bps": devices, "device_write_iops": [{"device": disk(), "value": "77"}]})
    _, work, _ = node.pod(blkio_limit=text)
    node.loops.round()
    assert node.value(work, "io.read_bps") == {disk(): 3 * MIB}
    assert node.value(work, "io.write_iops") == {disk(): 77}


def test_disks_have_a_cost_model_and_pods_have_weights(services: Callable[..., Services]) -> None:
    need_machine(bool(disk_path()), "disk")
    model = {"dev": disk_path(), "model": "linear", "param": WORDS}
    node = services(full=True, ioCost=[{"nodeName": "global", "config": [model]}])
    (batch, *_), (web, *_) = node.pod(preemptable="true"), node.pod()
    message = node.health_message()
    if isinstance(probe(node.hierarchies, "io.cost_model", ""), Unsupported):
        assert "ioCost: pods have no weights: unsupported here" in message
        return
    assert [node.value(entry, "io.weight") for entry in (batch, web)] == [10, 1000]
    top = Path(node.hierarchies.folder("io", "") or "")
    (row,) = [line for line in (top / "io.cost.model").read_text().splitlines() if line.startswith(f"{disk()} ")]
    assert all(f" {key}={value}" in row for key, value in WORDS.items())
    assert f"{disk()} enable=1" in (top / "io.cost.qos").read_text()
    node.store.put(KIND, {"agent": {"enabledFeatures": []}}, "config.json")
    node.loops.round()
    assert f"{disk()} enable=1" not in (top / "io.cost.qos").read_text()
    assert node.value(batch, "io.weight") == 100


def test_an_offline_pod_is_evicted_when_an_online_pod_waits_for_cpu(services: Callable[..., Services]) -> None:
    node = services(psi={"resource": ["cpu"], "interval": 10, "avg10threshold": 5.0})
    node.pod(preemptable="true")
    web, *_ = node.pod(f"{BUSY} & {BUSY} & {BUSY}")
    node.overwrite(web, "cpu.cfs_quota", "5000" if node.hierarchies.mode != "v2" else "5000 100000")
    message = node.health_message()
    if "unsupported here" in message:
        assert "psi: no pod is evicted for cpu" in message
        return
    node.until(lambda: bool(node.asked.pods))
    assert node.asked.pods == [node.pods[0]["metadata"]["uid"]]


def test_a_throttled_container_gets_more_cpu_on_an_idle_node(
    services: Callable[..., Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    take, passed = Sampler.take, itertools.count(1000, 1000)

    def of_an_idle_node(self: Sampler, folders: Iterable[str], cpus: int) -> Sample:
        """The machine may be busy with other tests, and then nobody gets more."""
        return take(self, folders, cpus)._replace(times=CpuTimes(0, next(passed), 0))

    monkeypatch.setattr(Sampler, "take", of_an_idle_node)
    node = services(quotaTurbo={"syncInterval": 100})
    pod_folder, container, _ = node.pod(BUSY, limit="20m", quota_turbo="true")
    for folder in (pod_folder, container):
        node.overwrite(folder, "cpu.cfs_quota", "2000" if node.hierarchies.mode != "v2" else "2000 100000")
    node.until(lambda: node.value(container, "cpu.cfs_quota") > 2000)
    assert node.value(pod_folder, "cpu.cfs_quota") > 2000
    node.loops.stop()
    assert (node.value(container, "cpu.cfs_quota"), node.value(pod_folder, "cpu.cfs_quota")) == (2000, 2000)


def test_a_burst_is_applied(services: Callable[..., Services]) -> None:
    node = services(quotaBurst=None)
    pod_folder, container, _ = node.pod(limit="20m", quota_burst_time="1500")
    for folder in (pod_folder, container):
        node.overwrite(folder, "cpu.cfs_quota", "2000" if node.hierarchies.mode != "v2" else "2000 100000")
    node.loops.round()
    assert node.value(container, "cpu.cfs_burst") == 1500
