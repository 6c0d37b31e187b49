"""A bounded history of the decisions on each pod: hook, value and reason, and the outcome of each write.

Only the newest value of each field is kept. Ended pods are dropped first, then the oldest running pods.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from nri.agent.model import Subject
from nri.host import Result
from nri.text import cut

#: The maximum number of notes that `History.pod_notes` returns.
_MAX_NOTES = 100
#: The maximum number of remembered values of a pod.
_MAX_VALUES = 256
#: The maximum number of remembered writes of a pod.
_MAX_WRITES = 256
#: The maximum number of remembered errors and notes of a pod.
_MAX_ERRORS = 16
#: The maximum number of characters of a value, a reason or a name.
_MAX_TEXT = 512
#: The outcomes of two writes of the same value. The later write adds no information.
_CONFIRMED = ("applied", "unchanged")
#: The stage of values of a previewed hook or strategy, which are recorded but not applied.
PREVIEW = "preview"
#: The estimated size of a record in bytes, without its strings.
_OVERHEAD = 400


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a hook set. `at` is Unix time in seconds; `field` is a knob, or for example `env.NAME`."""

    field: str
    value: str
    hook: str
    reason: str
    stage: str
    transport: str
    at: float

    def differs(self, other: Value) -> bool:
        """Return whether another value, hook or reason was recorded. Time and transport are ignored.

        A previewed value differs from an applied value.
        """
        current, other_content = (
            (value.value, value.hook, value.reason, value.stage == PREVIEW) for value in (self, other)
        )
        return current != other_content


@dataclass(slots=True)
class _PodHistory:
    namespace: str
    name: str
    values: OrderedDict[tuple[str, str], Value] = field(default_factory=OrderedDict)
    writes: OrderedDict[tuple[str, str], dict[str, Any]] = field(default_factory=OrderedDict)
    errors: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MAX_ERRORS))
    keys: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    of: str = ""
    size: int = 0
    ended: bool = False


