"""A machine of files as a recorded case describes it, with the product's strategies on it: files, samples and a clock.

Everything that decides or writes is the product's: its loops call the strategies of the profile's rows, and its
executor writes. This module prepares files, pods, documents and samples, and behaves as the kernel does where it
matters: a line of one disk or resource leaves the others, a thread is in one group, effective CPUs follow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from nri.agent import cgroup_paths as paths
from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.history import History
from nri.agent.koordinator.documents import NodeSlo
from nri.agent.koordinator.evict import BatchCpu
from nri.agent.koordinator.host_application import context_of
from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.profile import PARTS, PROFILE
from nri.agent.loops import Loops
from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample, Sampler, Used
from nri.agent.loops.strategy import Strategy
from nri.agent.observer import Observer
from nri.agent.parts import Parts
from nri.agent.pods.running import running
from nri.agent.pods.source import PodList
from nri.agent.rules.store import RuleStore
from nri.agent.settings.values import AgentSettings, LoopSettings
from nri.host import Hierarchies, Root, Unsupported
from nri.host.cgroups.knobs import knob
from nri.host.cgroups.support import locate
from nri.kube.quantity import capped, ceil
from tests.strategy_cases.disks import disk_files
from tests.strategy_cases.metrics import Metrics
from tests.support.host_trees import write_files
from tests.support.recorded_files import KernelRoot, RecordedTree

__all__ = ["Machine"]

Json = dict[str, Any]
_NOW: Final = 100_000.0
_RESCTRL: Final = "sys/fs/resctrl"


class _MergedNodeSlo(NodeSlo):
    """The rules of a NodeSLO into which defaults were merged before it was recorded."""

    def take(self, document: Mapping[str, Any] | None) -> None:
        self.has_document = self.has_document or document is not None
        self.read((document or {}).get("spec") or {})


class _Pods(PodList):
    """Pods that are listed by hand."""

    def start(self) -> None:
        """Nothing to connect to."""

    def stop(self) -> None:
        """Nothing to end."""


class _Evictor:
    """Records the requested evictions; some pods stay."""

    def __init__(self) -> None:
        self.refuses: frozenset[str] = frozenset()
        self.requests: list[Json] = []

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        name = pod["metadata"]["name"]
        result = "failed" if name in self.refuses else "evicted"
        self.requests.append({"feature": reason.partition(":")[0], "pod": name, "result": result})
        return "refused" if result == "failed" else ""


class _RecordedSampler(Sampler):
    """Samples as a case has them."""

    def __init__(self, machine: Machine, root: Root, hierarchies: Hierarchies, now: Callable[[], float]) -> None:
        super().__init__(root, hierarchies, now)
        self._machine = machine

    def take(self, folders: Iterable[str], cpus: int) -> Sample:
        return self._machine.sample()


def _measured(machine: Machine) -> Callable[[Round[Any]], BatchCpu | None]:
    """Return a measurement of batch pods that gives what a case has; a part that was not measured counts as 0."""

    def measure(round_: Round[Any]) -> BatchCpu | None:
        age_s = machine.ages[round_.sample.at]
        values = [machine.metrics.at(age_s, "be_cpu", key) for key in ("usage", "request", "real_limit")]
        if not machine.metrics.names("be_cpu"):
            return None
        return BatchCpu(*(value or 0.0 for value in values))

    return measure


class Machine:
    """One machine, and the strategies of some gates on it.

    Args:
        given: the input of a case.
        gates: the strategies that are on; all others are off.
    """

    def __init__(self, case: Json, *gates: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path, self.tree = Path(self._folder.name), RecordedTree(v2=bool(case.get("cgroup_v2")))
        self.v2 = self.tree.v2
        self.now, self.age_s, self._inputs = _NOW, 0.0, case
        #: The ages of samples by their times.
        self.ages: dict[float, float] = {}
        self.root = KernelRoot(self.path)
        self._prepare(case)
        self.pods, self.evictor, self.gates = _Pods(), _Evictor(), frozenset(gates)
        self.executor = Executor(self.root, clock=lambda: self.now, refresh_s=0)
        self._start(case)
        self.use(case)

    def _start(self, case: Json) -> None:
        """Make the agent's loops by the settings of a case."""
        cool_s = float(case.get("cool_seconds") or 0)
        settings = AgentSettings(
            gates={row.name: row.name in self.gates for row in PROFILE.strategies},
            loops=LoopSettings(
                interval=float(case.get("collect_interval_seconds", 1)),
                cpu_evict_cooldown=cool_s,
                memory_evict_cooldown=cool_s,
            ),
        )
        observer, history = Observer(), History()
        self._features = case.get("features") or {}
        base = Node(cache=self._cache(case), batch_pools=bool(self._features.get("BECPUManager")))
        profile = replace(PROFILE, strategy_rules=lambda: _MergedNodeSlo(PARTS))
        self.store = RuleStore(base, profile.kinds)
        self.parts = Parts(
            profile,
            self.root,
            self.store,
            self.pods,
            Decisions(profile, self.store, self.executor, history, observer),
            self.executor,
            history,
            observer,
            chosen_driver=paths.SYSTEMD,
        )
        self.loops = Loops(
            settings,
            self.parts,
            evictor=self.evictor,
            now=lambda: self.now,
            sampler=lambda *arguments: _RecordedSampler(self, *arguments),
        )
        for strategy in self.loops.loops:
            if hasattr(strategy, "measured_batch_cpu"):
                strategy.measured_batch_cpu = _measured(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    # -- what the machine is ------------------------------------------------------------------------------------------

    def _prepare(self, case: Json) -> None:
        files = {"proc/1/mountinfo": "", f"{_RESCTRL}/": ""}
        cpus = case.get("cpus") or []
        listed = ",".join(str(cpu["cpu"]) for cpu in cpus)
        files |= {f"sys/devices/system/cpu/{name}": f"{listed}\n" for name in ("online", "present")}
        for cpu in cpus:
            base = f"sys/devices/system/cpu/cpu{cpu['cpu']}"
            threads = [one["cpu"] for one in cpus if (one["core"], one["socket"]) == (cpu["core"], cpu["socket"])]
            files[f"{base}/topology/thread_siblings_list"] = ",".join(map(str, threads)) + "\n"
            files[f"{base}/topology/core_id"] = f"{cpu['core']}\n"
            files[f"{base}/topology/physical_package_id"] = f"{cpu['socket']}\n"
        for node in {cpu["node"] for cpu in cpus}:
            numbers = ",".join(str(cpu["cpu"]) for cpu in cpus if cpu["node"] == node)
            files[f"sys/devices/system/node/node{node}/cpulist"] = f"{numbers}\n"
        if cpus:
            files["sys/devices/system/node/online"] = ",".join(str(node) for node in {cpu["node"] for cpu in cpus})
        files |= self.tree.files(case.get("files") or {})
        write_files(self.path, files)
        disk_files(self.path, case)

    @staticmethod
    def _cache(case: Json) -> Cache | None:
        basic, domains = case.get("cpu_basic"), sorted({cpu["l3"] for cpu in case.get("cpus") or ()})
        if basic is None:
            return None
        try:
            ways = int(basic.get("catL3CbmMask") or "", 16)
        except ValueError:
            ways = 0
        return Cache(tuple(domains), ways, basic.get("vendorID") or "")

    # -- what changes from round to round -----------------------------------------------------------------------------

    def use(self, case: Json) -> None:
        """Give the machine the pods, documents and samples of a round."""
        if (case.get("features") or {}) != self._features:  # a gate is a setting: the strategies continue with it
            strategies = self.loops.loops
            self._start(case)
            self.loops.loops = strategies
        self._inputs, self.metrics = case, Metrics(case.get("metrics"), case.get("collect_interval_seconds", 1))
        self.evictor.refuses = frozenset((case.get("eviction") or {}).get("evict_fails") or ())
        documents = {"NodeSLO": "node_slo", "Node": "node", "NodeResourceTopology": "node_topology"}
        for kind, key in documents.items():
            self.store.put(kind, _apart(case.get(key)) if kind == "NodeSLO" else case.get(key), "a case")
        self.pods.replace([_listed(entry) for entry in case.get("pods") or ()])

    def folders(self) -> dict[str, str]:
        """The folders of pods by uid."""
        hierarchies = self.parts.executor.hierarchies
        return {pod.uid: pod.folder for pod in running(self.pods.pods(), hierarchies, paths.SYSTEMD)}

    def sample(self) -> Sample:
        """The sample that a case has of now."""
        metrics, age_s, milli = self.metrics, self.age_s, lambda value: None if value is None else 1000 * value
        cgroups = {}
        folders = self.folders()
        for uid, folder in folders.items():
            memory = metrics.at(age_s, "pod_memory", uid)
            cpu = milli(metrics.at(age_s, "pod_cpu", uid))
            cgroups[folder] = Used(cpu, None, None if memory is None else int(memory))
        for pod in (pod for pod in self.pods.pods() if pod["metadata"]["uid"] in folders):
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                number = status.get("containerID", "")
                if path := paths.container_path(folders[pod["metadata"]["uid"]], number):
                    throttled = metrics.at(age_s, "container_throttled", number)
                    used = milli(metrics.at(age_s, "container_cpu", number))
                    cgroups[path] = Used(used, None if throttled is None else throttled > 0)
        slo = _apart(self._inputs.get("node_slo")) or {}
        for application in (slo.get("spec") or {}).get("hostApplications") or ():
            used = milli(metrics.at(age_s, "host_app_cpu", application["name"]))
            cgroups[context_of(application, paths.SYSTEMD).folder.strip("/")] = Used(used)
        status = (self._inputs.get("node") or {}).get("status") or {}
        capacity = status.get("capacity") or {}
        cpus = ceil(capped(capacity["cpu"])) if "cpu" in capacity else len(self._inputs.get("cpus") or ())
        total = ceil(capped(capacity["memory"])) if "memory" in capacity else None
        used_memory = metrics.at(age_s, "node_memory")
        self.ages[self.now - age_s] = age_s
        return Sample(
            self.now - age_s,
            cpus,
            milli(metrics.at(age_s, "node_cpu")) if cpus else None,
            total,
            None if used_memory is None else int(used_memory),
            cgroups,
        )

    # -- rounds -------------------------------------------------------------------------------------------------------

    def strategy(self) -> Strategy:
        """The strategy that is on."""
        (strategy,) = self.loops.loops
        return strategy

    def round(self) -> None:
        """One round of all strategies with the youngest samples."""
        self.age_s, self.now = 0.0, self.now + 0.001
        self.loops.round()

    def measured_rounds(self, earlier: bool = False) -> list[Round[Any]]:
        """The rounds that the loops make of the samples of a case, oldest first, with nothing decided.

        Args:
            earlier: whether to leave out the round of the youngest samples.
        """
        rounds: list[Round[Any]] = []
        strategy = self.strategy()
        decide = strategy.round
        strategy.round = rounds.append  # type: ignore[method-assign]
        for age_s in (*self.metrics.earlier_ages(), *([] if earlier else [0.0])):
            self.age_s = age_s
            self.loops.round()
        strategy.round = decide  # type: ignore[method-assign]
        if rounds:  # a strategy that is switched off has not had its last round by these
            self.loops.rules_changed(frozenset())
        self.age_s = 0.0
        return rounds

    def files(self, case: Json) -> Json:
        """The files of a case as they are now."""
        return {name: (self.path / self.tree.place(name)).read_text().strip("\n") for name in case.get("files") or {}}

    def knob_file(self, folder: str, name: str) -> str:
        """The case's path of a knob's file; "" where this version of cgroups has none."""
        located = locate(self.parts.executor.hierarchies, knob(name), folder)
        # Koordinator limits page caches on cgroup v2 alone.
        is_known = not isinstance(located, Unsupported) and (self.v2 or "pagecache" not in name)
        return self.tree.recorded_path(located.path) if is_known else ""

    def writes(self) -> list[tuple[str, str]]:
        """The case's paths of the files that were changed since the last call, with what was written."""
        writes, self.root.writes = self.root.writes, []
        return [(self.tree.recorded_path(path), text) for path, text in writes]


def _apart(slo: Json | None) -> Json | None:
    """A NodeSLO whose host applications have a cgroup each, as each of them has its own samples."""
    applications = ((slo or {}).get("spec") or {}).get("hostApplications")
    if slo is None or not applications:
        return slo
    paths_ = [{**(one.get("cgroupPath") or {}), "relativePath": f"app-{n}"} for n, one in enumerate(applications)]
    apart = [{**one, "cgroupPath": path} for one, path in zip(applications, paths_, strict=True)]
    return {**slo, "spec": {**slo["spec"], "hostApplications": apart}}


def _listed(entry: Json) -> Json:
    """A pod as a source lists it; one that has no uid has its name for one."""
    pod, folder = dict(entry["pod"]), entry.get("cgroup_dir") or ""
    pod["metadata"] = {"namespace": "default", **pod["metadata"]}
    pod["metadata"].setdefault("uid", pod["metadata"].get("name", ""))
    kube = (pod.get("status") or {}).get("qosClass") or ""
    try:
        usual = paths.pod_path(kube, pod["metadata"]["uid"])
    except (KeyError, ValueError):
        usual = ""
    return pod if folder.strip("/") == usual or not folder else {**pod, "cgroupParent": folder}
