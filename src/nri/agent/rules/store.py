"""The rules in force on this node: the last good document of each kind.

Thread-safe. An unreadable document is reported until its source delivers a readable one, and changes nothing. A
document is removed only by the source that delivered it. Listeners are called without a lock, in the thread of the
source.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nri.agent.last_good import LastGood
from nri.agent.profile import Kind, UnreadKey
from nri.text import plain

_log = logging.getLogger(__name__)
#: The maximum number of characters of a remembered error, which may quote a document.
_MAX_SHOWN = 500
#: The maximum number of remembered problems; a folder of rules may contain any number of bad files.
_MAX_PROBLEMS = 100
#: The maximum number of keys without effect in one line of the log.
_MAX_UNREAD = 10

#: Called with the kinds whose rules have changed.
Listener = Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """A document that was refused.

    Attributes:
        kind: the kind of the document; "" if unknown.
        source: the origin of the document, with the line number in a file.
        error: the reason; it starts with the key if one value is wrong.
        at: when the problem began, in seconds since 1970.
    """

    kind: str
    source: str
    error: str
    at: float


class _Entry:
    """The document and rule in force of one kind."""

    __slots__ = ("document", "is_derived", "kept", "place", "source")

    def __init__(self) -> None:
        self.kept: LastGood[Any] = LastGood(None)
        self.document: Mapping[str, Any] | None = None
        self.source = ""
        self.place: Callable[[str], str] | None = None
        self.is_derived = False


class RuleStore:
    """All rules of the node.

    Args:
        base: the rules of the node before any document: gates, failure policy, abilities of the machine.
        kinds: the kinds of documents.
        clock: returns seconds since 1970, for problems.
        log: whether changes and problems are logged.
    """

    def __init__(
        self, base: Any, kinds: Mapping[str, Kind], *, clock: Callable[[], float] = time.time, log: bool = True
    ) -> None:
        self._base, self.kinds = base, kinds
        self._clock = clock
        self._logs = log
        self._lock = threading.Lock()
        self._entries = {kind: _Entry() for kind in kinds}
        self._problems: dict[tuple[str, str], Problem] = {}
        #: The keys without effect, by kind.
        self._unread: dict[str, list[UnreadKey]] = {}
        #: Further remarks on a source.
        self._remarks: dict[str, list[str]] = {}
        self._listeners: list[Listener] = []
        self._node = base

    def put(
        self,
        kind: str,
        document: Mapping[str, Any] | None,
        source: str,
        place: Callable[[str], str] | None = None,
    ) -> None:
        """Store a document of a source; None removes the document. Raises KeyError if the kind is unknown.

        Args:
            kind: one of `kinds`.
            document: the API object.
            source: the origin of the document; only the same origin can remove it.
            place: returns the file and line of a key, or of the key at the beginning of an error, if the source can
                tell.
        """
        with self._lock:
            changed = {kind} if self._apply_document(kind, document, source, place) else set()
            changed |= {name for name in self.kinds if self._derive_document(name, kind)}
            listeners = list(self._listeners) if changed else []
        for listener in listeners:
            try:
                listener(frozenset(changed))
            except Exception:  # noqa: BLE001  an error of a listener must not stop the source
                _log.exception("a changed %s could not be applied", kind)

    def refuse(self, kind: str, source: str, error: str, where: str = "") -> None:
        """Record that documents of a source cannot be read. Earlier documents of the source stay in force."""
        with self._lock:
            self._record_problem(kind, source, where or source, error)

    def accept(self, kind: str, source: str) -> None:
        """Withdraw the refusal of a source."""
        with self._lock:
            if self._problems.pop((kind, source), None) is not None:
                self._log_info("the problem of %s of %s is fixed", kind or "a document", source)

    def remark(self, source: str, lines: list[str]) -> None:
        """Replace the remarks on a source, and log the new remarks."""
        with self._lock:
            before = self._remarks.get(source, [])
            self._remarks[source] = lines
            for line in lines if self._logs else ():
                if line not in before:
                    _log.warning("%s", line)

    @property
    def node(self) -> Any:
        """All rules of the node, as an immutable value."""
        return self._node

    def document(self, kind: str) -> Mapping[str, Any] | None:
        """Return the last good document of a kind, or None before the first document. Do not modify it."""
        with self._lock:
            return self._entries[kind].document

    def sources(self) -> dict[str, str]:
        """Return the source of the document in force of each kind; "" means that the kind has no document."""
        with self._lock:
            return {kind: entry.source for kind, entry in self._entries.items()}

    def problems(self) -> list[Problem]:
        """Return the problems that are not fixed, oldest first."""
        with self._lock:
            return sorted(self._problems.values(), key=lambda problem: problem.at)

    def unread(self) -> dict[str, list[UnreadKey]]:
        """Return the keys without effect of the documents in force, by kind."""
        with self._lock:
            return {kind: list(keys) for kind, keys in self._unread.items()}

    def remarks(self) -> list[str]:
        """Return the remarks of all sources."""
        with self._lock:
            return [line for lines in self._remarks.values() for line in lines]

    def place(self, kind: str, key: str) -> str:
        """Return the source of the document in force, if possible with the line of a key, or "" without a document."""
        with self._lock:
            entry = self._entries[kind]
            place, source = entry.place, entry.source
        return place(key) if place is not None else source

    def subscribe(self, listener: Listener) -> None:
        """Call a function with the kinds of changed rules after each change, in the thread of the source."""
        with self._lock:
            self._listeners.append(listener)

    def _apply_document(
        self, kind: str, document: Mapping[str, Any] | None, source: str, place: Callable[[str], str] | None
    ) -> bool:
        """Apply a document or its removal, and return whether the rule changed."""
        entry, row = self._entries[kind], self.kinds[kind]
        if document is None:
            self._problems.pop((kind, source), None)
            if entry.source != source:  # the document in force is from another source, or there is none
                return False
            entry.document, entry.source, entry.place = None, "", None
            self._unread.pop(kind, None)
            changed = entry.kept.take(lambda: row.absent)
            self._log_info("%s of %s was removed: the defaults are in force", kind, source)
        else:
            document, errors = row.readable(document, entry.document)
            changed = entry.kept.take(lambda: row.read(document), None if entry.document is None else row.same)
            error = entry.kept.error or errors
            if error:
                self._record_problem(kind, source, source if place is None else place(error), error)
            if entry.kept.error:
                return False
            if not error and self._problems.pop((kind, source), None) is not None:
                self._log_info("%s of %s is fixed, and in force", kind, source)
            elif changed or entry.source != source:
                self._log_info("%s of %s is in force", kind, source)
            entry.document, entry.source, entry.place, entry.is_derived = document, source, place, False
            self._log_unread_keys(kind, source, list(row.unread(document)))
        if changed:
            self._node = self._base
            for name, other in self._entries.items():
                self._node = self.kinds[name].into(self._node, other.kept.rule)
        return changed

    def _derive_document(self, kind: str, cause: str) -> bool:
        """Compute the document of a kind after one of its causes has changed; return whether the rule changed."""
        entry, row = self._entries[kind], self.kinds[kind]
        if row.derive is None or cause not in (kind, *row.derived_from):
            return False
        if entry.document is not None and not entry.is_derived:
            return False  # a source has the document
        causes = [self._entries[name] for name in row.derived_from]
        source = causes[0].source or entry.source
        try:
            document = row.compute(one.document for one in causes)
        except ValueError as error:
            self._record_problem(kind, source, source, str(error))
            return False
        if document == entry.document:
            return False
        changed = self._apply_document(kind, document, source if document is not None else entry.source, None)
        entry.is_derived = document is not None
        return changed

    def _log_unread_keys(self, kind: str, source: str, unread: list[UnreadKey]) -> None:
        """Remember the keys without effect of a document, and log them if they changed."""
        if self._logs and unread and unread != self._unread.get(kind):
            shown_keys = "; ".join(map(str, unread[:_MAX_UNREAD]))
            _log.warning("%s of %s has keys without effect: %s", kind, source, shown_keys)
        self._unread[kind] = unread

    def _log_info(self, text: str, kind: str, source: str) -> None:
        if self._logs:
            _log.info(text, kind, source)

    def _record_problem(self, kind: str, source: str, where: str, error: str) -> None:
        key = (kind, source)
        shown = plain(error, _MAX_SHOWN)
        problem = self._problems.get(key)
        if self._logs and (problem is None or problem.error != shown):
            _log.warning("%s of %s has an error; the last good version stays: %s", kind or "a document", where, shown)
        if problem is None and len(self._problems) >= _MAX_PROBLEMS:
            return
        self._problems[key] = Problem(kind, where, shown, self._clock() if problem is None else problem.at)
