"""Decisions: the hooks asked with the rules of now, what they say recorded for `explain`, and counted.

Rules: no transport knows the others; all of them ask here. Whatever a pod's annotations hold, `decide` returns: a hook
that fails in a way that it does not know itself is left out by itself, and is an error with its name. Next:
`nri.agent.parts`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from nri.agent.executor import Context, Executor
from nri.agent.explain import History, Subject
from nri.agent.observe import Observer
from nri.agent.shapes import Rules
from nri.host import Result
from nri.policies.koordinator.contexts import (
    ContainerContext,
    HostApplicationContext,
    KubeQosContext,
    PodContext,
)
from nri.policies.koordinator.profile import PROFILE, STAGES, Because, Node, Outcome, decide
from nri.policies.koordinator.values import Changes, HookError
from nri.text import cut, plain

__all__ = ["Decisions", "subject_of", "values_of"]

_log = logging.getLogger(__name__)
_MOST_TEXT: Final = 400
_FIELDS: Final = tuple(each.name for each in fields(Changes))
#: All labels and annotations that a hook reads.
_KEYS: Final = frozenset(key for row in PROFILE for key in row.keys)


class Decisions:
    """The policy's decisions, each recorded for `explain` and counted.

    Args:
        book: the rules.
        executor: does what a transport cannot say.
        history: keeps what was decided.
        observer: counts it.
        clock: seconds, for how long it took.
    """

    def __init__(
        self,
        book: Rules,
        executor: Executor,
        history: History,
        observer: Observer,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._book, self.executor, self._history, self._observer = book, executor, history, observer
        self._clock = clock

    @property
    def node(self) -> Node:
        """The rules of now."""
        return self._book.node

    def decide(self, stage: str, context: Context, transport: str) -> Outcome:
        """Ask the hooks of a stage. Never raises for what a hook does; KeyError for a stage that is none."""
        STAGES[stage]
        node = self._book.node
        begin = self._clock()
        try:
            outcome = decide(stage, context, node)
        except Exception:  # noqa: BLE001 - one pod's annotation must stop neither the agent nor the other hooks
            outcome = _one_by_one(stage, context, node)
        seconds = self._clock() - begin
        errors = [*outcome.errors]
        self._observer.decided(
            transport, stage, seconds, {each.hook for each in outcome.because}, {each.hook for each in errors}
        )
        subject = subject_of(context)
        self._history.decided(subject, stage, transport, values_of(outcome.because))
        self.errors(subject, stage, transport, [(each.hook, each.reason) for each in errors], outcome.asked)
        self._history.has(subject, _keys_of(context))
        return outcome

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

    def told(self, context: Context, transport: str, results: Sequence[Result]) -> None:
        """Record what came of what was decided."""
        self._history.told(subject_of(context), transport, results)

    def carry_out(self, context: Context, outcome: Outcome, transport: str) -> list[Result]:
        """Have the executor do all of an outcome, and record what came of it."""
        results = self.executor.changes(context, outcome.changes, reason_of(outcome))
        self.told(context, transport, results)
        return results

    def removed(self, pod: PodContext) -> None:
        """A pod is gone for good: forget its cgroup, and keep its history only while there is room."""
        self.executor.forget(pod.cgroup_parent)
        self._history.ended(pod.uid)


def _named(subject: Subject) -> str:
    """A subject on one line of a log."""
    words = (subject.namespace, subject.name, subject.container) if subject.namespace else (subject.key,)
    return plain("/".join(each for each in words if each), _MOST_TEXT)


def subject_of(context: Context) -> Subject:
    """The subject of a context, by which its records are found."""
    if isinstance(context, PodContext):
        return Subject(context.uid, context.namespace, context.name)
    if isinstance(context, ContainerContext):
        return Subject(context.pod.uid, context.pod.namespace, context.pod.name, context.name)
    if isinstance(context, KubeQosContext):
        return Subject(f"kube-qos/{context.kube_class}", name=context.kube_class)
    return Subject(f"host-application/{context.name}", name=context.name)


def _keys_of(context: Context) -> frozenset[str]:
    """The labels and annotations that a pod has of those that hooks read."""
    if isinstance(context, (KubeQosContext, HostApplicationContext)):
        return frozenset()
    pod = context.pod if isinstance(context, ContainerContext) else context
    return _KEYS.intersection((*pod.labels, *pod.annotations))


def reason_of(outcome: Outcome) -> str:
    """The reasons of an outcome on one line."""
    return "; ".join(f"{each.hook}: {each.reason}" for each in outcome.because)


def _one_by_one(stage: str, context: Context, node: Node) -> Outcome:
    """Ask each hook alone, so that the one that breaks breaks nothing else."""
    outcome = Outcome()
    for row in PROFILE:
        if not (row.default if node.gates is None else row.name in node.gates):
            continue
        try:
            found = decide(stage, context, replace(node, gates=frozenset({row.name})))
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


def values_of(because: Sequence[Because]) -> Iterator[tuple[str, Any, str, str]]:
    """The single values of decisions: field, value, hook, reason."""
    for each in because:
        for name in _FIELDS:
            value = getattr(each.changes, name)
            if value is None or value in ((), {}):
                continue
            if name == "env":
                yield from ((f"env.{key}", text, each.hook, each.reason) for key, text in value.items())
            elif name in ("mounts", "devices"):
                for entry in value:
                    yield (
                        f"{name}.{entry[0] if isinstance(entry, tuple) else _path(entry)}",
                        entry,
                        each.hook,
                        each.reason,
                    )
            else:
                yield name, value, each.hook, each.reason


def _path(entry: Any) -> str:
    return str(getattr(entry, "destination", "") or getattr(entry, "path", ""))
