"""A machine of files whose time passes as a test says: for the loops, which sample it.

Rules: `pass_s` lets seconds go by, in which each cgroup uses what it was told to, thousandths of a CPU, and the node
the share that it was told to; counters grow by that, so that a sample sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nri.agent.koordinator.node import Node
from nri.agent.loops import Loops
from nri.agent.settings.values import AgentSettings
from tests.support.host_trees import TOP, write_files
from tests.support.standalone_world import World

__all__ = ["ALL_ON", "Asked", "LoopWorld"]

ALL_ON = dict.fromkeys(
    ("BECPUSuppress", "CPUBurst", "BECPUEvict", "BEMemoryEvict", "CgroupReconcile", "BlkIOReconcile"), True
)
_HZ = 100
#: For how long a container that uses up its quota does not run, each time that seconds pass.
_THROTTLED_NS = 50_000_000


class Asked:
    """An evictor that only records the requests.

    Attributes:
        pods: uids of the pods whose eviction was requested.
        refuses: the reason why every pod stays; "" if evictions are accepted.
        refusing: the reasons why some pods stay, by uid.
    """

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.refuses = ""
        self.refusing: dict[str, str] = {}

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        """Note it."""
        self.pods.append(pod["metadata"]["uid"])
        return self.refusing.get(pod["metadata"]["uid"], self.refuses)


class LoopWorld(World):
    """A machine with CPUs and memory, and loops on it.

    Args:
        folder: an empty one.
        slo: NodeSLO's spec.
        cpus: how many.
        node: the node before any rule was read.
        gates: strategies that are on.
        settings: of the agent; None for those with the gates.
    """

    def __init__(
        self,
        folder: Path,
        slo: Mapping[str, Any] | None = None,
        cpus: int = 8,
        node: Any = None,
        gates: Mapping[Any, bool] = ALL_ON,
        settings: AgentSettings | None = None,
    ) -> None:
        self.settings = settings = settings or AgentSettings(gates=dict(gates))
        super().__init__(folder, node or Node(), settings)
        files = {f"sys/devices/system/cpu/{name}": f"0-{cpus - 1}\n" for name in ("online", "present")}
        for number in range(cpus):
            base = f"sys/devices/system/cpu/cpu{number}/topology"
            pair = number // 2 * 2
            files[f"{base}/thread_siblings_list"] = f"{pair}-{pair + 1}\n"
            files[f"{base}/core_id"] = f"{number // 2}\n"
            files[f"{base}/physical_package_id"] = "0\n"
        write_files(folder, files)
        self.cpus = cpus
        self._busy, self._idle = 1000.0, 1000.0
        self.uses: dict[str, int] = {}
        self.throttled: set[str] = set()
        self.node_milli = 0
        self.memory(100 << 30, 50 << 30)
        self._stat()
        self.asked = Asked()
        self.kill()
        self.source.replace([])
        if slo is not None:
            self.slo(slo)

    def kill(self) -> None:
        """Have the agent end without a word, and another one begin."""
        self.loops = Loops(self.settings, self.parts, evictor=self.asked, now=self.clock)

    def slo(self, spec: Mapping[str, Any] | None) -> None:
        """Give the node another NodeSLO."""
        self.store.put("NodeSLO", None if spec is None else {"spec": spec}, "test")

    def memory(self, total: int, available: int, free: int = 0) -> None:
        """Give the machine this memory, in bytes."""
        text = f"MemTotal: {total >> 10} kB\nMemAvailable: {available >> 10} kB\nMemFree: {free >> 10} kB\n"
        write_files(self.folder, {"proc/meminfo": text})

    def pass_s(self, seconds: float = 1.0) -> None:
        """Let seconds go by."""
        self.clock.now += seconds
        self._busy += self.node_milli / 1000 * seconds * _HZ
        self._idle += (self.cpus - self.node_milli / 1000) * seconds * _HZ
        self._stat()
        for path, milli in self.uses.items():
            self._add(path, "cpuacct.usage", int(milli * seconds * 1_000_000))
        for path in self.throttled:
            self._add(path, "cpuacct.usage", 1)
            file = self.folder / TOP / "cpu,cpuacct" / path / "cpu.stat"
            before = int(file.read_text().split()[3])
            file.write_text(f"nr_periods 0\nnr_throttled {before + 1}\nthrottled_time {(before + 1) * _THROTTLED_NS}\n")

    def loop(self, rounds: int = 1, seconds: float = 1.0) -> None:
        """Let time pass and have a round, so often."""
        for _ in range(rounds):
            self.pass_s(seconds)
            self.loops.round()

    def _add(self, path: str, file: str, more: int) -> None:
        folder = self.folder / TOP / "cpu,cpuacct" / path / file
        folder.write_text(f"{int(folder.read_text()) + more}\n")

    def _stat(self) -> None:
        text = f"cpu {int(self._busy)} 0 0 {int(self._idle)} 0 0 0 0 0 0\n"
        write_files(self.folder, {"proc/stat": text})
