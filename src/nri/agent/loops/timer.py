"""Loops: the strategies that are on, called by a timer, and what they want carried out in one batch.

Rules: nothing is sampled while no strategy wants it; what a strategy wants is written and recorded for `explain` with
its reason, and so is each eviction; a strategy that breaks off costs no other its round. Memory is bounded by the pods
that run. This is the last room of :mod:`nri.agent.loops`.
"""

from __future__ import annotations

import functools
import logging
import operator
import re
import time
from collections.abc import Callable
from typing import Any, Final

from nri.agent.executor import ValueWriter
from nri.agent.explain import PREVIEW
from nri.agent.last_good import LastGoodAnnotations
from nri.agent.loops.evictor import Evictor, evictor_of
from nri.agent.loops.round import KnobValue, Round
from nri.agent.loops.samples import Sample, Sampler
from nri.agent.loops.strategy import Rules, Sampled, Strategy
from nri.agent.model import Pod, PodManifest, Subject, Write
from nri.agent.parts import Parts
from nri.agent.pods.running import running
from nri.agent.profile import load
from nri.agent.settings.values import AgentSettings
from nri.agent.worker import TIMER, Worker
from nri.host import Hierarchies, Outcome, Result, Root, Topology, read_topology, set_switch
from nri.text import count, plain

__all__ = ["Loops"]

#: The name under which decisions of loops are recorded, where hooks have their stage and their transport.
_STAGE: Final = "loop"
#: The reason of a round that pods which have come or changed ask for.
_PODS: Final = "pods"
#: The name of settings for the whole machine in `explain`.
_MACHINE: Final = Subject("node/resctrl", name="resctrl")
_SYSCTLS: Final = Subject("node/sysctls", name="sysctls")
_MOST_PODS: Final = 4096
_MOST_ERRORS: Final = 100
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
#: Reasons for refused evictions of one pod that are warnings in the log; others are logged as details.
_MAX_REFUSAL_REASONS: Final = 8
#: For how many seconds the machine's CPUs are believed to be those that they were.
_TOPOLOGY_S: Final = 60.0
_log = logging.getLogger("nri.agent")


class _Group:
    """The strategies with one interval, and what their last round has met."""

    def __init__(self, pause_s: float, loops: list[Strategy], sampler: Sampler) -> None:
        self.pause_s, self.loops, self.sampler = pause_s, loops, sampler
        self.due = 0.0
        #: Strategies that are off, and have had the round in which they take back what they have set.
        self.off: set[str] = set()
        self.errors: list[str] = []
        #: Knobs that this machine does not support; the log has had it.
        self.unsupported: dict[str, None] = {}
        #: Errors that the log has had, without their numbers.
        self.told: frozenset[str] = frozenset()


