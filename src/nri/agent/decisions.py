"""Run the hooks of a stage by the current rules; record, count and log the outcome.

All transports decide here. An unexpected exception of a hook costs only that hook: it is reported with the hook's name.
"""

from __future__ import annotations

import functools
import logging
import operator
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from nri.agent.cgroup_paths import kube_class_of
from nri.agent.executor import Context, Executor
from nri.agent.history import PREVIEW, History
from nri.agent.hooks import REMOVE_POD, STAGES, ExplainedDecision, Hook, Outcome, Switches, decide
from nri.agent.model import (
    NO_CHANGES,
    Changes,
    Container,
    HookError,
    HostApplication,
    KubeQosFolder,
    Pod,
    Subject,
)
from nri.agent.observer import Observer
from nri.agent.profile import Profile
from nri.agent.rules.store import RuleStore
from nri.host import Result
from nri.text import cut, plain

__all__ = ["Decisions", "class_of", "subject_of", "values_of"]

_log = logging.getLogger(__name__)
_MAX_TEXT: Final = 400
_FIELDS: Final = tuple(field.name for field in fields(Changes))
#: Fields with several entries, each with its own name.
_BY_NAME: Final = {"knobs": "", "env": "env."}


class Decisions:
    """Decisions of the profile's hooks, recorded for `explain` and counted.

    Args:
        profile: the source of the hooks.
        store: the rules.
        executor: writes what a transport cannot express.
        history: records the decisions.
        observer: counts them.
        clock: seconds, to measure durations.
        preview: the hooks that are recorded but not applied.
    """

    def __init__(
        self,
        profile: Profile,
        store: RuleStore,
        executor: Executor,
        history: History,
        observer: Observer,
        clock: Callable[[], float] = time.perf_counter,
        *,
        preview: Collection[str] = (),
    ) -> None:
        self._profile, self._hooks = profile, profile.hooks
        self._store, self.executor, self._history, self._observer = store, executor, history, observer
        #: All labels and annotations that a hook reads.
        self._keys = frozenset(key for row in profile.hooks for key in row.keys)
        self._clock, self._preview = clock, frozenset(preview)

    @property
    def node(self) -> Any:
        """The current rules, in the profile's own type."""
        return self._store.node

    def decide(self, stage: str, context: Context, transport: str) -> Outcome:
        """Run the hooks of a stage. Never raises for errors of hooks; KeyError for an unknown stage."""
        STAGES[stage]
        node = self._store.node
        begin = self._clock()
        try:
            outcome = decide(self._hooks, stage, context, node)
        except Exception:  # noqa: BLE001 - one pod's annotation must stop neither the agent nor the other hooks
            outcome = _one_by_one(self._hooks, stage, context, node)
        seconds = self._clock() - begin
        errors = [*outcome.errors]
        self._observer.decided(
            transport, stage, seconds, {row.hook for row in outcome.because}, {error.hook for error in errors}
        )
        subject = subject_of(context)
        if self._preview.intersection(outcome.hooks):
            self._only_say(outcome, subject, transport)
        self._history.decided(subject, stage, transport, values_of(outcome.because))
        self.errors(subject, stage, transport, [(error.hook, error.reason) for error in errors], outcome.hooks)
        self._history.has(subject, self._keys.intersection(_keys_of(context)), class_of(self._profile, context))
        if isinstance(context, Pod) and stage != REMOVE_POD:
            self._slips(context, subject, transport)
        return outcome

    def _only_say(self, outcome: Outcome, subject: Subject, transport: str) -> None:
        """Remove the changes of previewed hooks from an outcome, and record them."""
        previewed = [row for row in outcome.because if row.hook in self._preview]
        outcome.because = [row for row in outcome.because if row.hook not in self._preview]
        outcome.changes = functools.reduce(operator.or_, (row.changes for row in outcome.because), NO_CHANGES)
        self._history.decided(subject, PREVIEW, transport, values_of(previewed))
        for _ in values_of(previewed):
            self._observer.met(transport, "previewed value")

    def _slips(self, context: Pod, subject: Subject, transport: str) -> None:
        """Record labels and annotations of a pod that nothing reads; each is logged once."""
        new = self._history.noted(subject, self._profile.unread(context.labels, context.annotations, context.extended))
        for line in new:
            _log.warning("%s: %s", _named(subject), cut(line, _MAX_TEXT))
        if new:
            self._observer.slipped(transport, len(new))

    def failed(self, context: Context, transport: str, hook: str, reason: str) -> None:
        """Record that a hook without a stage failed for a pod, or with "" that it did not."""
        self.errors(subject_of(context), transport, transport, [(hook, reason)] if reason else [], (hook,))

    def errors(
        self, subject: Subject, stage: str, transport: str, rows: Sequence[tuple[str, str]], hooks: Collection[str]
    ) -> None:
        """Record the errors of hooks; each is logged once while it lasts.

        Args:
            subject: the object of the decision.
            stage: of the hooks.
            transport: its name.
            rows: the failed hooks, each with its reason.
            hooks: all hooks that ran.
        """
        reasons = [(hook, plain(reason)) for hook, reason in rows]
        for hook, reason in self._history.failed(subject, stage, transport, reasons, hooks):
            _log.warning("%s: %s: %s; earlier values stay", _named(subject), hook, cut(reason, _MAX_TEXT))

    def record(self, context: Context, transport: str, results: Sequence[Result]) -> None:
        """Record what came of what was decided."""
        self._history.record(subject_of(context), transport, results)

    def carry_out(self, context: Context, outcome: Outcome, transport: str) -> list[Result]:
        """Have the executor do all of an outcome, and record what came of it."""
        results = self.executor.changes(context, outcome.changes, reason_of(outcome))
        self.record(context, transport, results)
        return results

    def removed(self, pod: Pod) -> None:
        """Forget the cgroup of a removed pod; its history is among the first to be dropped."""
        self.executor.forget(pod.folder)
        self._history.ended(pod.uid)