class History:
    """The newest decisions on a bounded number of pods. Thread-safe.

    Args:
        most_pods: the maximum number of pods, including ended pods.
        most_bytes: the maximum estimated size of all records.
        now: returns the Unix time in seconds.
    """

    def __init__(self, most_pods: int = 1024, most_bytes: int = 16 << 20, now: Callable[[], float] = time.time) -> None:
        self._most_pods, self._most_bytes, self._clock = most_pods, most_bytes, now
        self._pods: OrderedDict[str, _PodHistory] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of remembered pods."""
        return len(self._pods)

    @property
    def size(self) -> int:
        """The estimated size of all records in bytes."""
        return self._size

    def decided(
        self, subject: Subject, stage: str, transport: str, values: Iterable[tuple[str, Any, str, str]]
    ) -> None:
        """Record values, each with its field, hook and reason."""
        at = self._clock()
        rows = [
            Value(_cut_text(name), _cut_text(value), hook, _cut_text(reason), stage, transport, at)
            for name, value, hook, reason in values
        ]
        if not rows:
            return
        subject = _bounded_subject(subject)
        with self._lock:
            pod = self._pod(subject)
            for row in rows:
                before = pod.values.pop((subject.container, row.field), None)
                pod.values[subject.container, row.field] = row if before is None or before.differs(row) else before
            self._update_size(subject.key, pod)

    def failed(
        self,
        subject: Subject,
        stage: str,
        transport: str,
        errors: Iterable[tuple[str, str]],
        hooks: Collection[str] = (),
    ) -> list[tuple[str, str]]:
        """Record errors as pairs of hook and reason. They replace earlier errors of the hooks that ran.

        Returns the errors that were not recorded before.
        """
        rows = list(errors)
        with self._lock:
            history = self._pods.get(_cut_text(subject.key))
            if not rows and (history is None or not history.errors):
                return []
            subject = _bounded_subject(subject)
            pod = self._pod(subject)
            before = {
                (error["hook"], error["reason"]) for error in pod.errors if error["container"] == subject.container
            }
            newest = {(hook, _cut_text(reason)) for hook, reason in rows}
            errors_in_force = [
                error for error in pod.errors if not _is_superseded(error, subject.container, newest, hooks)
            ]
            at = self._clock()
            for hook, reason in rows:
                row = {"hook": hook, "reason": _cut_text(reason), "stage": stage, "transport": transport}
                errors_in_force.append({**row, "container": subject.container, "at": at})
            pod.errors = deque(errors_in_force, maxlen=_MAX_ERRORS)
            self._update_size(subject.key, pod)
            return [(hook, reason) for hook, reason in rows if (hook, _cut_text(reason)) not in before]

    def has(self, subject: Subject, keys: Iterable[str], of: str = "") -> None:
        """Record a pod's class, and which labels and annotations of hooks the pod has, if the pod has a history."""
        with self._lock:
            pod = self._pods.get(_cut_text(subject.key))
            if pod is not None:
                pod.keys, pod.of = tuple(sorted(keys)), of

    def noted(self, subject: Subject, notes: Iterable[str]) -> list[str]:
        """Replace the notes on a pod. Returns the notes that were not recorded before."""
        rows = tuple(_cut_text(note) for note in notes)[:_MAX_ERRORS]
        with self._lock:
            history = self._pods.get(_cut_text(subject.key))
            before = history.notes if history is not None else ()
            if rows != before:
                subject = _bounded_subject(subject)
                pod = self._pod(subject)
                pod.notes = rows
                self._update_size(subject.key, pod)
            return [row for row in rows if row not in before]

    def pod_notes(self) -> list[str]:
        """Return up to `_MAX_NOTES` notes on running pods, newest pods first, each after the name of the pod."""
        with self._lock:
            notes = (
                f"{pod.namespace}/{pod.name}: {note}"
                for pod in reversed(self._pods.values())
                if not pod.ended
                for note in pod.notes
            )
            return list(islice(notes, _MAX_NOTES))

    def record(self, subject: Subject, transport: str, results: Iterable[Result]) -> None:
        """Record the results of writes."""
        at, rows = self._clock(), list(results)
        if not rows:
            return
        subject = _bounded_subject(subject)
        with self._lock:
            pod = self._pod(subject)
            for result in rows:
                key = (_cut_text(result.target.strip("/")), _cut_text(result.name))
                row = {
                    "target": key[0],
                    "name": key[1],
                    "wanted": _cut_text(_text(result.wanted)),
                    "outcome": result.outcome.value,
                    "reason": _cut_text(result.reason),
                    "transport": transport,
                    "container": subject.container,
                    "at": at,
                }
                before = pod.writes.pop(key, None)
                pod.writes[key] = before if before is not None and _only_confirms(before, row) else row
            self._update_size(subject.key, pod)

    def ended(self, key: str) -> None:
        """Mark a pod as removed. Histories of removed pods are dropped first."""
        key = _cut_text(key)
        with self._lock:
            pod = self._pods.get(key)
            if pod is not None:
                pod.ended = True
                self._pods.move_to_end(key, last=False)

    def pods(self) -> list[dict[str, Any]]:
        """Return all remembered pods, the newest last."""
        with self._lock:
            return [
                {"key": key, "namespace": pod.namespace, "name": pod.name, "ended": pod.ended}
                for key, pod in self._pods.items()
            ]

    def account(self, name: str) -> dict[str, Any] | None:
        """Return the history of a pod as JSON-compatible values, or None if the pod is unknown.

        Args:
            name: the uid, `namespace/name`, or the name alone if only one namespace has a pod of this name.
        """
        with self._lock:
            key = self._find(name)
            if key is None:
                return None
            return _account(key, self._pods[key])

    @staticmethod
    def empty_account(subject: Subject) -> dict[str, Any]:
        """Return an empty history of a pod, in the form that `account` returns."""
        subject = _bounded_subject(subject)
        return _account(subject.key, _PodHistory(subject.namespace, subject.name))

    def running_pods(self, name: str) -> list[str]:
        """Return the running pods with this name, as `namespace/name`."""
        with self._lock:
            pods = [pod for pod in self._pods.values() if pod.name == name and not pod.ended]
        return sorted({f"{pod.namespace}/{pod.name}" for pod in pods})

    def _find(self, name: str) -> str | None:
        if name in self._pods:
            return name
        namespace, mark, short = name.rpartition("/")
        keys = [
            key for key, pod in self._pods.items() if pod.name == short and (not mark or pod.namespace == namespace)
        ]
        running = [key for key in keys if not self._pods[key].ended] or keys
        among = {self._pods[key].namespace for key in running}
        # Several pods in one namespace can have had this name, one after another: return the newest.
        return running[-1] if len(among) == 1 else None

    def _pod(self, subject: Subject) -> _PodHistory:
        pod = self._pods.get(subject.key)
        if pod is None:
            pod = self._pods[subject.key] = _PodHistory(subject.namespace, subject.name)
        return pod

    def _update_size(self, key: str, pod: _PodHistory) -> None:
        """Update the size of a pod's history, and drop the oldest pods until the history is within its limits."""
        while len(pod.values) > _MAX_VALUES:
            pod.values.popitem(last=False)
        while len(pod.writes) > _MAX_WRITES:
            pod.writes.popitem(last=False)
        size = _OVERHEAD + len(key) + len(pod.namespace) + len(pod.name)
        size += sum(
            _OVERHEAD + len(container) + len(row.field) + len(row.value) + len(row.reason)
            for (container, _), row in pod.values.items()
        )
        for row in (*pod.writes.values(), *pod.errors):
            size += _OVERHEAD + sum(len(row.get(name, "")) for name in ("target", "wanted", "reason", "container"))
        size += sum(map(len, pod.notes))
        self._size += size - pod.size
        pod.size = size
        if not pod.ended:
            self._pods.move_to_end(key)
        while len(self._pods) > self._most_pods or (self._size > self._most_bytes and len(self._pods) > 1):
            _, dropped = self._pods.popitem(last=False)
            self._size -= dropped.size


