"""A machine of files for standalone mode: cgroups as Anolis has them, processes, resctrl, the folder of terway.

Rules: values that are there first are such as no hook gives, so that what has changed was written; a folder below
resctrl gets its files when it is made and loses them with it, as the kernel does it; cookies are those of a fake prctl.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nri import host
from nri.agent import cgroup_paths as paths
from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.history import History
from nri.agent.koordinator.network import Network
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import PROFILE
from nri.agent.koordinator.tc_programs import ProgramResult, Shaper
from nri.agent.observer import Observer
from nri.agent.parts import Parts
from nri.agent.profile import Profile
from nri.agent.rules.store import RuleStore
from nri.agent.settings.values import AgentSettings, TerwaySettings
from nri.agent.transports.standalone import Standalone
from nri.host import CoreScheduler, Root
from tests.support.agents import Pods
from tests.support.clock import Clock
from tests.support.host_trees import TOP, write_files
from tests.support.pod_folders import pod_folder

__all__ = ["CONTROLLERS", "FIRST", "MachineRoot", "Pids", "Programs", "World"]

#: The values that are there first, by controller and file of cgroup v1.
FIRST = {
    "cpu,cpuacct": {
        "cpu.shares": "1023", "cpu.cfs_quota_us": "99999", "cpu.cfs_period_us": "100000", "cpu.cfs_burst_us": "0",
        "cpu.bvt_warp_ns": "1", "cpu.idle": "0", "cpuacct.usage": "0", "cpu.stat": "nr_periods 0\nnr_throttled 0",
    },
    "cpuset": {"cpuset.cpus": "0-7", "cpuset.mems": "0", "cpuset.effective_cpus": "0-7"},
    "memory": {
        "memory.limit_in_bytes": "1234567", "memory.usage_in_bytes": "0", "memory.stat": "total_inactive_file 0",
        "memory.min": "0", "memory.low": "0", "memory.high": "9223372036854771712", "memory.wmark_ratio": "0",
    },
    "blkio": {
        "blkio.throttle.read_bps_device": "", "blkio.throttle.write_bps_device": "",
        "blkio.throttle.read_iops_device": "", "blkio.throttle.write_iops_device": "",
    },
    "net_cls": {"net_cls.classid": "0"},
}  # fmt: skip
CONTROLLERS = tuple(FIRST)
_RESCTRL = "/sys/fs/resctrl"


class MachineRoot(Root):
    """A root whose resctrl behaves as the kernel's."""

    def make_folder(self, path: str) -> None:
        super().make_folder(path)
        if path.startswith(_RESCTRL):
            folder = Path(self.path) / path.lstrip("/")
            (folder / "schemata").write_text(self.read(f"{_RESCTRL}/schemata"))
            (folder / "tasks").write_text("")

    def remove_folder(self, path: str) -> None:
        if not path.startswith(_RESCTRL):
            super().remove_folder(path)
            return
        folder = Path(self.path) / path.lstrip("/")
        if not folder.exists():
            raise FileNotFoundError(errno.ENOENT, "no such group", path)
        shutil.rmtree(folder)

    def write(self, path: str, text: str) -> None:
        if path.startswith(_RESCTRL) and path.endswith("/tasks"):
            text = f"{self.read(path)}{text}\n"
        elif path.startswith(_RESCTRL):  # a line is of one resource, and leaves the others
            lines = {line.partition(":")[0]: line for line in (self.read(path) + text).splitlines()}
            text = "".join(f"{line}\n" for line in lines.values())
        super().write(path, text)


class Pids:
    """Cookies of core scheduling, by process: the system call of a kernel that has it."""

    def __init__(self) -> None:
        self.cookies: dict[int, int] = {}
        self._own = 0
        self._next = 100

    def __call__(self, command: int, pid: int, scope: int) -> int:
        get, create, share_to, share_from = range(4)
        if command == get:
            return self._own if pid == 0 else self.cookies.get(pid, 0)
        if command == create:
            self._next += 1
            self.cookies[pid] = self._next
        elif command == share_to:
            self.cookies[pid] = self._own
        elif command == share_from:
            self._own = self.cookies.get(pid, 0)
        return 0


