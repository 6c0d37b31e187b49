"""A machine with the files of a case, and the agent's own hooks and services on it.

Nothing is decided here: files are laid out, time passes, pods come and go, and what was written is read back. Files of
the kernel that keep a row for each device, and resctrl, take writes as the kernel does.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.history import History
from nri.agent.loops import Loops
from nri.agent.loops.evictor import Evictor
from nri.agent.loops.samples import Sample, Sampler
from nri.agent.loops.strategy import Strategy
from nri.agent.model import Resctrl, Write
from nri.agent.observer import Observer
from nri.agent.parts import Parts
from nri.agent.rubik import PROFILE
from nri.agent.rubik.settings import KIND
from nri.agent.rules.store import RuleStore
from nri.agent.settings.values import AgentSettings, RuleSettings
from nri.agent.transports.standalone import Standalone
from nri.host import CoreScheduler, Result
from tests.support.agents import Pods
from tests.support.clock import Clock
from tests.support.host_trees import TOP
from tests.support.loop_world import Asked
from tests.support.standalone_world import MachineRoot, Pids

__all__ = ["CaseWorld", "Json", "manifest", "rows"]

Json = dict[str, Any]
_CONTROLLERS: Final = ("blkio", "cpu", "cpuacct", "cpuset", "memory", "net_cls")
#: Where the parts of a case's paths are on a machine.
_PLACES: Final = {"proc": "proc/qos", "resctrl": "sys/fs/resctrl", **{name: f"{TOP}/{name}" for name in _CONTROLLERS}}
_KINDS: Final = {"block": stat.S_IFBLK, "char": stat.S_IFCHR}
#: Files that keep a row for each device, and take one row in a write.
_BY_DEVICE: Final = ("blkio.throttle.", "blkio.cost.model", "blkio.cost.qos")


def rows(text: str) -> dict[str, str]:
    """Return the rows of a file that keeps one for each device, without those that set no limit."""
    collected = {}
    for line in text.splitlines():
        device, _, value = line.strip().partition(" ")
        if value:
            collected[device] = value
    return {device: value for device, value in collected.items() if value != "0"}


class _Root(MachineRoot):
    """The machine's files, with the texts that were written to each."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes: dict[str, list[str]] = {}
        self.refused: set[str] = set()

    def write(self, path: str, text: str) -> None:
        if path in self.refused:
            raise OSError(22, "the case has this write fail", path)
        if any(part in path for part in _BY_DEVICE) and "weight" not in path:
            now = rows(self.read(path))
            now |= dict([text.strip().split(" ", 1)])
            super().write(path, "".join(f"{device} {value}\n" for device, value in now.items() if value != "0"))
        else:
            super().write(path, text)
        self.writes.setdefault(path, []).append(text)


class _Executor(Executor):
    """The agent's executor, with the results that set nothing."""

    failed: list[Result]
    groups: dict[str, str]

    def resctrl(self, change: Resctrl, folder: str = "") -> list[Result]:
        if not change.remove:
            self.groups[change.group] = change.schemata
        return super().resctrl(change, folder)

    def write(
        self, writes: Sequence[Write], *, force: bool = False, keep: bool = True, lasting: bool = True
    ) -> list[Result]:
        results = super().write(writes, force=force, keep=keep, lasting=lasting)
        self.failed += [result for result in results if not result.in_force]
        return results


