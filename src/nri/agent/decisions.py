"""Run the hooks of a stage with the current rules, and record, count and log the outcome.

All transports use this class. An unexpected exception of a hook is reported with the hook's name; other hooks run.
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

_log = logging.getLogger(__name__)
#: The maximum number of characters of a reason or a name in the log.
_MAX_TEXT: Final = 400
_FIELDS: Final = tuple(field.name for field in fields(Changes))
#: Fields that map names to values, each with the prefix of its names in the history.
_BY_NAME: Final = {"knobs": "", "env": "env."}


class Decisions:
    """The runner of a profile's hooks, which records decisions for `explain` and counts them.

    Args:
        profile: the source of the hooks.
        store: the rules.
        executor: the writer of values that no message of a transport can express.
        history: the records of decisions.
        observer: the counters of decisions.
        clock: returns seconds, to measure durations.
        preview: the hooks that are only previewed: their decisions are recorded but not applied.
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
        """The current rules, as an object of the profile's type."""
        return self._store.node

    def decide(self, stage: str, context: Context, transport: str) -> Outcome:
        """Run the hooks of a stage. Errors of hooks are not raised. Raises KeyError if the stage is unknown."""
        STAGES[stage]
        node = self._store.node
        begin = self._clock()
        try:
            outcome = decide(self._hooks, stage, context, node)
        except Exception:  # noqa: BLE001 - an annotation of one pod must not stop the agent or other hooks
            outcome = _decide_separately(self._hooks, stage, context, node)
        seconds = self._clock() - begin
        errors = [*outcome.errors]
        self._observer.decided(
            transport, stage, seconds, {row.hook for row in outcome.because}, {error.hook for error in errors}
        )
        subject = subject_of(context)
        if self._preview.intersection(outcome.hooks):
            self._preview_changes(outcome, subject, transport)
        self._history.decided(subject, stage, transport, values_of(outcome.because))
        self.errors(subject, stage, transport, [(error.hook, error.reason) for error in errors], outcome.hooks)
        self._history.has(subject, self._keys.intersection(_keys_of(context)), class_of(self._profile, context))
        if isinstance(context, Pod) and stage != REMOVE_POD:
            self._record_unread(context, subject, transport)
        return outcome

    def _preview_changes(self, outcome: Outcome, subject: Subject, transport: str) -> None:
        """Remove the changes of previewed hooks from an outcome, and record them."""
        previewed = [row for row in outcome.because if row.hook in self._preview]
        outcome.because = [row for row in outcome.because if row.hook not in self._preview]
        outcome.changes = functools.reduce(operator.or_, (row.changes for row in outcome.because), NO_CHANGES)
        self._history.decided(subject, PREVIEW, transport, values_of(previewed))
        for _ in values_of(previewed):
            self._observer.count_event(transport, "previewed value")

    def _record_unread(self, context: Pod, subject: Subject, transport: str) -> None:
        """Record labels and annotations of a pod that no hook reads, and log each of them once."""
        new = self._history.noted(subject, self._profile.unread(context.labels, context.annotations, context.extended))
        for line in new:
            _log.warning("%s: %s", _log_name(subject), cut(line, _MAX_TEXT))
        if new:
            self._observer.count_mistakes(transport, len(new))

    def failed(self, context: Context, transport: str, hook: str, reason: str) -> None:
        """Record the error of a hook without a stage for a pod; an empty `reason` means that the hook succeeded."""
        self.errors(subject_of(context), transport, transport, [(hook, reason)] if reason else [], (hook,))

    def errors(
        self, subject: Subject, stage: str, transport: str, rows: Sequence[tuple[str, str]], hooks: Collection[str]
    ) -> None:
        """Record the errors of hooks. An error is logged when it is new.

        Args:
            subject: the object of the decision.
            stage: the stage of the hooks.
            transport: the name of the transport.
            rows: the failed hooks, each with its reason.
            hooks: all hooks that ran.
        """
        reasons = [(hook, plain(reason)) for hook, reason in rows]
        for hook, reason in self._history.failed(subject, stage, transport, reasons, hooks):
            _log.warning("%s: %s: %s; earlier values stay", _log_name(subject), hook, cut(reason, _MAX_TEXT))

    def record(self, context: Context, transport: str, results: Sequence[Result]) -> None:
        """Record the results of writes for a decision."""
        self._history.record(subject_of(context), transport, results)

    def carry_out(self, context: Context, outcome: Outcome, transport: str) -> list[Result]:
        """Let the executor write all changes of an outcome, and record the results."""
        results = self.executor.changes(context, outcome.changes, reason_of(outcome))
        self.record(context, transport, results)
        return results

    def removed(self, pod: Pod) -> None:
        """Forget the cgroup of a removed pod. Its history may be dropped before that of running pods."""
        self.executor.forget(pod.folder)
        self._history.ended(pod.uid)


def _log_name(subject: Subject) -> str:
    """Return a subject as text for the log."""
    words = (subject.namespace, subject.name, subject.container) if subject.namespace else (subject.key,)
    return plain("/".join(word for word in words if word), _MAX_TEXT)


def subject_of(context: Context) -> Subject:
    """Return the subject under which decisions on a context are recorded."""
    if isinstance(context, Pod):
        return Subject(context.uid, context.namespace, context.name)
    if isinstance(context, Container):
        return Subject(context.pod.uid, context.pod.namespace, context.pod.name, context.name)
    if isinstance(context, KubeQosFolder):
        return Subject(f"kube-qos/{context.kube_class}", name=context.kube_class)
    return Subject(f"host-application/{context.name}", name=context.name)


def class_of(profile: Profile, context: Context) -> str:
    """Return the class that selects a pod's rules: its QoS class, or its Kubernetes class if it has no QoS class."""
    if isinstance(context, KubeQosFolder):
        return context.kube_class
    if isinstance(context, HostApplication):
        return ""
    pod = context.pod if isinstance(context, Container) else context
    return profile.class_of(pod) or kube_class_of(pod.folder)


def _keys_of(context: Context) -> tuple[str, ...]:
    """Return the keys of a pod's labels and annotations."""
    if isinstance(context, (KubeQosFolder, HostApplication)):
        return ()
    pod = context.pod if isinstance(context, Container) else context
    return (*pod.labels, *pod.annotations)


def reason_of(outcome: Outcome) -> str:
    """Return the reasons of an outcome, joined to one line."""
    return "; ".join(f"{row.hook}: {row.reason}" for row in outcome.because)


def _decide_separately(hooks: Sequence[Hook], stage: str, context: Context, node: Switches) -> Outcome:
    """Run each hook separately, so that an exception affects only the hook that raised it."""
    outcome = Outcome()
    for row in hooks:
        if not row.on(node):
            continue
        try:
            hook_outcome = decide((row,), stage, context, node)
        except Exception as error:  # noqa: BLE001 - for the reason see `Decisions.decide`
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
    """Yield each value of some decisions with its field, hook and reason: (field, value, hook, reason)."""
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
