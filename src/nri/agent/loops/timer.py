"""Run the enabled strategies by a timer, and write their values in one batch.

Samples are taken only while a strategy needs them. An exception of one strategy does not stop the others.
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
from nri.agent.history import PREVIEW
from nri.agent.last_good import LastGoodAnnotations
from nri.agent.loops.evictor import Evictor, evictor_of
from nri.agent.loops.round import KnobValue, Round
from nri.agent.loops.samples import Sample, Sampler
from nri.agent.loops.strategy import Rules, SampledCgroups, Strategy
from nri.agent.model import Pod, PodManifest, Subject, Write
from nri.agent.parts import Parts
from nri.agent.pods.running import running
from nri.agent.profile import load
from nri.agent.settings.values import AgentSettings
from nri.agent.worker import TIMER, Worker
from nri.host import Hierarchies, Outcome, Result, Root, Topology, read_topology, set_switch
from nri.text import count, plain

#: The stage of decisions by strategies in records.
_STAGE: Final = "loop"
#: The reason of a round after pods appeared or changed.
_PODS: Final = "pods"
#: The subject of values of resctrl in `explain`.
_MACHINE: Final = Subject("node/resctrl", name="resctrl")
#: The subject of sysctls in `explain`.
_SYSCTLS: Final = Subject("node/sysctls", name="sysctls")
#: The maximum number of pods that strategies handle.
_MAX_PODS: Final = 4096
#: The maximum number of errors of a round.
_MAX_ERRORS: Final = 100
_NUMBER: Final = re.compile(r"[0-9]+(\\.[0-9]+)?")
#: The maximum number of different refusals of one pod's eviction that are logged as warnings.
_MAX_REFUSAL_REASONS: Final = 8
#: The time in seconds after which the CPUs of the machine are read again.
_TOPOLOGY_S: Final = 60.0
_log = logging.getLogger("nri.agent")


class _Group:
    """The strategies with the same interval, and the errors of their last round."""

    def __init__(self, pause_s: float, loops: list[Strategy], sampler: Sampler) -> None:
        self.pause_s, self.loops, self.sampler = pause_s, loops, sampler
        self.due = 0.0
        #: Strategies that are off and whose values have been reset.
        self.off: set[str] = set()
        self.errors: list[str] = []
        #: Decisions that this machine does not support, already logged.
        self.unsupported: dict[str, None] = {}
        #: Logged errors, without the numbers in them.
        self.logged_errors: frozenset[str] = frozenset()


class Loops:
    """Runs strategies by a timer.

    Args:
        settings: the settings of the agent; `loops` and the enabled strategies are read.
        parts: the shared parts of the agent.
        values: the writer of strategies' values; None means the executor.
        evictor: the evictor of pods; None means the evictor that the settings imply.
        now: returns monotonic seconds.
        sampler: the class of samplers.
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
        names_by_class: dict[str, list[str]] = {}
        for row in parts.profile.strategies:
            if row.name in on:
                names_by_class.setdefault(row.strategy_class, []).append(row.name)
        self.loops: list[Strategy] = [load(name)(settings, names) for name, names in names_by_class.items()]
        self._clock, self._topology_read_at, self._default_interval_s = now, 0.0, settings.loops.interval
        self._cpus: Topology | None = None
        self._worker = Worker("nri-loops", self.round, self._default_interval_s, now=now)
        self._groups: dict[tuple[float, bool], _Group] = {}
        self._regroup_strategies()
        self._preview = frozenset(settings.preview)
        #: The API objects of the pods of the last round. `_pods_and_errors` has the strategies' pods, and the errors.
        self._listed: list[PodManifest] = []
        self._pods_and_errors: tuple[list[Pod], list[str]] = [], []
        #: The exception of each strategy in its last round, already logged.
        self._broken: dict[str, str] = {}
        self._good = LastGoodAnnotations()
        self._unreadable: list[str] = []
        #: Pods that strategies must not evict, with the reason, already logged.
        self._logged_spared: dict[tuple[Subject, str], str] = {}
        #: Reasons of refused evictions since the last accepted eviction, by pod and strategy, already logged.
        self._refusals: dict[tuple[Subject, str], set[str]] = {}

    def start(self) -> None:
        """Start the rounds; the first round begins immediately."""
        self._worker.start()

    def pods_changed(self) -> None:
        """Request a round of the strategies with `runs_on_pod_changes`."""
        if any(runs_on_pod_changes for _, runs_on_pod_changes in self._groups):
            self._worker.request_run(_PODS)

    def stop(self) -> None:
        """Stop after the current round. Written values stay, except transient values."""
        if self._worker.stop():
            self._reset_transient_values()

    def _reset_transient_values(self) -> None:
        """Run a last round of strategies with transient values, as if nothing requested them."""
        if not any(loop.transient for loop in self.loops):
            return
        self._rules.take(None)
        for group in self._groups.values():
            passing = [loop for loop in group.loops if loop.transient and loop.is_needed(self._rules)]
            if passing:
                round_ = self._new_round(group, self._pods()[0], passing)
                for loop in passing:
                    try:
                        loop.round(round_)
                    except Exception:  # noqa: BLE001  an error of one strategy must not stop the others
                        _log.exception("%s: values may not be reset", loop.name)
                self._write(round_)

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Request a round of all strategies, also of disabled strategies, which may reset values."""
        for group in self._groups.values():
            group.off = set()
        self._worker.request_run(*kinds)

    def health(self) -> tuple[bool, str]:
        """Return whether rounds succeed, and the enabled strategies."""
        if self._worker.error:
            return False, f"a round failed: {self._worker.error}"
        on = ", ".join(loop.name for loop in self.loops) or "none"
        wrong = f"; {count(len(self.errors), 'error')} ({self.errors[0]})" if self.errors else ""
        return True, f"{on}{wrong}"

    def schedule(self) -> list[dict[str, Any]]:
        """Return the enabled strategies: next round, interval, inputs, and whether each is only previewed."""
        now = self._clock()
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
        """Return why the last rounds left values of a pod unchanged, with a row for each container."""
        return [
            {"container": container, "strategy": loop.name, "reason": reason}
            for group in [*self._groups.values()]
            for loop in group.loops
            if loop.name not in group.off
            for container, reason in loop.unchanged(uid).items()
        ]

    @property
    def errors(self) -> list[str]:
        """A line for each error of the rules and of the last rounds."""
        texts = (
            *self._rules.errors,
            *(error for group in self._groups.values() for error in (*group.unsupported, *group.errors)),
        )
        return [plain(text, 200) for text in texts][:_MAX_ERRORS]

    def round(self, reasons: frozenset[str] = frozenset()) -> None:
        """Run a round: sample, decide, write and evict.

        A changed rule makes all strategies run, not only the due ones.
        """
        self._rules.take(self._parts.store.document(self._rules.kind))
        self._log_document_errors(self._rules.errors)
        if not (self._rules.has_document and self._parts.pods.synced):
            return
        for loop in self.loops:
            loop.is_needed(self._rules)
        self._regroup_strategies()
        now = self._clock()
        # A round that starts slightly early, because the previous one was late, is not postponed by a whole interval.
        early_s, rules = self._worker.interval_s / 2, reasons - {TIMER, _PODS}
        due = [
            group
            for (_, runs_on_pod_changes), group in self._groups.items()
            if rules
            or not reasons
            or (runs_on_pod_changes and _PODS in reasons)
            or (TIMER in reasons and now + early_s >= group.due)
        ]
        if not due:
            return
        pods, unreadable = self._pods()
        for group in due:
            group.due = now + group.pause_s
            self._group_round(group, pods, unreadable)

    def _regroup_strategies(self) -> None:
        """Group strategies by interval. A group shares samples of the time since its previous round."""
        together: dict[tuple[float, bool], list[Strategy]] = {}
        for loop in self.loops:
            together.setdefault((loop.interval_s or self._default_interval_s, loop.runs_on_pod_changes), []).append(
                loop
            )
        if {key: group.loops for key, group in self._groups.items()} == together:
            return
        root, hierarchies = self._parts.root, self._parts.executor.hierarchies
        self._groups = {
            key: _Group(key[0], loops, self._sampler(root, hierarchies, self._clock)) for key, loops in together.items()
        }
        self._worker.interval_s = min((pause_s for pause_s, _ in together), default=self._default_interval_s)

    def _group_round(self, group: _Group, pods: list[Pod], unreadable: list[str]) -> None:
        active = [loop for loop in group.loops if loop.is_needed(self._rules) or _is_requested(loop, pods)]
        # A strategy that was just switched off has one last round, which resets its values.
        last = [loop for loop in group.loops if loop not in active and loop.name not in group.off]
        group.off = {loop.name for loop in group.loops if loop not in active}
        group.errors = [*unreadable]
        if not active and not last:
            group.unsupported = {}
            return
        readable = [pod for pod in pods if _readable(pod, group.errors)]
        round_ = self._new_round(group, readable, [*active, *last])
        round_.errors += group.errors
        for loop in (*active, *last):
            shared = len(round_.groups)
            try:
                loop.round(round_)
                if loop.name in self._preview:
                    self._preview_groups(round_, loop.name, shared)
            except Exception as error:  # noqa: BLE001  an error of one strategy must not stop the others
                text = plain(f"{loop.name}: {type(error).__name__}: {error}", 200)
                round_.errors.append(text)
                level = logging.DEBUG if self._broken.get(loop.name) == text else logging.ERROR
                _log.log(level, "%s: the round failed", loop.name, exc_info=True)
                self._broken[loop.name] = text
            else:
                self._broken.pop(loop.name, None)
        for (subject, name), reason in round_.unreadable.items():
            rows = [(name, reason)] if reason else []
            self._parts.decisions.errors(subject, _STAGE, self.name, rows, (name,))
        self._write(round_)
        self._log_spared(round_)
        for text in round_.unsupported:
            if text not in group.unsupported:
                _log.warning("%s", text)
        # Errors of annotations and of failed rounds were already logged.
        reported = set(self._broken.values())
        reported |= {f"{name}: {of.namespace}/{of.name}: {why}" for (of, name), why in round_.unreadable.items()}
        new_errors = [text for text in round_.errors if text not in reported]
        group.logged_errors = self._log_new_errors(new_errors, group.logged_errors)
        group.unsupported, group.errors = round_.unsupported, round_.errors[:_MAX_ERRORS]

    def _log_new_errors(self, errors: list[str], before: frozenset[str]) -> frozenset[str]:
        """Log errors that were not logged before. Errors that differ only in numbers count as equal."""
        now = {_NUMBER.sub("0", text): text for text in errors[:_MAX_ERRORS]}
        for key, text in now.items():
            if key not in before:
                _log.warning("%s", plain(text, 400))
        return frozenset(now)

    def _log_document_errors(self, errors: list[str]) -> None:
        """Log the errors of the document that were not logged before."""
        for text in errors:
            if text not in self._unreadable:
                _log.warning("%s: %s; the last valid value stays in force", self._rules.kind, plain(text, 400))
        self._unreadable = errors

    def _pods(self) -> tuple[list[Pod], list[str]]:
        """Return the running pods, and a line for each pod that is left out because it cannot be read.

        Pods are converted again only if the source has new objects, because the conversion is expensive.
        """
        parts, every = self._parts, self._parts.pods.pods()
        listed, excess = every[:_MAX_PODS], max(len(every) - _MAX_PODS, 0)
        if len(listed) == len(self._listed) and all(map(operator.is_, listed, self._listed)):
            return self._pods_and_errors
        unreadable: list[str] = []

        def failed(key: str, error: Exception) -> None:
            unreadable.append(f"{key}: {error}")

        pods: list[Pod] = []
        for pod in running(listed, parts.executor.hierarchies, parts.driver, failed):
            if pod.problem is None:
                pods.append(pod)
            else:
                failed(pod.key, pod.problem)
        if excess:
            unreadable.append(f"{count(excess, 'pod')} ignored: strategies handle at most {_MAX_PODS} pods")
        self._listed, self._pods_and_errors = listed, (pods, unreadable)
        return self._pods_and_errors

    def _new_round(self, group: _Group, pods: list[Pod], loops: list[Strategy]) -> Round[Any]:
        parts, topology = self._parts, self._topology()
        empty = Sample(0.0, len(topology.cpus), None, None, None, {})
        round_ = Round(parts, self._rules, pods, empty, topology, evictions=self, good=self._good)
        self._good.only({pod.uid for pod in pods})
        samples = functools.reduce(operator.or_, (loop.samples for loop in loops))
        folders: list[str] = []
        if SampledCgroups.PODS in samples:
            folders += [pod.folder for pod in pods]
        if SampledCgroups.PROGRAMS in samples:
            folders += [program.folder for program in round_.programs]
        if SampledCgroups.BEST_EFFORT in samples:
            folders.append(round_.best_effort_folder)
        if SampledCgroups.CONTAINERS in samples:
            folders += [container.folder for pod in pods for container in pod.containers]
        round_.sample = group.sampler.take(dict.fromkeys(folders), len(topology.cpus))
        return round_

    def _topology(self) -> Topology:
        """Return the CPUs of the machine, which are read again after `_TOPOLOGY_S`."""
        if self._cpus is None or self._clock() - self._topology_read_at >= _TOPOLOGY_S:
            self._cpus, self._topology_read_at = read_topology(self._parts.root), self._clock()
        return self._cpus

    def _write(self, round_: Round[Any]) -> None:
        values = [value for value in round_.values if not self._is_previewed(value)]
        self._write_passing([value for value in values if value.passing])
        lasting = [value for value in values if not value.passing]
        writes = [_knob_write(value_) for value_ in lasting]
        if self._values is not None:
            for value_, written in zip(lasting, self._values.write(writes), strict=True):
                self._record(value_, written.result, self._values.name if written.by_runtime else self.name)
        else:
            for value_, result in zip(lasting, self._parts.executor.write(writes, keep=False), strict=True):
                self._record(value_, result, self.name)
        for group in round_.groups:
            self._parts.history.record(_MACHINE, self.name, self._parts.executor.resctrl(group))
        for loop, name, number in round_.switches:
            switch_value = KnobValue(_SYSCTLS, "", name, str(number), loop, "systemStrategy")
            if not self._is_previewed(switch_value):
                result = set_switch(self._parts.root, name, number)
                self._parts.observer.wrote([result])
                self._record(switch_value, result, self.name)

    def _preview_groups(self, round_: Round[Any], loop: str, first: int) -> None:
        """Record the resctrl groups that a previewed strategy would create, and drop them."""
        for group in round_.groups[first:]:
            row = (f"resctrl.{group.group}", "removed" if group.remove else group.schemata.split(), loop, "")
            self._parts.history.decided(_MACHINE, PREVIEW, self.name, [row])
            self._parts.observer.count_event(self.name, "previewed value")
        del round_.groups[first:]

    def _is_previewed(self, knob_value: KnobValue) -> bool:
        """Return whether a value is only previewed. If so, record it as previewed."""
        if knob_value.loop not in self._preview:
            return False
        value = knob_value.value if knob_value.devices is None else str(dict(knob_value.devices))
        self._parts.history.decided(
            knob_value.subject, PREVIEW, self.name, [(knob_value.knob, value, knob_value.loop, knob_value.reason)]
        )
        self._parts.observer.count_event(self.name, "previewed value")
        return True

    def _write_passing(self, values: list[KnobValue]) -> None:
        """Write values that last for one round. If a value of a group fails, reset the other values of the group."""
        write = self._parts.executor.write
        writes = [_knob_write(value) for value in values]
        results = write(writes, keep=False, force=True, lasting=False) if values else []
        for value_, result in zip(values, results, strict=True):
            self._record(value_, result, self.name)
        failed = {value.group for value, result in zip(values, results, strict=True) if not result.in_force} - {""}
        back = [
            value._replace(value=str(result.before), reason="reset, because another value of the group failed")
            for value, result in zip(values, results, strict=True)
            if value.group in failed and result.outcome is Outcome.APPLIED and result.before is not None
        ]
        writes = [_knob_write(value_) for value_ in back]
        restored = write(writes, keep=False, force=True, lasting=False) if back else []
        for value_, result in zip(back, restored, strict=True):
            self._record(value_, result, self.name)

    def _record(self, knob_value: KnobValue, result: Result, by: str) -> None:
        """Record a changed or failed value. Unchanged values are not recorded again in each round."""
        if result.outcome in (Outcome.UNCHANGED, Outcome.GONE):
            return
        value = knob_value.value if knob_value.devices is None else str(dict(knob_value.devices))
        self._parts.history.decided(
            knob_value.subject, _STAGE, self.name, [(knob_value.knob, value, knob_value.loop, knob_value.reason)]
        )
        self._parts.history.record(knob_value.subject, by, [result])

    def _log_spared(self, round_: Round[Any]) -> None:
        """Log each candidate that must not be evicted, once."""
        for (subject, loop), why in round_.spared.items():
            if self._logged_spared.get((subject, loop)) == why:
                continue
            _log.warning("%s does not evict %s/%s: %s", loop, plain(subject.namespace), plain(subject.name), plain(why))
            self._parts.history.decided(subject, _STAGE, self.name, [("eviction", "not allowed", loop, why)])
            self._parts.observer.count_event(self.name, "pod not allowed to be evicted")
        uids = {pod.uid for pod in round_.pods}
        self._logged_spared = {
            key: why for key, why in (self._logged_spared | round_.spared).items() if key[0].key in uids
        }
        self._refusals = {key: why for key, why in self._refusals.items() if key[0].key in uids}

    def evict(self, pod: Pod, loop: str, reason: str) -> str:
        """Request the eviction of a pod and record it; return "" if it was accepted, or else the reason."""
        if loop in self._preview:
            self._parts.history.decided(pod.subject(), PREVIEW, self.name, [("eviction", "would be", loop, reason)])
            self._parts.observer.count_event(self.name, "previewed eviction")
            return ""
        refused = self._evictor.evict(pod.manifest, f"{loop}: {reason}")
        # A refused eviction is requested again in the next round; logging each request would fill the log.
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
        self._parts.observer.count_event(self.name, "eviction refused" if refused else "eviction")
        return refused


def _knob_write(knob_value: KnobValue) -> Write:
    return Write(
        knob_value.folder,
        knob_value.knob,
        knob_value.value,
        f"{knob_value.loop}: {knob_value.reason}",
        knob_value.devices,
    )


def _readable(pod: Pod, unreadable: list[str]) -> bool:
    """Return whether the containers of a pod can be read."""
    try:
        return pod.containers is not None
    except Exception as error:  # noqa: BLE001  an error of one pod must not stop the round
        unreadable.append(f"{pod.key}: {type(error).__name__}: {error}")
        return False


def _is_requested(loop: Strategy, pods: list[Pod]) -> bool:
    """Return whether a pod requests this strategy by annotation."""
    return bool(loop.key) and any(loop.key in pod.annotations for pod in pods)