def _named(subject: Subject) -> str:
    """A subject on one line of a log."""
    words = (subject.namespace, subject.name, subject.container) if subject.namespace else (subject.key,)
    return plain("/".join(word for word in words if word), _MAX_TEXT)


def subject_of(context: Context) -> Subject:
    """The subject of a context: the key of its records."""
    if isinstance(context, Pod):
        return Subject(context.uid, context.namespace, context.name)
    if isinstance(context, Container):
        return Subject(context.pod.uid, context.pod.namespace, context.pod.name, context.name)
    if isinstance(context, KubeQosFolder):
        return Subject(f"kube-qos/{context.kube_class}", name=context.kube_class)
    return Subject(f"host-application/{context.name}", name=context.name)


def class_of(profile: Profile, context: Context) -> str:
    """The QoS class that rules are selected by; the Kubernetes class for a pod without one."""
    if isinstance(context, KubeQosFolder):
        return context.kube_class
    if isinstance(context, HostApplication):
        return ""
    pod = context.pod if isinstance(context, Container) else context
    return profile.class_of(pod) or kube_class_of(pod.folder)


def _keys_of(context: Context) -> tuple[str, ...]:
    """The labels and annotations that a pod has."""
    if isinstance(context, (KubeQosFolder, HostApplication)):
        return ()
    pod = context.pod if isinstance(context, Container) else context
    return (*pod.labels, *pod.annotations)


def reason_of(outcome: Outcome) -> str:
    """The reasons of an outcome on one line."""
    return "; ".join(f"{row.hook}: {row.reason}" for row in outcome.because)


def _one_by_one(hooks: Sequence[Hook], stage: str, context: Context, node: Switches) -> Outcome:
    """Run each hook alone, so that an exception costs only the hook that raised it."""
    outcome = Outcome()
    for row in hooks:
        if not row.on(node):
            continue
        try:
            hook_outcome = decide((row,), stage, context, node)
        except Exception as error:  # noqa: BLE001 - see `decide`
            hook_outcome = Outcome(
                hooks=[row.name], errors=[HookError(row.name, plain(f"{type(error).__name__}: {error}"))]
            )
            hook_outcome.failed = hook_outcome.errors[0] if node.fail else None
        outcome.changes |= hook_outcome.changes
        outcome.because += hook_outcome.because
        outcome.errors += hook_outcome.errors
        outcome.hooks += hook_outcome.hooks
        if hook_outcome.failed is not None:
            outcome.failed = hook_outcome.failed
            break
    return outcome


def values_of(rows: Sequence[ExplainedDecision]) -> Iterator[tuple[str, Any, str, str]]:
    """The single values of decisions: field, value, hook, reason."""
    for row in rows:
        for name in _FIELDS:
            value = getattr(row.changes, name)
            if value is None or value in ((), {}):
                continue
            if name in _BY_NAME:
                yield from ((f"{_BY_NAME[name]}{key}", text, row.hook, row.reason) for key, text in value.items())
            elif isinstance(value, tuple):
                yield from ((f"{name}.{_path(entry)}", entry, row.hook, row.reason) for entry in value)
            else:
                yield name, value, row.hook, row.reason


def _path(entry: Any) -> str:
    return str(getattr(entry, "destination", "") or getattr(entry, "path", "") or getattr(entry, "type", ""))