class Programs:
    """The programs of the network, as they answer when all goes well; `calls` has their words and inputs."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], str]] = []
        self.discipline = '[{"kind":"noqueue","handle":"0:","root":true}]'
        self.classes = ""
        self.jump = False

    def __call__(self, argv: Sequence[str], text: str) -> ProgramResult:
        self.calls.append((list(argv), text))
        if list(argv[:3]) == ["tc", "-j", "qdisc"]:
            return ProgramResult(0, self.discipline)
        if list(argv[:3]) == ["tc", "class", "show"]:
            return ProgramResult(0, self.classes)
        if list(argv[:3]) == ["tc", "qdisc", "replace"]:
            self.discipline = '[{"kind":"htb","handle":"1:","root":true}]'
        if "-C" in argv and not self.jump:
            self.jump = True
            return ProgramResult(1)
        return ProgramResult(0)


class World:
    """A machine, the parts of an agent of a `profile` on it, and standalone mode, whose rounds the test calls.

    Args:
        folder: an empty one.
        base: the node before any rule was read.
        settings: of the agent.
        driver: who makes the cgroups.
        now: the clock of its threads; None for the one that the test moves.
    """

    profile: Profile = PROFILE

    def __init__(
        self,
        folder: Path,
        base: Node,
        settings: AgentSettings | None = None,
        driver: str = paths.CGROUPFS,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.folder, self.driver, self.clock = folder, driver, Clock()
        self.root = MachineRoot(folder)
        write_files(
            folder,
            {
                f"{_RESCTRL}/schemata": "MB:0=100\n",
                f"{_RESCTRL}/tasks": "",
                "var/lib/terway/qos/": "",
                "proc/net/route": "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
                "eth0 00000000 0200090A 0003 0 0 0 00000000 0 0 0\n",
                "proc/1/mountinfo": "",
            },
        )
        self._gone = 0
        self.cgroup("")
        for kube_class in ("Guaranteed", "Burstable", "BestEffort"):
            self.cgroup(paths.kube_class_path(kube_class, driver))
        self.pids, self.programs, self.source = Pids(), Programs(), Pods()
        self.history, self.observer = History(), Observer()
        self.store = RuleStore(base, self.profile.kinds)
        executor = Executor(self.root, observer=self.observer, clock=self.clock, scheduler=CoreScheduler(self.pids))
        decisions = Decisions(
            self.profile,
            self.store,
            executor,
            self.history,
            self.observer,
            preview=settings.preview if settings else (),
        )
        self.parts = Parts(
            self.profile,
            self.root,
            self.store,
            self.source,
            decisions,
            executor,
            self.history,
            self.observer,
            chosen_driver=driver,
        )
        self.settings = settings or AgentSettings(terway=TerwaySettings(Path("/var/lib/terway/qos")))
        shaper = Shaper(self.programs, lambda *_: None, self.clock)
        network = Network(self.settings, self.parts, shaper)
        self.standalone = Standalone(self.settings, self.parts, network=network, now=now or self.clock)

    def cgroup(self, path: str, pids: Iterable[int] = ()) -> None:
        """Make a cgroup with the first values, and processes in it."""
        text = "".join(f"{pid}\n" for pid in pids)
        for controller, files in FIRST.items():
            base = f"{TOP}/{controller}/{path}".rstrip("/")
            created = {f"{base}/{name}": f"{value}\n" for name, value in files.items()}
            write_files(self.folder, created | {f"{base}/cgroup.procs": text, f"{base}/tasks": text})
        for pid in pids:
            stat = f"{pid} (sleep) S 1 {pid} {pid} 0 -1" + " 0" * 13 + f" {pid * 10} 0 0\n"
            write_files(self.folder, {f"proc/{pid}/stat": stat, f"proc/{pid}/oom_score_adj": "0\n"})

    def no_cgroup(self, path: str) -> None:
        """Take a cgroup away with all below it; its files stay somewhere, so that no new one gets their numbers."""
        self._gone += 1
        for number, controller in enumerate(FIRST):
            grave = self.folder / f"gone-{self._gone}-{number}"
            (self.folder / TOP / controller / path).rename(grave)

    def pod(self, manifest: Mapping[str, Any], sandbox: str = "", first_pid: int = 100) -> str:
        """Make the cgroups of a pod and of its containers; return the pod's folder. It is not listed by that."""
        folder = pod_folder(manifest, self.driver)
        self.cgroup(folder)
        ids = [
            entry["containerID"] for entry in manifest["status"].get("containerStatuses", ()) if entry["containerID"]
        ]
        for number, name in enumerate([*ids, *([f"containerd://{sandbox}"] if sandbox else [])]):
            self.cgroup(paths.container_path(folder, name, self.driver), [first_pid + number])
        return folder

    def value(self, path: str, knob: str) -> Any:
        """The value of a knob in a cgroup."""
        return host.Writer(self.parts.executor.hierarchies, refresh_s=0).read(path, knob)

    def text(self, path: str, file: str) -> str:
        """The text of a file of a cgroup."""
        for controller, files in FIRST.items():
            if file in files:
                return (self.folder / TOP / controller / path / file).read_text().strip()
        raise KeyError(file)

    def overwrite(self, path: str, file: str, text: str) -> None:
        """Write a file of a cgroup, as somebody else."""
        for controller, files in FIRST.items():
            if file in files:
                (self.folder / TOP / controller / path / file).write_text(f"{text}\n")

    def round(self, *reasons: str) -> None:
        """One round of both threads; without a reason, one of the clock's."""
        self.standalone.round(frozenset(reasons or {"timer"}))
        self.standalone.network_round(frozenset(reasons or {"timer"}))
