"""Executor: what no message of a runtime can say, done on the machine, and of each write the truth.

Rules: nothing decides here, and nothing raises for one bad write: it comes back as refused, and the others go on.
Writes to a cgroup that is not there yet wait (`nri.agent.writing`) until `retry`, or until the next changes of its pod.
Any thread may call it. Next: `nri.agent.decisions`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from nri import host
from nri.agent.observe import Observer
from nri.agent.writing.cookies import CoreScheduling
from nri.agent.writing.cpus import value_of
from nri.agent.writing.pending import Pending
from nri.host import Outcome, Result
from nri.host import process as processes
from nri.host.cgroups import expand, expand_slice
from nri.host.resctrl import parse_schemata
from nri.policies.changes import UNIFIED, Changes, Resctrl
from nri.policies.contexts import ContainerContext, HostApplicationContext, KubeQosContext, PodContext
from nri.policies.cookie_groups import Membership
from nri.policies.messages import AT_CREATION, knob_of_file
from nri.policies.paths import MANY_PODS, of_many_pods
from nri.policies.writes import OOM_SCORE, Write, pod_writes, writes

__all__ = ["Context", "Executor", "RuntimeView", "ValueWriter", "Written", "tidy"]

Context = PodContext | ContainerContext | KubeQosContext | HostApplicationContext

_MOST_PROCESSES: Final = 4096
_DEEPEST: Final = 4
#: Processes are looked for again while there are new ones, because a fork takes over what its parent had before.
_ROUNDS: Final = 3
_NO_KNOB: Final = "there is no knob of this name"
_RUNTIMES: Final = "only a runtime sets it"


class Written(NamedTuple):
    """The result of a value, and whether a runtime has set it."""

    result: Result
    by_runtime: bool


class ValueWriter(Protocol):
    """Has values of containers that run set by their runtime, and all others by the executor.

    Attributes:
        name: its word in records.
    """

    name: str

    def write(self, wanted: Sequence[Write]) -> list[Written]:
        """Have values set; one result for each, in the order of `wanted`."""
        ...


class RuntimeView(Protocol):
    """Hears what was written, so that another view of it stays true."""

    def tell(self, in_force: Iterable[Write]) -> None:
        """Tell of values that are in force."""
        ...

    def forget(self, folder: str) -> None:
        """Forget what it has heard of a container."""
        ...


class Executor:
    """Writes to one machine.

    Args:
        root: the machine.
        refresh_s: for how many seconds a value that was written is believed.
        observer: counts what is written.
        clock: monotonic seconds.
        scheduler: core scheduling; None for this machine's.
        hierarchies: the cgroups; None for those of the machine.
        runtime: hears of what is written and lasts; None for nobody.

    Attributes:
        hierarchies: the cgroups.
        cookies: core scheduling of containers.
    """

    def __init__(
        self,
        root: host.Root,
        *,
        refresh_s: float = 60.0,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
        scheduler: host.CoreScheduler | None = None,
        hierarchies: host.Hierarchies | None = None,
        runtime: RuntimeView | None = None,
    ) -> None:
        self.root, self._runtime = root, runtime
        self.hierarchies = host.detect(root) if hierarchies is None else hierarchies
        self.cookies = CoreScheduling(scheduler or host.CoreScheduler(), clock)
        self._observer = observer or Observer()
        self._writer = host.Writer(self.hierarchies, refresh_s=refresh_s, now=clock, units=host.SystemdUnits(root))
        self._resctrl = host.Resctrl(root)
        self._pending = Pending(clock)
        self._lock = threading.Lock()

    # -- writes -------------------------------------------------------------------------------------------------------

    def write(
        self, writes: Sequence[Write], *, force: bool = False, keep: bool = True, lasting: bool = True
    ) -> list[Result]:
        """Write a batch in level order; one result for each, in the order of `writes`.

        Args:
            writes: knobs of cgroups, and `oom_score_adj` of all processes of a folder.
            force: look also at files that are believed to be right.
            keep: whether a write to a cgroup that is not there waits for it.
            lasting: whether it holds for more than a moment.
        """
        results = self._write(writes, force)
        if self._runtime is not None and lasting:
            for write, result in zip(writes, results, strict=True):
                if result.outcome is Outcome.APPLIED and write.knob != OOM_SCORE:
                    self._runtime.forget(tidy(write.folder))  # somebody else may have set it there as well
            self._runtime.tell(write for write, result in zip(writes, results, strict=True) if result.in_force)
        with self._lock:
            self._pending.drop(writes)
            if keep:
                gone = [write for write, result in zip(writes, results, strict=True) if _is_gone(write, result)]
                left_out = sum(map(self._pending.keep, gone))
                if left_out:
                    self._observer.left_out("pending", left_out)
        self._observer.wrote(results)
        return results

    def on_v2(self, name: str) -> bool:
        """Whether this machine has a knob, or a file named as `unified.FILE`, on cgroup v2, and v2 alone."""
        if self.hierarchies.mode != "v2":
            return False
        return name.startswith(UNIFIED) or not isinstance(host.probe(self.hierarchies, name), host.Unsupported)

    def retry(self, folder: str) -> list[Result]:
        """Do what waits for a cgroup and for those below it."""
        with self._lock:
            waiting = self._pending.take(tidy(folder))
        return self.write(waiting) if waiting else []

    def changes(self, context: Context, changes: Changes, reason: str = "") -> list[Result]:
        """Do what was decided for a context, with nothing else to carry it; and what waits for its pod.

        A container's environment, mounts and devices are no business of cgroups, and left out.
        """
        results: list[Result] = []
        if isinstance(context, PodContext):
            if of_many_pods(context.cgroup_parent):
                return [Result(context.cgroup_parent, "pod", "", Outcome.REFUSED, MANY_PODS)] if changes else []
            results += self.retry(context.cgroup_parent)
            wanted = pod_writes(context.cgroup_parent, changes, reason)
        else:
            wanted = writes(context.cgroup_parent, changes, reason)
        results += self.write(wanted) if wanted else []
        if changes.resctrl is not None:
            folder = context.cgroup_parent if isinstance(context, ContainerContext) else ""
            results += self.resctrl(changes.resctrl, folder)
        return results

    def forget(self, folder: str) -> None:
        """Drop all that is remembered of a removed pod's or container's cgroup."""
        path = tidy(folder)
        if path:
            self._writer.forget(path)
            if self._runtime is not None:
                self._runtime.forget(path)
            with self._lock:
                self._pending.forget(path)

    # -- what is no knob of a cgroup ----------------------------------------------------------------------------------

    def resctrl(self, change: Resctrl, folder: str = "") -> list[Result]:
        """Make, fill or remove a resctrl group.

        Args:
            change: the group, its schemata and tasks.
            folder: the cgroup of a container, whose threads are put into the group as well.
        """
        results = self._resctrl_group(change, tidy(folder))
        self._observer.wrote(results)
        return results

    def oom_score(self, folder: str, score: int) -> list[Result]:
        """Give all processes of a cgroup, and of those below it, an OOM score."""
        results = self._oom_scores(tidy(folder), score)
        self._observer.wrote(results)
        return results

    def core_sched(
        self, membership: Membership, container: str, folder: str, *, forget_moved: bool = True
    ) -> list[Result]:
        """Give a container's processes the cookie of its group, or take it from them; see `CoreScheduling`."""
        results = self.cookies.apply(membership, container, self.processes(folder), forget_moved=forget_moved)
        self._observer.wrote(results)
        return results

    def processes(self, folder: str) -> list[int]:
        """The processes of a cgroup and of those below it, ascending; none if it is not there."""
        return sorted({pid for each in self._below(tidy(folder)) for pid in self._listed(each)})[:_MOST_PROCESSES]

    def held(self) -> dict[str, float]:
        """The number of values that are remembered, for the gauge `held`."""
        with self._lock:  # it goes through them, and they come and go
            waiting = len(self._pending)
        return {"waiting writes": waiting, "written values": len(self._writer)}

    # -- how ----------------------------------------------------------------------------------------------------------

    def _write(self, writes: Sequence[Write], force: bool) -> list[Result]:
        found: dict[int, Result] = {}
        batch: list[host.Write] = []
        numbers: list[int] = []
        for number, write in enumerate(writes):
            folder = tidy(write.folder)
            if write.knob == OOM_SCORE:
                found[number] = self._one_oom_score(folder, write)
                continue
            made = _host_write(folder, write)
            if isinstance(made, Result):
                found[number] = made
            else:
                batch.append(made)
                numbers.append(number)
        if batch:
            found.update(zip(numbers, self._writer.write_all(batch, force=force), strict=True))
        return [found[number] for number in range(len(writes))]

    def _one_oom_score(self, folder: str, write: Write) -> Result:
        """The scores of a folder's processes as one result: the first that is not in force, if there is one."""
        try:
            results = self._oom_scores(folder, int(write.value))
        except ValueError:
            return Result(folder, OOM_SCORE, write.value, Outcome.REFUSED, f"{write.value[:40]!r} is not a number")
        bad = [each for each in results if not each.in_force and each.outcome is not Outcome.GONE]
        if bad:
            reason = f"{bad[0].target}: {bad[0].reason}"
            return Result(folder, OOM_SCORE, write.value, bad[0].outcome, reason)
        if not any(each.in_force for each in results):
            return Result(folder, OOM_SCORE, write.value, Outcome.GONE, "it has no process")
        changed = any(each.outcome is Outcome.APPLIED for each in results)
        return Result(folder, OOM_SCORE, write.value, Outcome.APPLIED if changed else Outcome.UNCHANGED)

    def _oom_scores(self, folder: str, score: int) -> list[Result]:
        results: dict[int, Result] = {}
        for _ in range(_ROUNDS):
            new = [pid for pid in self.processes(folder) if pid not in results]
            if not new:
                break
            alive = [found for pid in new if (found := processes.find(self.root, pid)) is not None]
            results.update((pid, _vanished(pid, score)) for pid in new)
            results.update(
                zip((each.pid for each in alive), processes.set_oom_scores(self.root, alive, score), strict=True)
            )
        return [results[pid] for pid in sorted(results)]

    def _resctrl_group(self, change: Resctrl, folder: str) -> list[Result]:
        if change.remove:
            return [self._resctrl.remove(change.group)]
        results = [self._resctrl.create(change.group)]
        if not results[0].in_force:
            return results
        if change.schemata:
            try:
                results += self._resctrl.set_schemata(change.group, parse_schemata(change.schemata))
            except ValueError as error:
                results.append(Result(change.group, "schemata", change.schemata, Outcome.REFUSED, str(error)))
        tasks = (*change.tasks, *(self._threads(folder) if folder else ()))
        if tasks:
            results += self._resctrl.add_tasks(change.group, tasks[:_MOST_PROCESSES])
        return results

    def _below(self, folder: str) -> Iterable[str]:
        """A cgroup and those below it, to a bounded depth."""
        level = [folder] if folder else []
        for _ in range(_DEEPEST):
            yield from level
            level = [f"{each}/{name}" for each in level for name in self._names(each)][:_MOST_PROCESSES]

    def _names(self, folder: str) -> list[str]:
        try:
            return self.hierarchies.below(folder)
        except ValueError:
            return []

    def _listed(self, folder: str) -> list[int]:
        try:
            return self.hierarchies.processes(folder)
        except (OSError, ValueError):
            return []

    def threads(self, folder: str) -> list[int]:
        """The threads of a cgroup and of those below it, ascending; none if it is not there."""
        return self._threads(tidy(folder))[:_MOST_PROCESSES]

    def _threads(self, folder: str) -> list[int]:
        found: set[int] = set()
        for each in self._below(folder):
            try:
                found.update(self.hierarchies.threads(each))
            except (OSError, ValueError):
                continue
        return sorted(found)


