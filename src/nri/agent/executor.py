"""Write values that no message of a runtime can express, and report the outcome of each write.

A failed write is returned as refused and does not stop the others. A write to a missing cgroup waits until `retry` is
called or its pod gets new changes. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from nri import host
from nri.agent.cgroup_paths import SHARED_CGROUP, is_shared_cgroup
from nri.agent.model import (
    AT_CREATION,
    OOM_SCORE,
    UNIFIED,
    Changes,
    Container,
    HostApplication,
    KubeQosFolder,
    Pod,
    Resctrl,
    Write,
    pod_writes,
    writes,
)
from nri.agent.observer import Observer
from nri.agent.writing.cookie_groups import Membership
from nri.agent.writing.cookies import CoreScheduling
from nri.agent.writing.cpus import value_of
from nri.agent.writing.pending_writes import PendingWrites
from nri.host import Outcome, Result
from nri.host import process as processes
from nri.host.cgroups import expand, expand_slice
from nri.host.cgroups.fields import knob_of_file
from nri.host.resctrl import parse_schemata

Context = Pod | Container | KubeQosFolder | HostApplication

#: The maximum number of processes or threads of a cgroup that are handled.
_MAX_PROCESSES: Final = 4096
#: The maximum number of levels of cgroups that are searched for processes.
_MAX_DEPTH: Final = 4
#: Processes are listed up to this many times, while new processes appear: a fork inherits the earlier score.
_ROUNDS: Final = 3
_NO_KNOB: Final = "unknown knob"
_RUNTIMES: Final = "only a runtime sets it"


class WriteOutcome(NamedTuple):
    """The result of a write, and whether a runtime has set the value."""

    result: Result
    by_runtime: bool


class ValueWriter(Protocol):
    """Sets values of running containers through their runtime, and all others through the executor.

    Attributes:
        name: the name of the writer in records.
    """

    name: str

    def write(self, requests: Sequence[Write]) -> list[WriteOutcome]:
        """Set values, and return a result for each request in the order of `requests`."""
        ...


class RuntimeView(Protocol):
    """Receives written values, so that the runtime's view stays correct."""

    def tell(self, in_force: Iterable[Write]) -> None:
        """Report values that are in force."""
        ...

    def forget(self, folder: str) -> None:
        """Forget the values that were reported for a container."""
        ...