class Loops:
    """The strategies by a timer.

    Args:
        settings: of the agent: `loops`, and which strategies are on.
        parts: what the agent shares.
        values: sets what strategies decide; None for the executor.
        evictor: who makes pods go; None for the one that the settings make possible.
        now: monotonic seconds.
        sampler: takes samples of the machine, made as `Sampler`.
    """

    name = "loops"
    values = None

    def __init__(
        self,
        settings: AgentSettings,
        parts: Parts,
        values: ValueWriter | None = None,
        *,
        evictor: Evictor | None = None,
        now: Callable[[], float] = time.monotonic,
        sampler: Callable[[Root, Hierarchies, Callable[[], float]], Sampler] = Sampler,
    ) -> None:
        self._sampler = sampler
        self._parts, self._evictor = parts, evictor or evictor_of(settings, parts.pods)
        self._values = values
        self._rules: Rules = parts.profile.strategy_rules()
        on = parts.profile.strategies_on(settings.gates)
        made: dict[str, list[str]] = {}
        for row in parts.profile.strategies:
            if row.name in on:
                made.setdefault(row.made, []).append(row.name)
        self.loops: list[Strategy] = [load(name)(settings, names) for name, names in made.items()]
        self._now, self._looked, self._usual_s = now, 0.0, settings.loops.interval
        self._cpus: Topology | None = None
        self._worker = Worker("nri-loops", self.round, self._usual_s, now=now)
        self._groups: dict[tuple[float, bool], _Group] = {}
        self._regroup()
        self._preview = frozenset(settings.preview)
        #: The pods of the last round as their source has them, and as strategies see them; and what is wrong with some.
        self._listed: list[PodManifest] = []
        self._seen: tuple[list[Pod], list[str]] = [], []
        #: The error of each strategy that broke off its last round; the log has had it.
        self._broken: dict[str, str] = {}
        self._good = LastGoodAnnotations()
        self._unreadable: list[str] = []
        #: Pods that strategies may not evict, with the reason; the log has had it.
        self._spared: dict[tuple[Subject, str], str] = {}
        #: Why evictions were refused since the last accepted one, by pod and strategy; the log has had it.
        self._refusals: dict[tuple[Subject, str], set[str]] = {}

    def start(self) -> None:
        """Begin; the first round is at once."""
        self._worker.start()

    def pods_changed(self) -> None:
        """Have a round, soon, of the strategies that do not wait for the timer when a pod comes."""
        if any(prompt for _, prompt in self._groups):
            self._worker.poke(_PODS)

    def stop(self) -> None:
        """End within the round that runs. Written values stay, but for those that only hold while the agent watches."""
        if self._worker.stop():
            self._give_back()

    def _give_back(self) -> None:
        """Have a last round of the strategies whose values are transient, as if nothing asked for them."""
        if not any(loop.transient for loop in self.loops):
            return
        self._rules.take(None)
        for group in self._groups.values():
            passing = [loop for loop in group.loops if loop.transient and loop.wants(self._rules)]
            if passing:
                made = self._made(group, self._pods()[0], passing)
                for loop in passing:
                    try:
                        loop.round(made)
                    except Exception:  # noqa: BLE001  one strategy must not keep what the others have set
                        _log.exception("%s: what it has set may stay", loop.name)
                self._write(made)

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Look at all rules again, soon; what is switched off, too, because it gives back by them."""
        for group in self._groups.values():
            group.off = set()
        self._worker.poke(*kinds)

    def health(self) -> tuple[bool, str]:
        """Whether rounds go well, and which strategies are on."""
        if self._worker.error:
            return False, f"a round has failed: {self._worker.error}"
        on = ", ".join(loop.name for loop in self.loops) or "none"
        wrong = f"; {count(len(self.errors), 'error')} ({self.errors[0]})" if self.errors else ""
        return True, f"{on}{wrong}"

    def schedule(self) -> list[dict[str, Any]]:
        """Return the strategies that are on: when each decides again, how often, by what, and if it is previewed."""
        now = self._now()
        return [
            {
                "strategy": loop.name,
                "in_s": round(max(group.due - now, 0.0), 1),
                "every_s": group.pause_s,
                "state": plain(loop.state(now), 200),
                "preview": loop.name in self._preview,
            }
            for group in [*self._groups.values()]
            for loop in group.loops
            if loop.name not in group.off
        ]

    def unchanged(self, uid: str) -> list[dict[str, str]]:
        """Return why strategies left values of a pod as they were in their last rounds, a row for each container."""
        return [
            {"container": container, "strategy": loop.name, "reason": reason}
            for group in [*self._groups.values()]
            for loop in group.loops
            if loop.name not in group.off
            for container, reason in loop.unchanged(uid).items()
        ]

    @property
    def errors(self) -> list[str]:
        """Everything that could not be read, done or decided when it was tried last, a line each."""
        every = (
            *self._rules.errors,
            *(error for group in self._groups.values() for error in (*group.unsupported, *group.errors)),
        )
        return [plain(each, 200) for each in every][:_MOST_ERRORS]

    def round(self, reasons: frozenset[str] = frozenset()) -> None:
        """One round: sample, decide, write, evict; of strategies that are due, or of all if a rule has changed."""
        self._rules.take(self._parts.store.document(self._rules.kind))
        self._tell(self._rules.errors)
        if not (self._rules.known and self._parts.pods.synced):
            return
        for loop in self.loops:
            loop.wants(self._rules)
        self._regroup()
        now = self._now()
        # A round that begins a little early, because the thread before it was late, is not put off by a whole pause.
        early_s, rules = self._worker.interval_s / 2, reasons - {TIMER, _PODS}
        due = [
            group
            for (_, prompt), group in self._groups.items()
            if rules
            or not reasons
            or (prompt and _PODS in reasons)
            or (TIMER in reasons and now + early_s >= group.due)
        ]
        if not due:
            return
        pods, senseless = self._pods()
        for group in due:
            group.due = now + group.pause_s
            self._group_round(group, pods, senseless)

    def _regroup(self) -> None:
        """Put strategies with one interval together: they share samples, each of the time since their round before."""
        together: dict[tuple[float, bool], list[Strategy]] = {}
        for loop in self.loops:
            together.setdefault((loop.interval_s or self._usual_s, loop.prompt), []).append(loop)
        if {key: group.loops for key, group in self._groups.items()} == together:
            return
        root, hierarchies = self._parts.root, self._parts.executor.hierarchies
        self._groups = {
            key: _Group(key[0], loops, self._sampler(root, hierarchies, self._now)) for key, loops in together.items()
        }
        self._worker.interval_s = min((pause_s for pause_s, _ in together), default=self._usual_s)

    def _group_round(self, group: _Group, pods: list[Pod], senseless: list[str]) -> None:
        active = [loop for loop in group.loops if loop.wants(self._rules) or _asked_by(loop, pods)]
        # One that has just been switched off has its last round, in which it takes back what it has set.
        last = [loop for loop in group.loops if loop not in active and loop.name not in group.off]
        group.off = {loop.name for loop in group.loops if loop not in active}
        group.errors = [*senseless]
        if not active and not last:
            group.unsupported = {}
            return
        readable = [pod for pod in pods if _readable(pod, group.errors)]
        made = self._made(group, readable, [*active, *last])
        made.errors += group.errors
        for loop in (*active, *last):
            shared = len(made.groups)
            try:
                loop.round(made)
                if loop.name in self._preview:
                    self._preview_groups(made, loop.name, shared)
            except Exception as error:  # noqa: BLE001  one strategy must not cost the others their round
                text = plain(f"{loop.name}: {type(error).__name__}: {error}", 200)
                made.errors.append(text)
                level = logging.DEBUG if self._broken.get(loop.name) == text else logging.ERROR
                _log.log(level, "%s: the round has failed", loop.name, exc_info=True)
                self._broken[loop.name] = text
            else:
                self._broken.pop(loop.name, None)
        for (subject, name), reason in made.unreadable.items():
            rows = [(name, reason)] if reason else []
            self._parts.decisions.errors(subject, _STAGE, self.name, rows, (name,))
        self._write(made)
        self._spare(made)
        for text in made.unsupported:
            if text not in group.unsupported:
                _log.warning("%s", text)
        # Those of annotations, and of rounds that failed, have been told.
        told = set(self._broken.values())
        told |= {f"{name}: {of.namespace}/{of.name}: {why}" for (of, name), why in made.unreadable.items()}
        group.told = self._warn([text for text in made.errors if text not in told], group.told)
        group.unsupported, group.errors = made.unsupported, made.errors[:_MOST_ERRORS]

    def _warn(self, errors: list[str], before: frozenset[str]) -> frozenset[str]:
        """Log what could not be decided, once; it is the same as long as it differs by its numbers alone."""
        now = {_NUMBER.sub("0", text): text for text in errors[:_MOST_ERRORS]}
        for key, text in now.items():
            if key not in before:
                _log.warning("%s", plain(text, 400))
        return frozenset(now)

    def _tell(self, errors: list[str]) -> None:
        """Log what of the document is not used, once, until it is over."""
        for text in errors:
            if text not in self._unreadable:
                _log.warning("%s: %s; what it said last of that is in force", self._rules.kind, plain(text, 400))
        self._unreadable = errors

    def _pods(self) -> tuple[list[Pod], list[str]]:
        """The pods that run; one of which the resources cannot be read is left out, and told.

        They are put together again only if the source has other objects than the last time: that is dear.
        """
        parts, every = self._parts, self._parts.pods.pods()
        listed, excess = every[:_MOST_PODS], max(len(every) - _MOST_PODS, 0)
        if len(listed) == len(self._listed) and all(map(operator.is_, listed, self._listed)):
            return self._seen
        senseless: list[str] = []

        def failed(key: str, error: Exception) -> None:
            senseless.append(f"{key}: {error}")

        found: list[Pod] = []
        for each in running(listed, parts.executor.hierarchies, parts.driver, failed):
            if each.problem is None:
                found.append(each)
            else:
                failed(each.key, each.problem)
        if excess:
            senseless.append(f"{count(excess, 'pod')} left alone: strategies look at {_MOST_PODS} pods at most")
        self._listed, self._seen = listed, (found, senseless)
        return self._seen

    def _made(self, group: _Group, pods: list[Pod], loops: list[Strategy]) -> Round[Any]:
        parts, topology = self._parts, self._topology()
        empty = Sample(0.0, len(topology.cpus), None, None, None, {})
        made = Round(parts, self._rules, pods, empty, topology, evictions=self, good=self._good)
        self._good.only({pod.uid for pod in pods})
        samples = functools.reduce(operator.or_, (loop.samples for loop in loops))
        folders: list[str] = []
        if Sampled.PODS in samples:
            folders += [pod.folder for pod in pods]
        if Sampled.PROGRAMS in samples:
            folders += [program.folder for program in made.programs]
        if Sampled.BEST_EFFORT in samples:
            folders.append(made.best_effort_folder)
        if Sampled.CONTAINERS in samples:
            folders += [each.folder for pod in pods for each in pod.containers]
        made.sample = group.sampler.take(dict.fromkeys(folders), len(topology.cpus))
        return made

    def _topology(self) -> Topology:
        """The CPUs of the machine; they seldom change."""
        if self._cpus is None or self._now() - self._looked >= _TOPOLOGY_S:
            self._cpus, self._looked = read_topology(self._parts.root), self._now()
        return self._cpus

    def _write(self, made: Round[Any]) -> None:
        values = [value for value in made.values if not self._previewed(value)]
        self._write_passing([value for value in values if value.passing])
        lasting = [value for value in values if not value.passing]
        writes = [_write_of(each) for each in lasting]
        if self._values is not None:
            for each, written in zip(lasting, self._values.write(writes), strict=True):
                self._record(each, written.result, self._values.name if written.by_runtime else self.name)
        else:
            for each, result in zip(lasting, self._parts.executor.write(writes, keep=False), strict=True):
                self._record(each, result, self.name)
        for group in made.groups:
            self._parts.history.record(_MACHINE, self.name, self._parts.executor.resctrl(group))
        for loop, name, number in made.switches:
            given = KnobValue(_SYSCTLS, "", name, str(number), loop, "systemStrategy")
            if not self._previewed(given):
                result = set_switch(self._parts.root, name, number)
                self._parts.observer.wrote([result])
                self._record(given, result, self.name)

    def _preview_groups(self, made: Round[Any], loop: str, first: int) -> None:
        """Say which groups of resctrl a strategy would have, and do not make them."""
        for group in made.groups[first:]:
            row = (f"resctrl.{group.group}", "removed" if group.remove else group.schemata.split(), loop, "")
            self._parts.history.decided(_MACHINE, PREVIEW, self.name, [row])
            self._parts.observer.met(self.name, "previewed value")
        del made.groups[first:]

    def _previewed(self, given: KnobValue) -> bool:
        """Whether a strategy is only to say what it would set; then that is said."""
        if given.loop not in self._preview:
            return False
        value = given.value if given.devices is None else str(dict(given.devices))
        self._parts.history.decided(given.subject, PREVIEW, self.name, [(given.knob, value, given.loop, given.reason)])
        self._parts.observer.met(self.name, "previewed value")
        return True

    def _write_passing(self, values: list[KnobValue]) -> None:
        """Write values that hold for a moment; of those that are to hold all or none, put back what is not whole."""
        write = self._parts.executor.write
        writes = [_write_of(each) for each in values]
        results = write(writes, keep=False, force=True, lasting=False) if values else []
        for each, result in zip(values, results, strict=True):
            self._record(each, result, self.name)
        failed = {each.whole for each, result in zip(values, results, strict=True) if not result.in_force} - {""}
        back = [
            each._replace(value=str(result.before), reason="as it was, for another one does not hold")
            for each, result in zip(values, results, strict=True)
            if each.whole in failed and result.outcome is Outcome.APPLIED and result.before is not None
        ]
        writes = [_write_of(each) for each in back]
        restored = write(writes, keep=False, force=True, lasting=False) if back else []
        for each, result in zip(back, restored, strict=True):
            self._record(each, result, self.name)

    def _record(self, given: KnobValue, result: Result, by: str) -> None:
        """Record what changed something, or could not; what was so already is not told every second again."""
        if result.outcome in (Outcome.UNCHANGED, Outcome.GONE):
            return
        value = given.value if given.devices is None else str(dict(given.devices))
        self._parts.history.decided(given.subject, _STAGE, self.name, [(given.knob, value, given.loop, given.reason)])
        self._parts.history.record(given.subject, by, [result])

    def _spare(self, made: Round[Any]) -> None:
        """Tell of the pods that would be evicted if they could be, each once while it runs."""
        for (subject, loop), why in made.spared.items():
            if self._spared.get((subject, loop)) == why:
                continue
            _log.warning("%s does not evict %s/%s: %s", loop, plain(subject.namespace), plain(subject.name), plain(why))
            self._parts.history.decided(subject, _STAGE, self.name, [("eviction", "not allowed", loop, why)])
            self._parts.observer.met(self.name, "pod not allowed to be evicted")
        here = {pod.uid for pod in made.pods}
        self._spared = {key: why for key, why in (self._spared | made.spared).items() if key[0].key in here}
        self._refusals = {key: why for key, why in self._refusals.items() if key[0].key in here}

    def evict(self, pod: Pod, loop: str, reason: str) -> str:
        """Ask for a pod to go, and record that; return "" if that is under way, else why not."""
        if loop in self._preview:
            self._parts.history.decided(pod.subject(), PREVIEW, self.name, [("eviction", "would be", loop, reason)])
            self._parts.observer.met(self.name, "previewed eviction")
            return ""
        refused = self._evictor.evict(pod.manifest, f"{loop}: {reason}")
        # A refused eviction is requested again in the next round, which would be a line each second.
        reasons = self._refusals.setdefault((pod.subject(), loop), set()) if refused else set()
        text = plain(_NUMBER.sub("0", refused), 200)
        is_repeated = text in reasons or len(reasons) >= _MAX_REFUSAL_REASONS
        level = logging.DEBUG if refused and is_repeated else logging.WARNING
        _log.log(level, "%s evicts %s: %s%s", loop, pod.key, reason, f"; {refused}" if refused else "")
        reasons.add(text)
        if not refused:
            self._refusals.pop((pod.subject(), loop), None)
        row = ("eviction", "asked" if not refused else "refused", loop, reason)
        self._parts.history.decided(pod.subject(), _STAGE, self.name, [row])
        self._parts.observer.met(self.name, "eviction refused" if refused else "eviction")
        return refused


def _write_of(given: KnobValue) -> Write:
    return Write(given.folder, given.knob, given.value, f"{given.loop}: {given.reason}", given.devices)


def _readable(pod: Pod, senseless: list[str]) -> bool:
    """Whether the containers of a pod can be read; one pod that makes no sense must not cost the others their round."""
    try:
        return pod.containers is not None
    except Exception as error:  # noqa: BLE001  see above
        senseless.append(f"{pod.key}: {type(error).__name__}: {error}")
        return False


def _asked_by(loop: Strategy, pods: list[Pod]) -> bool:
    """Whether a pod asks for what this strategy does, whatever the rules say."""
    return bool(loop.key) and any(loop.key in pod.annotations for pod in pods)