def _account(key: str, pod: _PodHistory) -> dict[str, Any]:
    return {
        "key": key,
        "namespace": pod.namespace,
        "name": pod.name,
        "ended": pod.ended,
        "of": pod.of,
        "keys": list(pod.keys),
        "values": [
            {"container": container, **{slot: getattr(row, slot) for slot in Value.__slots__}}
            for (container, _), row in pod.values.items()
        ],
        "writes": list(pod.writes.values()),
        "errors": list(pod.errors),
        "notes": list(pod.notes),
    }


def _is_superseded(
    row: dict[str, Any], container: str, newest: Collection[tuple[str, str]], hooks: Collection[str]
) -> bool:
    """Return whether a newer decision repeats an error or makes it obsolete."""
    return row["container"] == container and (row["hook"] in hooks or (row["hook"], row["reason"]) in newest)


def _only_confirms(before: dict[str, Any], row: dict[str, Any]) -> bool:
    """Return whether a write only confirms an earlier write."""
    same = before["wanted"] == row["wanted"] and before["reason"] == row["reason"]
    return same and (row["outcome"] == before["outcome"] or (before["outcome"], row["outcome"]) == _CONFIRMED)


def _text(value: Any) -> str:
    if isinstance(value, frozenset):
        return ",".join(map(str, sorted(value)))
    return str(value)


def _bounded_subject(subject: Subject) -> Subject:
    """Return a subject with bounded strings, because a runtime may send strings of any length."""
    return Subject(*(_cut_text(getattr(subject, name)) for name in Subject.__slots__))


def _cut_text(value: Any) -> str:
    return cut(_text(value), _MAX_TEXT)