class Executor:
    """Write values to one machine.

    Args:
        root: the machine.
        refresh_s: for this many seconds a written value is not compared with its file again.
        observer: the counters of writes.
        clock: monotonic seconds.
        scheduler: the interface to core scheduling; None means the kernel of this machine.
        hierarchies: the cgroup hierarchies; None means those below `root`.
        runtime: receives lasting values, if given.

    Attributes:
        hierarchies: the cgroup hierarchies.
        cookies: the core scheduling cookies of containers.
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
        self._pending = PendingWrites(clock)
        self._lock = threading.Lock()

    # -- writes -------------------------------------------------------------------------------------------------------

    def write(
        self, writes: Sequence[Write], *, force: bool = False, keep: bool = True, lasting: bool = True
    ) -> list[Result]:
        """Write a batch, parents before children, and return a result for each write in the order of `writes`.

        Args:
            writes: values for knobs of cgroups; `oom_score_adj` applies to all processes of a cgroup.
            force: also compare files that are believed to be correct.
            keep: whether a write to a missing cgroup waits for the cgroup.
            lasting: whether the value stays for longer than one round.
        """
        results = self._write(writes, force)
        if self._runtime is not None and lasting:
            for write, result in zip(writes, results, strict=True):
                if result.outcome is Outcome.APPLIED and write.knob != OOM_SCORE:
                    self._runtime.forget(tidy(write.folder))  # another program may have sent the runtime another value
            self._runtime.tell(write for write, result in zip(writes, results, strict=True) if result.in_force)
        with self._lock:
            self._pending.drop(writes)
            if keep:
                pending = [write for write, result in zip(writes, results, strict=True) if _is_gone(write, result)]
                left_out = sum(map(self._pending.keep, pending))
                if left_out:
                    self._observer.left_out("pending", left_out)
        self._observer.wrote(results)
        return results

    def on_v2(self, name: str) -> bool:
        """Return whether cgroup v2 alone is mounted, with this knob or file (`unified.FILE`)."""
        if self.hierarchies.mode != "v2":
            return False
        return name.startswith(UNIFIED) or not isinstance(host.probe(self.hierarchies, name), host.Unsupported)

    def retry(self, folder: str) -> list[Result]:
        """Perform the writes that wait for a cgroup or for a cgroup below it."""
        with self._lock:
            waiting = self._pending.take(tidy(folder))
        return self.write(waiting) if waiting else []

    def changes(self, context: Context, changes: Changes, reason: str = "") -> list[Result]:
        """Write the changes of a pod, container, folder or host application, and the waiting writes of its pod.

        A container's environment, mounts and devices are ignored.
        """
        results: list[Result] = []
        if isinstance(context, Pod):
            if is_shared_cgroup(context.folder):
                return [Result(context.folder, "pod", "", Outcome.REFUSED, SHARED_CGROUP)] if changes else []
            results += self.retry(context.folder)
            requests = pod_writes(context.folder, changes, reason)
        else:
            requests = writes(context.folder, changes, reason)
        results += self.write(requests) if requests else []
        if changes.resctrl is not None:
            folder = context.folder if isinstance(context, Container) else ""
            results += self.resctrl(changes.resctrl, folder)
        return results

    def forget(self, folder: str) -> None:
        """Forget the cgroup of a removed pod or container."""
        path = tidy(folder)
        if path:
            self._writer.forget(path)
            if self._runtime is not None:
                self._runtime.forget(path)
            with self._lock:
                self._pending.forget(path)

    # -- values outside of cgroup files -------------------------------------------------------------------------------

    def resctrl(self, change: Resctrl, folder: str = "") -> list[Result]:
        """Create, fill or remove a resctrl group.

        Args:
            change: the group, its schemata and tasks.
            folder: the cgroup of a container whose threads join the group.
        """
        results = self._resctrl_group(change, tidy(folder))
        self._observer.wrote(results)
        return results

    def oom_score(self, folder: str, score: int) -> list[Result]:
        """Set the OOM score of all processes of a cgroup and of the cgroups below it."""
        results = self._oom_scores(tidy(folder), score)
        self._observer.wrote(results)
        return results

    def core_sched(
        self, membership: Membership, container: str, folder: str, *, forget_moved: bool = True
    ) -> list[Result]:
        """Give the processes of a container the cookie of its group, or remove the cookie; see `CoreScheduling`."""
        results = self.cookies.apply(membership, container, self.processes(folder), forget_moved=forget_moved)
        self._observer.wrote(results)
        return results

    def processes(self, folder: str) -> list[int]:
        """Return the processes of a cgroup and of the cgroups below it, ascending; an absent cgroup has no process."""
        processes = {pid for cgroup in self._cgroups_below(tidy(folder)) for pid in self._processes_of(cgroup)}
        return sorted(processes)[:_MAX_PROCESSES]

    def counts(self) -> dict[str, float]:
        """Return the number of remembered values by kind, for the gauge `held`."""
        with self._lock:  # other threads add and remove cookies
            waiting = len(self._pending)
        return {"waiting writes": waiting, "written values": len(self._writer)}

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _write(self, writes: Sequence[Write], force: bool) -> list[Result]:
        result_by_number: dict[int, Result] = {}
        batch: list[host.Write] = []
        numbers: list[int] = []
        for number, write in enumerate(writes):
            folder = tidy(write.folder)
            if write.knob == OOM_SCORE:
                result_by_number[number] = self._one_oom_score(folder, write)
                continue
            host_write = _host_write(folder, write)
            if isinstance(host_write, Result):
                result_by_number[number] = host_write
            else:
                batch.append(host_write)
                numbers.append(number)
        if batch:
            result_by_number.update(zip(numbers, self._writer.write_all(batch, force=force), strict=True))
        return [result_by_number[number] for number in range(len(writes))]

    def _one_oom_score(self, folder: str, write: Write) -> Result:
        """Set the scores of a cgroup's processes and return a single result: the first failure, if there is one."""
        try:
            results = self._oom_scores(folder, int(write.value))
        except ValueError:
            return Result(folder, OOM_SCORE, write.value, Outcome.REFUSED, f"{write.value[:40]!r} is not a number")
        bad = [result for result in results if not result.in_force and result.outcome is not Outcome.GONE]
        if bad:
            reason = f"{bad[0].target}: {bad[0].reason}"
            return Result(folder, OOM_SCORE, write.value, bad[0].outcome, reason)
        if not any(result.in_force for result in results):
            return Result(folder, OOM_SCORE, write.value, Outcome.GONE, "the cgroup has no process")
        changed = any(result.outcome is Outcome.APPLIED for result in results)
        return Result(folder, OOM_SCORE, write.value, Outcome.APPLIED if changed else Outcome.UNCHANGED)

    def _oom_scores(self, folder: str, score: int) -> list[Result]:
        results: dict[int, Result] = {}
        for _ in range(_ROUNDS):
            new = [pid for pid in self.processes(folder) if pid not in results]
            if not new:
                break
            alive = [process for pid in new if (process := processes.find(self.root, pid)) is not None]
            results.update((pid, _process_ended(pid, score)) for pid in new)
            results.update(
                zip(
                    (process_.pid for process_ in alive), processes.set_oom_scores(self.root, alive, score), strict=True
                )
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
            results += self._resctrl.add_tasks(change.group, tasks[:_MAX_PROCESSES])
        return results

    def _cgroups_below(self, folder: str) -> Iterable[str]:
        """Yield a cgroup and the cgroups below it, down to `_MAX_DEPTH` levels."""
        level = [folder] if folder else []
        for _ in range(_MAX_DEPTH):
            yield from level
            level = [f"{cgroup}/{name}" for cgroup in level for name in self._names(cgroup)][:_MAX_PROCESSES]

    def _names(self, folder: str) -> list[str]:
        try:
            return self.hierarchies.below(folder)
        except ValueError:
            return []

    def _processes_of(self, folder: str) -> list[int]:
        try:
            return self.hierarchies.processes(folder)
        except (OSError, ValueError):
            return []

    def threads(self, folder: str) -> list[int]:
        """Return the threads of a cgroup and of the cgroups below it, ascending; an absent cgroup has no thread."""
        return self._threads(tidy(folder))[:_MAX_PROCESSES]

    def _threads(self, folder: str) -> list[int]:
        threads: set[int] = set()
        for cgroup in self._cgroups_below(folder):
            try:
                threads.update(self.hierarchies.threads(cgroup))
            except (OSError, ValueError):
                continue
        return sorted(threads)


def tidy(folder: str) -> str:
    """Return the path of a cgroup below its hierarchy, from a runtime's path. Short forms of systemd are expanded."""
    try:
        return expand(folder) if ":" in folder else expand_slice(folder.strip("/"))
    except ValueError:  # the write to the path then reports the error
        return folder.strip("/")


def _host_write(folder: str, write: Write) -> host.Write | Result:
    """Return a write of `nri.host`, or a result with the reason why there is no such write."""
    name = write.knob
    if name.startswith(UNIFIED):
        name = knob_of_file(name.removeprefix(UNIFIED)) or name
    if write.devices is not None:
        if name in host.KNOBS:
            return host.Write(folder, name, write.devices)
        return Result(folder, name, dict(write.devices), Outcome.UNSUPPORTED, _NO_KNOB)
    if not folder:
        return Result(folder, name, write.value, Outcome.REFUSED, "the root cgroup does not belong to a pod")
    try:
        return host.Write(folder, name, value_of(name, write.value))
    except KeyError:
        reason = _RUNTIMES if name in AT_CREATION or name.startswith(UNIFIED) else _NO_KNOB
        return Result(folder, name, write.value, Outcome.UNSUPPORTED, reason)
    except ValueError as error:
        return Result(folder, write.knob, write.value, Outcome.REFUSED, str(error))


def _is_gone(write: Write, result: Result) -> bool:
    return result.outcome is Outcome.GONE and bool(write.folder.strip("/"))


def _process_ended(pid: int, score: int) -> Result:
    return Result(f"process {pid}", OOM_SCORE, score, Outcome.GONE, "the process has ended")
