"""Decisions: the hooks asked with the rules of now, what they say recorded for `explain`, and counted.

Rules: no transport knows the others; all of them ask here. Whatever a pod's annotations hold, `decide` returns: a hook
that fails in a way that it does not know itself is left out by itself, and is an error with its name. Next:
`nri.agent.parts`.
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
from nri.agent.explain import PREVIEW, History
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
from nri.agent.observe import Observer
from nri.agent.profile import Profile
from nri.agent.rules.store import RuleStore
from nri.host import Result
from nri.text import cut, plain

__all__ = ["Decisions", "class_of", "subject_of", "values_of"]

_log = logging.getLogger(__name__)
_MOST_TEXT: Final = 400
_FIELDS: Final = tuple(each.name for each in fields(Changes))
#: Those that hold several things, each with its own name.
_BY_NAME: Final = {"knobs": "", "env": "env."}


class Decisions:
    """The policy's decisions, each recorded for `explain` and counted.

    Args:
        profile: whose hooks they are.
        store: the rules.
        executor: does what a transport cannot say.
        history: keeps what was decided.
        observer: counts it.
        clock: seconds, for how long it took.
        preview: the hooks that only say what they would do.
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
        """The rules of now, of the profile's own type."""
        return self._store.node

    def decide(self, stage: str, context: Context, transport: str) -> Outcome:
        """Ask the hooks of a stage. Never raises for what a hook does; KeyError for a stage that is none."""
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
            transport, stage, seconds, {each.hook for each in outcome.because}, {each.hook for each in errors}
        )
        subject = subject_of(context)
        if self._preview.intersection(outcome.asked):
            self._only_say(outcome, subject, transport)
        self._history.decided(subject, stage, transport, values_of(outcome.because))
        self.errors(subject, stage, transport, [(each.hook, each.reason) for each in errors], outcome.asked)
        self._history.has(subject, self._keys.intersection(_keys_of(context)), class_of(self._profile, context))
        if isinstance(context, Pod) and stage != REMOVE_POD:
            self._slips(context, subject, transport)
        return outcome

    def _only_say(self, outcome: Outcome, subject: Subject, transport: str) -> None:
        """Take what previewed hooks would set out of an outcome, and record that."""
        said = [each for each in outcome.because if each.hook in self._preview]
        outcome.because = [each for each in outcome.because if each.hook not in self._preview]
        outcome.changes = functools.reduce(operator.or_, (each.changes for each in outcome.because), NO_CHANGES)
        self._history.decided(subject, PREVIEW, transport, values_of(said))
        for _ in values_of(said):
            self._observer.met(transport, "previewed value")

    def _slips(self, context: Pod, subject: Subject, transport: str) -> None:
        """Note what nothing reads of a pod's labels and annotations; the log has each slip once."""
        new = self._history.noted(subject, self._profile.unread(context.labels, context.annotations, context.extended))
        for line in new:
            _log.warning("%s: %s", _named(subject), cut(line, _MOST_TEXT))
        if new:
            self._observer.slipped(transport, len(new))

    def failed(self, context: Context, transport: str, hook: str, reason: str) -> None:
        """Record what a hook without a stage makes of one pod: that it failed, or with "" that it did not."""
        self.errors(subject_of(context), transport, transport, [(hook, reason)] if reason else [], (hook,))

    def errors(
        self, subject: Subject, stage: str, transport: str, rows: Sequence[tuple[str, str]], asked: Collection[str]
    ) -> None:
        """Record the errors of hooks that were asked, and log each once, until it is over.

        Args:
            subject: whom they were asked about.
            stage: at which.
            transport: by whom.
            rows: hooks that failed, each with its reason.
            asked: all hooks that were asked.
        """
        told = [(hook, plain(reason)) for hook, reason in rows]
        for hook, reason in self._history.failed(subject, stage, transport, told, asked):
            _log.warning("%s: %s: %s; what was set stays", _named(subject), hook, cut(reason, _MOST_TEXT))

    def record(self, context: Context, transport: str, results: Sequence[Result]) -> None:
        """Record what came of what was decided."""
        self._history.record(subject_of(context), transport, results)

    def carry_out(self, context: Context, outcome: Outcome, transport: str) -> list[Result]:
        """Have the executor do all of an outcome, and record what came of it."""
        results = self.executor.changes(context, outcome.changes, reason_of(outcome))
        self.record(context, transport, results)
        return results

    def removed(self, pod: Pod) -> None:
        """A pod is gone for good: forget its cgroup, and keep its history only while there is room."""
        self.executor.forget(pod.folder)
        self._history.ended(pod.uid)


def _named(subject: Subject) -> str:
    """A subject on one line of a log."""
    words = (subject.namespace, subject.name, subject.container) if subject.namespace else (subject.key,)
    return plain("/".join(each for each in words if each), _MOST_TEXT)


def subject_of(context: Context) -> Subject:
    """The subject of a context, by which its records are found."""
    if isinstance(context, Pod):
        return Subject(context.uid, context.namespace, context.name)
    if isinstance(context, Container):
        return Subject(context.pod.uid, context.pod.namespace, context.pod.name, context.name)
    if isinstance(context, KubeQosFolder):
        return Subject(f"kube-qos/{context.kube_class}", name=context.kube_class)
    return Subject(f"host-application/{context.name}", name=context.name)


def class_of(profile: Profile, context: Context) -> str:
    """The QoS class by which rules are chosen, or the Kubernetes class of what has none."""
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
    return "; ".join(f"{each.hook}: {each.reason}" for each in outcome.because)


def _one_by_one(hooks: Sequence[Hook], stage: str, context: Context, node: Switches) -> Outcome:
    """Ask each hook alone, so that the one that breaks breaks nothing else."""
    outcome = Outcome()
    for row in hooks:
        if not row.on(node):
            continue
        try:
            found = decide((row,), stage, context, node)
        except Exception as error:  # noqa: BLE001 - see `decide`
            found = Outcome(asked=[row.name], errors=[HookError(row.name, plain(f"{type(error).__name__}: {error}"))])
            found.failed = found.errors[0] if node.fail else None
        outcome.changes |= found.changes
        outcome.because += found.because
        outcome.errors += found.errors
        outcome.asked += found.asked
        if found.failed is not None:
            outcome.failed = found.failed
            break
    return outcome


def values_of(because: Sequence[ExplainedDecision]) -> Iterator[tuple[str, Any, str, str]]:
    """The single values of decisions: field, value, hook, reason."""
    for each in because:
        for name in _FIELDS:
            value = getattr(each.changes, name)
            if value is None or value in ((), {}):
                continue
            if name in _BY_NAME:
                yield from ((f"{_BY_NAME[name]}{key}", text, each.hook, each.reason) for key, text in value.items())
            elif isinstance(value, tuple):
                yield from ((f"{name}.{_path(entry)}", entry, each.hook, each.reason) for entry in value)
            else:
                yield name, value, each.hook, each.reason


def _path(entry: Any) -> str:
    return str(getattr(entry, "destination", "") or getattr(entry, "path", "") or getattr(entry, "type", ""))