def tidy(folder: str) -> str:
    """The path of a cgroup below its hierarchy, from a runtime's path: systemd's short forms are expanded."""
    try:
        return expand(folder) if ":" in folder else expand_slice(folder.strip("/"))
    except ValueError:  # it is taken as it is, and the write says what is wrong with it
        return folder.strip("/")


def _host_write(folder: str, write: Write) -> host.Write | Result:
    """A write in the words of `nri.host`, or why it cannot be one."""
    name = write.knob
    if name.startswith(UNIFIED):
        name = knob_of_file(name.removeprefix(UNIFIED)) or name
    if write.devices is not None:
        if name in host.KNOBS:
            return host.Write(folder, name, write.devices)
        return Result(folder, name, dict(write.devices), Outcome.UNSUPPORTED, _NO_KNOB)
    if not folder:
        return Result(folder, name, write.value, Outcome.REFUSED, "the root cgroup belongs to no pod")
    try:
        return host.Write(folder, name, value_of(name, write.value))
    except KeyError:
        reason = _RUNTIMES if name in AT_CREATION or name.startswith(UNIFIED) else _NO_KNOB
        return Result(folder, name, write.value, Outcome.UNSUPPORTED, reason)
    except ValueError as error:
        return Result(folder, write.knob, write.value, Outcome.REFUSED, str(error))


def _is_gone(write: Write, result: Result) -> bool:
    return result.outcome is Outcome.GONE and bool(write.folder.strip("/"))


def _vanished(pid: int, score: int) -> Result:
    return Result(f"process {pid}", OOM_SCORE, score, Outcome.GONE, "it has ended")
