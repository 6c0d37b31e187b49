"""Loops: the strategies that are on, called by a timer, and what they want carried out in one batch.

Rules: nothing is sampled while no strategy wants it; what a strategy wants is written and recorded for `explain` with
its reason, and so is each eviction; a strategy that breaks off costs no other its round. What is remembered is bounded
by the pods that run. This is the last room of :mod:`nri.agent.loops`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from nri.agent.loops.block_io import BlockIo
from nri.agent.loops.cpu_burst import CpuBurst
from nri.agent.loops.cpu_suppress import CpuSuppress, program_folders
from nri.agent.loops.evict import CpuEvict, MemoryEvict
from nri.agent.loops.evictor import Evictor, evictor_of
from nri.agent.loops.memory_qos import MemoryQosLoop
from nri.agent.loops.moment import Eviction, LoopPod, Moment, Wish
from nri.agent.loops.samples import Sample, Sampler
from nri.agent.loops.strategy import ANNOTATION_BLOCK_IO, ANNOTATION_BURST, ANNOTATION_MEMORY, Strategies
from nri.agent.parts import Parts
from nri.agent.pods.last_good import LastGood
from nri.agent.pods.running import key_of, running
from nri.agent.settings.values import AgentSettings
from nri.agent.worker import Worker
from nri.host import Outcome, Result, Topology, read_topology
from nri.policies.koordinator.writes import Write
from nri.text import plain

__all__ = ["Loops"]

#: What decisions of loops are recorded under, where hooks have their stage and their transport.
_STAGE: Final = "loop"
_MOST_PODS: Final = 4096
#: For how many seconds the machine's CPUs are believed to be those that they were.
_TOPOLOGY_S: Final = 60.0
_OWN_WORDS: Final = (ANNOTATION_BURST, ANNOTATION_MEMORY, ANNOTATION_BLOCK_IO)
_log = logging.getLogger("nri.agent")


class _Loop(Protocol):
    name: str

    def wants(self, strategies: Strategies) -> bool:
        """Whether there is work: it is asked for, or there is something to take back."""
        ...

    def round(self, moment: Moment) -> None:
        """Look at a moment, and add wishes and evictions to it."""
        ...


class Loops:
    """The strategies by a timer.

    Args:
        settings: of the agent: `loops`, and which strategies are on.
        parts: what the agent shares.
        evictor: who makes pods go; None for the one that the settings make possible.
        now: monotonic seconds.
    """

    name = "loops"

    def __init__(
        self,
        settings: AgentSettings,
        parts: Parts,
        *,
        evictor: Evictor | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._evictor = parts, evictor or evictor_of(settings)
        self._sampler = Sampler(parts.root, parts.executor.hierarchies, now)
        self._strategies = Strategies()
        every: tuple[_Loop, ...] = (
            CpuSuppress(),
            CpuBurst(),
            CpuEvict(settings.loops.cpu_evict_cooldown),
            MemoryEvict(settings.loops.memory_evict_cooldown),
            MemoryQosLoop(),
            BlockIo(),
        )
        self.loops = [loop for loop in every if loop.name in settings.loops_on]
        self._off: set[str] = set()
        self._now, self._looked = now, 0.0
        self._cpus: Topology | None = None
        self._worker = Worker("nri-loops", self.round, settings.loops.interval, now=now)
        self.errors: list[str] = []
        #: What this machine does not support; the log has had it.
        self._unsupported: dict[str, None] = {}
        #: The error of each strategy that broke off its last round; the log has had it.
        self._broken: dict[str, str] = {}
        self._good = LastGood()
        self._misread: list[str] = []

    def start(self) -> None:
        """Begin; the first round is at once."""
        self._worker.start()

    def stop(self) -> None:
        """End within the round that runs. What was written stays."""
        self._worker.stop()

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Look at NodeSLO again, soon."""
        self._worker.poke(*kinds)

    def health(self) -> tuple[bool, str]:
        """Whether rounds go well, and which strategies are on."""
        if self._worker.error:
            return False, f"a round has failed: {self._worker.error}"
        on = ", ".join(loop.name for loop in self.loops) or "none"
        wrong = f"; {len(self.errors)} errors ({self.errors[0]})" if self.errors else ""
        return True, f"{on}{wrong}"

    def round(self, _reasons: frozenset[str] = frozenset()) -> None:
        """One round: sample, decide, write, evict."""
        self._strategies.take(self._parts.book.document("NodeSLO"))
        self._tell(self._strategies.errors)
        if not (self._strategies.known and self._parts.pods.synced):
            return
        senseless: list[str] = []
        pods = self._pods(senseless)
        active = [loop for loop in self.loops if loop.wants(self._strategies) or _own_words(loop, pods)]
        # One that has just been switched off has its last round, in which it takes back what it has set.
        last = [loop for loop in self.loops if loop not in active and loop.name not in self._off]
        self._off = {loop.name for loop in self.loops if loop not in active}
        if not active and not last:
            self.errors = [plain(each, 200) for each in (*self._strategies.errors, *senseless)][:100]
            return
        moment = self._moment([pod for pod in pods if _readable(pod, senseless)], [*active, *last])
        moment.errors += senseless
        for loop in (*active, *last):
            try:
                loop.round(moment)
            except Exception as error:  # noqa: BLE001  one strategy must not cost the others their round
                text = plain(f"{loop.name}: {type(error).__name__}: {error}", 200)
                moment.errors.append(text)
                level = logging.DEBUG if self._broken.get(loop.name) == text else logging.ERROR
                _log.log(level, "%s: the round has failed", loop.name, exc_info=True)
                self._broken[loop.name] = text
            else:
                self._broken.pop(loop.name, None)
        for (subject, name), reason in moment.misread.items():
            rows = [(name, reason)] if reason else []
            self._parts.decisions.errors(subject, _STAGE, self.name, rows, (name,))
        self._write(moment)
        for eviction in moment.evictions:
            self._evict(eviction, moment)
        for text in moment.unsupported:
            if text not in self._unsupported:
                _log.warning("%s", text)
        self._unsupported = moment.unsupported
        every = (*self._strategies.errors, *moment.unsupported, *moment.errors)
        self.errors = [plain(each, 200) for each in every][:100]

    def _tell(self, errors: list[str]) -> None:
        """Log what of NodeSLO is not used, once, until it is over."""
        for text in errors:
            if text not in self._misread:
                _log.warning("NodeSLO: %s; what it said last of that is in force", plain(text, 400))
        self._misread = errors

    def _pods(self, senseless: list[str]) -> list[LoopPod]:
        """The pods that run; one of which the resources cannot be read is left out, and told."""
        parts = self._parts

        def failed(key: str, error: Exception) -> None:
            senseless.append(f"{key}: {error}")

        found: list[LoopPod] = []
        for each in running(parts.pods.pods()[:_MOST_PODS], parts.executor.hierarchies, parts.driver, failed):
            try:
                each.context()
                found.append(LoopPod(each))
            except Exception as error:  # noqa: BLE001  one bad pod never stops the others
                failed(key_of(each.pod), error)
        return found

    def _moment(self, pods: list[LoopPod], loops: list[_Loop]) -> Moment:
        topology = self._topology()
        empty = Sample(0.0, len(topology.cpus), None, None, None, {})
        moment = Moment(self._parts, self._strategies, pods, empty, topology, good=self._good)
        self._good.only({pod.uid for pod in pods})
        folders = [pod.folder for pod in pods] + [folder for folder, _ in program_folders(moment)]
        folders.append(moment.best_effort_folder)
        if any(isinstance(loop, CpuBurst) for loop in loops):
            folders += [each.cgroup_parent for pod in pods for each in pod.containers]
        moment.sample = self._sampler.take(dict.fromkeys(folders), len(topology.cpus))
        return moment

    def _topology(self) -> Topology:
        """The CPUs of the machine; they seldom change."""
        if self._cpus is None or self._now() - self._looked >= _TOPOLOGY_S:
            self._cpus, self._looked = read_topology(self._parts.root), self._now()
        return self._cpus

    def _write(self, moment: Moment) -> None:
        plain_ones = [wish for wish in moment.wishes if wish.devices is None]
        writes = [Write(wish.folder, wish.knob, wish.value, f"{wish.loop}: {wish.reason}") for wish in plain_ones]
        results = self._parts.executor.write(writes, keep=False) if writes else []
        for wish, result in zip(plain_ones, results, strict=True):
            self._record(wish, result)
        for wish in moment.wishes:
            if wish.devices is not None:
                self._record(wish, self._parts.executor.by_device(wish.folder, wish.knob, wish.devices))

    def _record(self, wish: Wish, result: Result) -> None:
        """Record what changed something, or could not; what was so already is not told every second anew."""
        if result.outcome in (Outcome.UNCHANGED, Outcome.GONE):
            return
        value = wish.value if wish.devices is None else str(dict(wish.devices))
        self._parts.history.decided(wish.subject, _STAGE, self.name, [(wish.knob, value, wish.loop, wish.reason)])
        self._parts.history.told(wish.subject, self.name, [result])

    def _evict(self, eviction: Eviction, moment: Moment) -> None:
        pod = eviction.pod
        refused = self._evictor.evict(pod.manifest, f"{eviction.loop}: {eviction.reason}")
        _log.warning("%s evicts %s: %s%s", eviction.loop, pod.key, eviction.reason, f"; {refused}" if refused else "")
        row = ("eviction", "asked" if not refused else "refused", eviction.loop, eviction.reason)
        self._parts.history.decided(pod.subject(), _STAGE, self.name, [row])
        self._parts.observer.met(self.name, "eviction refused" if refused else "eviction")
        if refused:
            moment.errors.append(f"{eviction.loop}: {refused}")


def _readable(pod: LoopPod, senseless: list[str]) -> bool:
    """Whether the containers of a pod can be read; one pod that makes no sense must not cost the others their round."""
    try:
        return pod.containers is not None
    except Exception as error:  # noqa: BLE001  see above
        senseless.append(f"{pod.key}: {type(error).__name__}: {error}")
        return False


def _own_words(loop: _Loop, pods: list[LoopPod]) -> bool:
    """Whether a pod asks for something that this strategy does, whatever NodeSLO says."""
    key = {"CPUBurst": ANNOTATION_BURST, "CgroupReconcile": ANNOTATION_MEMORY, "BlkIOReconcile": ANNOTATION_BLOCK_IO}
    return any(key.get(loop.name) in pod.annotations for pod in pods)
