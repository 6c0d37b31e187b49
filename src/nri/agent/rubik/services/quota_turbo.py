"""quotaTurbo: containers of pods that ask for it get more than their quota while the node has CPU to spare.

Rules: a container and the cgroups above it change together or not at all; the containers of one pod are one change,
because they share those. Quotas go back to the limits when a pod no longer asks, when the service is switched off and
when the agent ends; one that is above its limit when it is first seen was left by an agent that broke off. Quotas are
written and no runtime hears of them: they last for a tick, and a runtime goes on to know the limit, which an agent that
starts later decodes. Next: `nri.agent.rubik.services.evict`.
"""

from __future__ import annotations

import operator
import resource
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.rubik.decisions.quota_turbo import ANNOTATION, Knobs, Reading, Turbo, chain, manageable
from nri.agent.rubik.pods import pod_of
from nri.agent.rubik.service import Service, Services, nanoseconds, ticks
from nri.agent.settings.values import AgentSettings
from nri.host.usage import ProcessorFiles
from nri.policies.formulas import UNLIMITED
from nri.policies.writes import Write
from nri.text import count

__all__ = ["NAME", "QuotaTurbo", "Quotas", "Wanted"]

NAME: Final = "quotaTurbo"
_QUOTA, _PERIOD = "cpu.cfs_quota", "cpu.cfs_period"
_MS_PER_S: Final = 1000
#: Descriptors that the files of one container take at most.
_HELD_EACH: Final = 4


class Wanted(NamedTuple):
    """A container that is to be managed: its pod, its name and its limit in CPUs."""

    pod: StrategyPod
    name: str
    limit: float


class QuotaTurbo(Service):
    """Raises and lowers quotas."""

    name = NAME
    transient = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._turbo: Turbo | None = None
        #: The pod and the name of each container that is managed, by its folder.
        self._known: dict[str, Wanted] = {}
        #: The files of the containers that are managed, of which no more are held than half of what may be open.
        self._files: dict[str, ProcessorFiles] = {}
        self._most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // (2 * _HELD_EACH)
        #: The pods and CPUs by which the containers of all that ask for it were found last, and these.
        self._asked: tuple[list[StrategyPod], int, dict[str, Wanted]] = [], 0, {}
        #: The containers whose quotas the last tick has changed.
        self._moved: frozenset[str] = frozenset()
        #: The pods of the last tick, the number of CPUs, and why their use is not known; None while it is off.
        self._last: tuple[list[StrategyPod], int, str] | None = None
        #: The percent of the node that was in use in the last tick; None before the first one.
        self.use_percent: float | None = None

    def __len__(self) -> int:
        """The number of containers that are managed."""
        return len(self.managed)

    @property
    def managed(self) -> Collection[str]:
        """The cgroups of the containers that are managed."""
        return self._known.keys()

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on, or quotas are to go back."""
        return super().wants(rules) or bool(self._known)

    def pause_s(self) -> float:
        """Return the interval of the file."""
        return float(self.block.syncInterval) / _MS_PER_S

    def state(self, now: float) -> str:  # noqa: ARG002  it has no time to tell
        """Say how many containers there are, and by which marks they are moved."""
        if self.block is None:
            return ""
        use = "" if self.use_percent is None else f"the node uses {self.use_percent:.0f} %, "
        marks = f"quotas rise below {self.block.alarmWaterMark} % and fall from {self.block.highWaterMark} % on"
        return f"{use}{marks}; {count(len(self), 'container')}"

    def unchanged(self, uid: str) -> Mapping[str, str]:
        """Return why quotas of a pod's containers did not change in the last tick, by container; "" is the pod."""
        turbo, known, moved, last = self._turbo, self._known, self._moved, self._last
        pod = next((pod for pod in last[0] if pod.uid == uid), None) if last else None
        if turbo is None or last is None or pod is None:
            return {}
        _, cpus, no_cpu = last
        if pod.annotations.get(ANNOTATION) != "true":
            return {"": f'its annotation {ANNOTATION} is not "true"'}
        return {
            each.name: (no_cpu or turbo.why_unchanged(each.folder))
            if each.folder in known
            else f"its CPU limit is not between 0 and the {cpus} CPUs of the node, or its quota cannot be read"
            for each in pod_of(pod).containers
            if each.folder not in moved
        }

    def round(self, made: Round[Services]) -> None:
        """One tick."""
        turbo = self._turbo = self._turbo or Turbo(made.sample.cpus)
        turbo.cpus = made.sample.cpus
        if self.on:
            turbo.knobs = Knobs(self.block.highWaterMark, self.block.alarmWaterMark)
        wanted = self._wanted(made) if self.on else {}
        now = nanoseconds(made.sample)
        quotas = Quotas(made)
        self._release(turbo, wanted, made, quotas)
        readings = {folder: found for folder in wanted if (found := self._reading(turbo, made, folder)) is not None}
        for folder in self._files.keys() - readings.keys():
            self._files.pop(folder).close()
        for folder, reading in readings.items():
            if folder not in turbo.managed:
                self._take(turbo, folder, wanted[folder], reading, now)
        self._known = {folder: each for folder, each in wanted.items() if folder in turbo.managed}
        use, moved = ticks(made.sample), set[str]()
        if use is None:
            made.cannot(NAME, "quotas stay as they are", made.sample.no_cpu)
        elif self.on:
            percent = self.use_percent = turbo.observe(use, now)
            for folder, quota in turbo.decide(readings, now).items():
                reason = f"the node uses {percent:.0f} %, the limit is {wanted[folder].limit:g} CPUs"
                if quota != readings[folder].quota:
                    moved.add(folder)
                    quotas.change(folder, readings[folder].quota, quota, wanted[folder], reason)
        self._moved = frozenset(moved)
        self._last = (made.pods, made.sample.cpus, made.sample.no_cpu) if self.on else None
        quotas.say()

    def _wanted(self, made: Round[Services]) -> dict[str, Wanted]:
        """The containers whose pods ask for it, and whose limits leave something to raise, by folder."""
        pods, cpus, found = self._asked
        # Pods are the same objects as long as nothing of them has changed.
        if cpus == made.sample.cpus and len(pods) == len(made.pods) and all(map(operator.is_, pods, made.pods)):
            return found
        found = {
            each.folder: Wanted(pod, each.name, each.cpu_limit)
            for pod in made.pods
            if pod.annotations.get(ANNOTATION) == "true"
            for each in pod_of(pod).containers
            if each.cpu_limit is not None and manageable(each.cpu_limit, made.sample.cpus)
        }
        self._asked = made.pods, made.sample.cpus, found
        return found

    def _reading(self, turbo: Turbo, made: Round[Services], folder: str) -> Reading | None:
        """One reading of a container's cgroup, whose files are held open; None if it is gone, or tells too little."""
        files = self._files.get(folder)
        if files is None:
            if len(self._files) >= self._most_files:
                return _reading(made, folder)
            try:
                files = self._files[folder] = ProcessorFiles(made.parts.executor.hierarchies, made.parts.root, folder)
            except (OSError, ValueError):
                return None
        # One with its limit is not moved before it has run: until then its last reading will do.
        known = turbo.managed.get(folder)
        found = files.read(resting=known is not None and known.quota == known.least() and folder not in self._moved)
        return None if found is None else Reading(*found)

    def _release(self, turbo: Turbo, wanted: dict[str, Wanted], made: Round[Services], quotas: Quotas) -> None:
        """Give back what containers have that are no longer managed, or have another limit now."""
        for folder, known in self._known.items():
            now = wanted.get(folder)
            if now is not None and now.limit == known.limit:
                continue
            quota = turbo.remove(folder)
            found = _reading(made, folder)
            if now is None and found is not None and quota is not None:
                quotas.change(folder, found.quota, quota, known, "it is no longer asked for")

    def _take(self, turbo: Turbo, folder: str, each: Wanted, reading: Reading, now: int) -> None:
        """Manage a container."""
        if reading.period > 0 and reading.quota >= 0:
            turbo.add(folder, each.limit, reading, now)