class CaseWorld:
    """A machine.

    Args:
        folder: an empty one.
        files: the files of a case, by its paths.
        cpus: how many.
        node_name: the node's name.
        evictor: makes pods go; None for one that notes them.
        blocks: the services that are on, each with its block.
    """

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, str] | None = None,
        *,
        cpus: int = 4,
        node_name: str = "",
        evictor: Evictor | None = None,
        **blocks: Any,
    ) -> None:
        self.folder, self.clock, self.asked = folder, Clock(), Asked()
        self.root = _Root(folder)
        for controller in _CONTROLLERS:
            (folder / TOP / controller).mkdir(parents=True)
        files = files or {}
        # On a machine the cgroup of all pods has the files that those below it have; there a knob is looked for.
        tops = {f"{name.partition('/')[0]}/kubepods/{name.rpartition('/')[2]}": text for name, text in files.items()
                if name.split("/")[1:2] == ["kubepods"]}  # fmt: skip
        self.lay({**tops, **files})
        self._cpus(cpus)
        self.put("/proc/meminfo", "MemTotal: 1000000 kB\nMemFree: 500000 kB\n")
        self.put("/proc/stat", "cpu  0 0 0 0 0 0 0 0 0 0\n")
        self.put("/proc/1/mountinfo", "")
        self.settings = AgentSettings(
            profile="rubik", gates=dict.fromkeys(blocks, True), rules=RuleSettings(node_name=node_name)
        )
        self.history, self.source, observer = History(), Pods(), Observer()
        self.store = RuleStore(PROFILE.node(self.settings, self.root), PROFILE.kinds)
        self.executor = _Executor(
            self.root, observer=observer, clock=self.clock, refresh_s=0, scheduler=CoreScheduler(Pids())
        )
        self.executor.failed, self.executor.groups = [], {}
        decisions = Decisions(PROFILE, self.store, self.executor, self.history, observer)
        self.parts = Parts(
            PROFILE, self.root, self.store, self.source, decisions, self.executor, self.history, observer,
            chosen_driver="cgroupfs",
        )  # fmt: skip
        self.configure(**blocks)
        self.source.replace([])
        self.hooks = Standalone(self.settings, self.parts, now=self.clock)
        self.loops = Loops(self.settings, self.parts, evictor=evictor or self.asked, now=self.clock)
        #: Texts of files that are another one in the case, such as the number of a process or of a folder.
        self.aliases: dict[str, str] = {}
        self._before = self.files()

    def configure(self, **blocks: Any) -> None:
        """Switch these services on, each with its block, and no others."""
        document = {"agent": {"enabledFeatures": list(blocks)}, **json.loads(json.dumps(blocks))}
        self.store.put(KIND, document, "config.json")
        assert not self.store.problems(), self.store.problems()

    @property
    def service(self) -> Any:
        """The one service that is on."""
        (service,) = self.loops.loops
        return service

    def use(self, *services: Strategy) -> None:
        """Have rounds call these services and no others."""
        self.loops.loops[:] = services

    def run(self, *pods: Json) -> None:
        """Have these pods of a case run, and no others."""
        self.source.replace([manifest(pod) for pod in pods])

    def round(self, at_ns: int | None = None) -> None:
        """Have a round of hooks and services, at a time in nanoseconds."""
        if at_ns is not None:
            self.clock.now = at_ns / 1e9
        self.hooks.round(frozenset({"timer"}))
        self.loops.round()

    @property
    def problems(self) -> list[str]:
        """What the rounds so far could not do or decide."""
        refused = [f"{result.target}: {result.name}: {result.reason}" for result in self.executor.failed]
        return [*self.loops.errors, *filter(None, [self.hooks.last.first_error]), *refused]

    def lay(self, files: Mapping[str, str | None]) -> None:
        """Lay out files of a case; None takes one away."""
        for name, text in files.items():
            path = self.path(name)
            if text is None:
                if path.exists():
                    path.write_text("gone\n")  # for those who have it open: a kernel lets them read nothing
                    path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)

    def unread_use(self) -> None:
        """Have the use of the node's processors be unknown until it is put there again."""
        (self.folder / "proc/stat").unlink()

    def sample(self) -> Sample:
        """A sample of the machine as rounds have it."""
        return Sampler(self.root, self.executor.hierarchies, self.clock).take((), 1)

    def put(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def path(self, name: str) -> Path:
        """The place of a file of a case."""
        first, _, remaining = name.partition("/")
        return self.folder / _PLACES[first] / remaining.lstrip("/")

    def disks(self, devices: Mapping[str, str]) -> None:
        """Have files below /dev: `block 8:0`, `char 1:3`, `file` or `directory`, by name or path."""
        for name, what in devices.items():
            kind, _, numbers = what.rpartition(" ") if " " in what else ("block" if ":" in what else what, "", what)
            path = self.folder / "dev" / name.removeprefix("/dev/")
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "directory":
                path.mkdir(exist_ok=True)
            elif kind == "file":
                path.write_text("")
            elif not path.exists():
                major, minor = map(int, numbers.split(":"))
                os.mknod(path, 0o600 | _KINDS[kind], os.makedev(major, minor))

    def files(self) -> dict[str, str]:
        """All files that a case can name, by its paths, without the end of the last line."""
        collected = {}
        for first, place in _PLACES.items():
            top = self.folder / place
            for path in top.rglob("*") if top.exists() else ():
                if path.is_file():
                    text = path.read_text().rstrip("\n")
                    collected[f"{first}/{path.relative_to(top)}"] = self.aliases.get(text, text)
        return collected

    def changed(self) -> dict[str, str]:
        """The files that have another text than before."""
        return {name: text for name, text in self.files().items() if self._before.get(name) != text}

    def forget(self) -> None:
        """Compare with the files of now from here on."""
        self._before = self.files()

    def written(self, *firsts: str) -> dict[str, list[str]]:
        """The texts that were written to the files of these parts of a case's paths."""
        places = {f"/{place}/": first for first, place in _PLACES.items() if first in firsts}
        return {
            f"{first}/{path.removeprefix(place)}": texts
            for path, texts in self.root.writes.items()
            for place, first in places.items()
            if path.startswith(place)
        }

    def _cpus(self, cpus: int) -> None:
        for name in ("online", "present", "possible"):
            self.put(f"/sys/devices/system/cpu/{name}", f"0-{cpus - 1}\n")
        for number in range(cpus):
            base = f"/sys/devices/system/cpu/cpu{number}/topology"
            words = {"thread_siblings_list": number, "core_id": number, "physical_package_id": 0}
            for name, value in words.items():
                self.put(f"{base}/{name}", f"{value}\n")


def manifest(pod: Json) -> Json:
    """A pod of a case as a source of pods has it, with the folders that the case names."""
    names = {container["id"]: container.get("name") or container["id"] for container in pod.get("containers") or ()}
    limits = {container["id"]: container.get("cpu_limit") or 0 for container in pod.get("containers") or ()}
    status = [{"name": names[key], "containerID": f"containerd://{key}", "state": {"running": {}}} for key in names]
    started = {"startTime": pod["start_time"]} if pod.get("start_time") else {}
    return {
        "metadata": {
            "name": pod["name"],
            "namespace": pod.get("namespace") or "default",
            "uid": pod.get("uid") or f"uid-{pod['name']}",
            "labels": pod.get("labels") or {},
            "annotations": pod.get("annotations") or {},
        },
        "spec": {
            "hostNetwork": bool(pod.get("host_network")),
            "containers": [
                {"name": names[key], "resources": {"limits": {"cpu": repr(limit)}} if limit > 0 else {}}
                for key, limit in limits.items()
            ],
        },
        "status": {"phase": "Running", "qosClass": "Burstable", "containerStatuses": status, **started},
        "cgroupParent": pod.get("cgroup_path", ""),
        "cgroups": {names[one["id"]]: one["cgroup_path"].strip("/") for one in pod.get("containers") or ()},
    }


def without_end(files: Mapping[str, str]) -> dict[str, str]:
    """The files of a case without the end of the last line."""
    return {name: text.rstrip("\n") for name, text in files.items()}


def unique(pods: Iterable[Json]) -> list[Json]:
    """Pods, each once."""
    return list({pod["name"]: pod for pod in pods}.values())
