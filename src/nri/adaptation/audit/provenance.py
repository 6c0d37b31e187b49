"""The history of each container for `nri why`: every change, with its plugin, time and both values.

While requests run, only bytes are stored: for each event the runtime's request and every plugin's reply, appended to
one list. From time to time, and for a query, the list is sorted into a history for each container; records of removed
containers are dropped, and all but the newest creations are compressed. `nri.adaptation.audit.explanation` interprets a
history on demand. There are two limits, of containers and of bytes: refusals are dropped first, then the container with
the oldest change. If a reply updates many containers, each history stores only the updates of its container.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from nri.adaptation.audit.explanation import Explanation, explain
from nri.adaptation.audit.record import CREATION, NO_NUMBERS, Record, named, packed, parts_of, unpacked
from nri.adaptation.containers.answer_order import SequenceNumbers
from nri.kube.container_search import NamedContainer
from nri.rules import Rules
from nri.text import LINE_LENGTH, plain

__all__ = ["Provenance", "Record"]

#: At most this many events are stored unsorted.
MAX_LOOSE_RECORDS = 512
#: The unsorted events have at most this many bytes.
_MAX_LOOSE_BYTES = 4 << 20

#: This many events are sorted at a time, by a thread that exceeds the limit or between two steps of an event. More than
#: one, so that their number falls; never all, because they may be added faster than they are sorted. Above the limit of
#: bytes, a thread sorts as many bytes as it adds: otherwise big records would pile up behind many small records.
RECORDS_PER_STEP = 2
#: The number of loose events may be wrong by this many, because other threads change it at the same time.
_MAX_RACING_THREADS = 64
#: The creations of this many containers, the newest, are stored unpacked.
_MAX_UNPACKED = 128

#: Approximate memory of a history in addition to its records.
_HISTORY_BYTES = 800
#: Approximate memory of a record in addition to its bytes.
_RECORD_BYTES = 400
#: Approximate memory of a packed record in addition to its bytes.
_PACKED_BYTES = 50
#: Approximate memory of a reply in a record, in addition to its bytes.
_REPLY_BYTES = 150
#: Approximate memory of an outcome in a record.
_OUTCOME_BYTES = 300

#: The ids of at most this many removed containers are stored.
MAX_REMOVED = 1000

#: The fields of a `Record` that has not been created yet.
_Raw = tuple[
    float, str, str, bytes, Sequence[tuple[str, bytes]], str, Sequence[tuple[str, str, str, str]],
    Mapping[str, int | SequenceNumbers],
]  # fmt: skip


class _History:
    """The records of a container. The first record, its creation, is kept longest; refusals are dropped first.

    Attributes:
        records: the oldest first; the first may be packed.
    """

    __slots__ = ("forgotten", "records", "refused", "size_bytes", "sizes")

    def __init__(self) -> None:
        self.records: list[Record | bytes] = []
        self.sizes: list[int] = []
        self.size_bytes = _HISTORY_BYTES
        self.refused = 0
        self.forgotten = 0

    def add(self, record: Record) -> int:
        """Append a record. Returns its approximate memory in bytes."""
        size_bytes = _RECORD_BYTES + len(record.request)
        for _, reply in record.replies:
            size_bytes += _REPLY_BYTES + len(reply)
        if record.failed:
            size_bytes += len(record.failed) * (1 if record.failed.isascii() else 4)
        for outcome in record.outcomes:
            size_bytes += _OUTCOME_BYTES + len(outcome[1]) + len(outcome[3])
        self.records.append(record)
        self.sizes.append(size_bytes)
        self.size_bytes += size_bytes
        if record.failed:
            self.refused += 1
        return size_bytes

    def pack(self) -> int:
        """Pack the first record if possible. Returns the number of saved bytes."""
        first = self.records[0]
        data = None if isinstance(first, bytes) or first.failed else packed(first)
        if data is None:
            return 0
        saved = self.sizes[0] - _PACKED_BYTES - len(data)
        self.records[0], self.sizes[0] = data, _PACKED_BYTES + len(data)
        self.size_bytes -= saved
        return saved

    def forget_one(self) -> int:
        """Drop the oldest refusal after the first record, else the oldest record after it. Returns its size."""
        if self.refused:
            for at, record in enumerate(self.records):
                if at and _has_failed(record):
                    return self._remove(at)
        return self._remove(1)

    def drop(self, record: Record) -> int:
        """Drop a record. Returns its size, or 0 if the history does not have it."""
        for at, other in enumerate(self.records):
            if other is record:
                return self._remove(at)
        return 0

    def is_created_since(self, given_up: Record) -> bool:
        """Whether a later creation has succeeded after the creation that was given up."""
        later = takewhile(lambda record: record is not given_up, reversed(self.records))
        return any(
            record.event == CREATION and record.container == given_up.container and not record.failed
            for record in later
            if not isinstance(record, bytes)  # a packed record is the first creation
        )

    def _remove(self, place: int) -> int:
        size_bytes, record = self.sizes.pop(place), self.records.pop(place)
        if self.refused and _has_failed(record):
            self.refused -= 1
        self.size_bytes -= size_bytes
        self.forgotten += 1
        return size_bytes


def _unpacked_records(records: Sequence[Record | bytes]) -> list[Record]:
    return [unpacked(record) if isinstance(record, bytes) else record for record in records]


def _has_failed(record: Record | bytes) -> bool:
    return not isinstance(record, bytes) and bool(record.failed)


class Provenance:
    """The records of all containers. Thread-safe; `record` usually takes no lock.

    Args:
        max_containers: the limit of containers with a history.
        max_bytes: the limit of bytes of all histories together.
        max_records: the limit of events per container; its creation is never dropped before the container.
        clock: returns the time in seconds since 1970.

    Attributes:
        since: the start of all histories, in seconds since 1970.
        loose: the unsorted events, each with its size in bytes.
        histories: the histories by container id.
        gone: the removed containers that may have unsorted events.
    """

    def __init__(
        self,
        max_containers: int = 2000,
        max_bytes: int = 32 << 20,
        max_records: int = 100,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_containers = max_containers
        self._max_bytes = max_bytes
        self._max_records = max(2, max_records)
        self._clock = clock
        self.since = clock()
        self._removed: deque[str] = deque(maxlen=MAX_REMOVED)
        self._lock = threading.Lock()
        self.histories: OrderedDict[str, _History] = OrderedDict()
        self._unpacked: deque[str] = deque()  # ids whose first record is not packed, the oldest first; some may be gone
        self._bytes = 0
        self._refused: deque[tuple[str, Record]] = deque()  # with container ids, the oldest first; some may be gone
        self._max_refused = 2 * max_containers  # above this length, entries that are gone are searched and dropped
        self._not_created: dict[str, None] = {}  # runtimes report the removal even of containers that were not created
        # Appending to a deque is atomic, so requests need no lock. A race may falsify the count of bytes, but the count
        # only decides when to sort.
        self.loose: deque[tuple[Collection[str], _Raw, int]] = deque()
        self._loose_bytes = 0
        self._sorted = 0
        # Removed containers in the order of this number: the number of sorted events after which they have no loose
        # events.
        self.gone: set[str] = set()
        self._leaving: deque[tuple[int, str]] = deque()

    def record(
        self,
        event: str,
        container: str,
        request: bytes,
        replies: Sequence[tuple[str, bytes]],
        touched: Collection[str] = (),
        failed: str = "",
        outcomes: Sequence[tuple[str, str, str, str]] = (),
        numbers: Mapping[str, int | SequenceNumbers] = NO_NUMBERS,
    ) -> None:
        """Store an event. Arguments are stored without a copy: do not change them afterwards.

        Args:
            event: the RPC name; ``UpdateContainers`` and ``Synchronize`` for requests of plugins.
            container: the id of the event's own container, or "".
            request: the runtime's request message, encoded, without changes of plugins.
            replies: ``NN-name`` and encoded reply of every plugin that answered, in order.
            touched: the ids of other containers that the replies update.
            failed: the reason if the event failed; then nothing was applied.
            outcomes: outcomes of single fields of updates: (container, field, outcome, reason).
            numbers: the sequence number of each reply by ``NN-name``; the key "" has the number of the request.
        """
        if failed:
            failed = plain(failed, 4 * LINE_LENGTH)
            if event == CREATION:
                self._note_refusal(container)
        elif event == CREATION and container in self._not_created:  # a runtime may try again with the same id
            self._is_not_created(container)
        size_bytes = len(request) + len(failed)
        for _, reply in replies:
            size_bytes += len(reply)
        if touched or outcomes:
            size_bytes += 100 * (len(touched) + len(outcomes))
        loose = self.loose
        loose.append(
            (touched, (self._clock(), event, container, request, replies, failed, outcomes, numbers), size_bytes)
        )
        self._loose_bytes += size_bytes
        if self._loose_bytes >= _MAX_LOOSE_BYTES or len(loose) >= MAX_LOOSE_RECORDS:
            with self._lock:
                self._sort_loose_events(RECORDS_PER_STEP, size_bytes)

    def not_created(self, container: str, reason: str) -> None:
        """Record that the runtime failed to create a container after the plugins' answers."""
        self.record(CREATION, container, b"", (), failed=f"the runtime failed after the plugins' answers: {reason}")

    def _note_refusal(self, container: str) -> None:
        with self._lock:
            self._not_created[container] = None
            if len(self._not_created) > MAX_REMOVED:
                del self._not_created[next(iter(self._not_created))]

    def _is_not_created(self, container: str) -> bool:
        """Whether the container's creation has failed. The second call returns False."""
        with self._lock:
            return container in self._not_created and self._not_created.pop(container) is None

    def forget(self, container: str) -> None:
        """Record that a container is removed. Ids are not used twice.

        Runtimes also remove a container whose creation failed. Its history has the reason, and is kept.
        """
        if container in self._not_created and self._is_not_created(container):
            return
        self.gone.add(container)
        self._removed.append(container)
        self._leaving.append((self._sorted + len(self.loose) + _MAX_RACING_THREADS, container))

    def tidy(self) -> None:
        """Sort some loose events, unless another thread is sorting."""
        if self.loose and self._lock.acquire(False):
            try:
                self._sort_loose_events(RECORDS_PER_STEP)
            finally:
                self._lock.release()

    def _sort_all(self) -> None:
        """Sort all current loose events. Takes the lock, and releases it between steps."""
        for _ in range(0, len(self.loose), RECORDS_PER_STEP):
            with self._lock:
                self._sort_loose_events(RECORDS_PER_STEP)
        with self._lock:  # drop removed containers even if no event is loose
            self._sort_loose_events(0)

    def _sort_loose_events(self, max_count: int, min_bytes: int = 0) -> None:
        """Sort loose events into histories, and drop removed containers. Needs the lock.

        Args:
            max_count: the number of events.
            min_bytes: above the limit of bytes, sort at least this many.
        """
        removed, loose, histories = self.gone, self.loose, self.histories
        while loose and (max_count > 0 or (min_bytes > 0 and self._loose_bytes >= _MAX_LOOSE_BYTES)):
            touched, raw, size_bytes = loose.popleft()
            max_count -= 1
            min_bytes -= size_bytes
            self._sorted += 1
            self._loose_bytes -= size_bytes
            record: Record = tuple.__new__(Record, raw)  # faster than the class's constructor, a Python function
            if touched:
                self._sort_parts(record, {target for target in touched if target and target != record.container})
            elif record.container and record.container not in removed:
                self._append(record.container, record)
        if not loose:
            self._loose_bytes = 0
        leaving = self._leaving
        while leaving and (not loose or leaving[0][0] <= self._sorted):
            _, container = leaving.popleft()
            removed.discard(container)
            history = histories.pop(container, None)
            if history is not None:
                self._bytes -= history.size_bytes
        while histories and (len(histories) > self._max_containers or self._bytes > self._max_bytes):
            if self._refused:
                self._drop_refusal(*self._refused.popleft())
                continue
            _, history = histories.popitem(last=False)
            self._bytes -= history.size_bytes
        if len(self._refused) > self._max_refused:
            record_ids = {id(record) for history in histories.values() for record in history.records}
            self._refused = deque(pair for pair in self._refused if id(pair[1]) in record_ids)
            # The next search waits until there are twice as many; otherwise each event would search all.
            self._max_refused = max(2 * self._max_containers, 2 * len(self._refused))

    def _sort_parts(self, record: Record, targets: Collection[str]) -> None:
        for target, part in parts_of(record, targets):
            # A refused event adds to the history of a known container, but does not begin a history.
            if target not in self.gone and (
                target == record.container or not record.failed or target in self.histories
            ):
                self._append(target, part)

    def _append(self, target: str, record: Record) -> None:
        history = self.histories.get(target)
        if history is None:
            while len(self._unpacked) >= _MAX_UNPACKED:  # before the new id is added, which may already be in the list
                old = self.histories.get(self._unpacked.popleft())
                if old is not None:
                    self._bytes -= old.pack()
            history = self.histories[target] = _History()
            self._bytes += _HISTORY_BYTES
            self._unpacked.append(target)
        elif not record.failed:
            self.histories.move_to_end(target)
        self._bytes += history.add(record)
        if record.failed:
            self._refused.append((target, record))
        if len(history.records) > self._max_records:
            self._bytes -= history.forget_one()

    def _drop_refusal(self, target: str, record: Record) -> None:
        """Drop a refusal, and its container if the history has no other record."""
        history = self.histories.get(target)
        if history is None:
            return
        # The earlier records alone would look like a created container, unless a later creation succeeded.
        given_up = record.is_given_up and record.container == target and not history.is_created_since(record)
        size_bytes = history.drop(record)
        if not size_bytes:
            return  # dropped before, for later records of this container
        self._bytes -= size_bytes
        if given_up or not history.records:
            self._bytes -= history.size_bytes
            del self.histories[target]

    def containers(self) -> list[NamedContainer]:
        """The containers with a history, with their names, the newest first."""
        self._sort_all()
        with self._lock:
            histories = [
                (container, list(history.records)) for container, history in self.histories.items() if history.records
            ]
        dated = [
            (unpacked_[0].when, named(container, unpacked_))
            for container, records in histories
            for unpacked_ in (_unpacked_records(records),)
        ]
        dated.sort(key=lambda pair: pair[0], reverse=True)
        return [container for _, container in dated]

    def was_removed(self, prefix: str) -> bool:
        """Whether the id of a recently removed container begins with `prefix`."""
        return any(id_.startswith(prefix) for id_ in self._removed.copy())

    def explain(self, container: str, rules: Rules = Rules.DEFAULT) -> Explanation | None:
        """The history of a container. Returns None if it has no history."""
        self._sort_all()
        with self._lock:
            history = self.histories.get(container)
            if history is None:
                return None
            records, forgotten = list(history.records), history.forgotten
        return explain(container, _unpacked_records(records), forgotten, rules)

    def stats(self) -> dict[str, Any]:
        """Sizes of the stored histories, by name."""
        self._sort_all()
        with self._lock:
            return {"containers": len(self.histories), "bytes": self._bytes, "max_bytes": self._max_bytes}