class Quotas:
    """The changes of one tick, with the cgroups above each container, which several have in common."""

    def __init__(self, made: Round[Services]) -> None:
        self._made = made
        self._now: dict[str, int | None] = {}
        self._writes: dict[str, tuple[Write, Wanted, str]] = {}

    def change(self, folder: str, before: int, after: int, each: Wanted, reason: str) -> None:
        """Have a container's quota changed, and those above it by as much."""
        if UNLIMITED in (before, after):
            return
        self._now[folder] = before
        try:
            writes = chain(folder, before, after, self._quota)
        except ValueError as error:
            self._made.errors.append(f"{NAME}: {each.pod.key}: {error}")
            return
        for write in writes:
            self._now[write.folder] = int(write.value)
            self._writes[write.folder] = write, each, reason

    def say(self) -> None:
        """Have all of them written: those of one pod hold together or not at all."""
        for folder, (write, each, reason) in self._writes.items():
            subject = each.pod.subject(each.name if folder != each.pod.folder else "")
            self._made.set(subject, folder, _QUOTA, write.value, NAME, reason, whole=each.pod.uid, passing=True)

    def _quota(self, folder: str) -> int | None:
        if folder not in self._now:
            found = self._made.read(folder, _QUOTA)
            self._now[folder] = found if isinstance(found, int) else None
        return self._now[folder]


def _reading(made: Round[Services], folder: str) -> Reading | None:
    """One reading of a container's cgroup; None if it is not there, or tells too little."""
    quota, period = made.read(folder, _QUOTA), made.read(folder, _PERIOD)
    use = made.usage(folder, processor_only=True)
    if not (isinstance(quota, int) and isinstance(period, int)) or use is None or use.cpu_ns is None:
        return None
    return Reading(quota, period, use.throttled or 0, use.throttled_ns or 0, use.cpu_ns)
