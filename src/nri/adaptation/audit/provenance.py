"""The history of each container: every change, with its plugin, time and both values: the chain behind `nri why`.

While requests run, only bytes are kept: per event the request as the runtime made it and every plugin's reply, appended
to a list in one go. Now and then, and when an operator asks, the list is sorted into one history per container; what
belongs to containers that are gone by then is dropped unread; the creations of all but the newest are compressed. The
meaning of a history is worked out when an operator asks (`nri.adaptation.audit.explanation`). Bounded twice, in
containers and in bytes: what was refused is forgotten first, then the container that was touched longest ago. Of a
reply that updates many containers, each history has its own part alone.
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
from nri.adaptation.containers.answer_order import Numbers
from nri.kube.named import NamedContainer
from nri.rules import Rules
from nri.text import LINE_LENGTH, plain

__all__ = ["Provenance", "Record"]

#: That many events, or that many bytes of them, are kept unsorted at most.
LOOSE_RECORDS = 512
_LOOSE_BYTES = 4 << 20

#: How many are sorted at a time, by whoever adds one too many or between two steps of an event: more than one, so that
#: they get fewer; and never all, because who adds them may add them faster than they are sorted. Where they have too
#: many bytes, who adds one goes on until as many are sorted as it adds: else big ones pile up behind many small ones.
TIDIED = 2
#: By how many other threads may have changed what is counted while it is.
_RACES = 64
#: Of so many containers, the newest, the creation is kept as it came; those of older ones are packed.
_WHOLE = 128

#: About what the history of a container costs in memory beside its records, a record beside its bytes, one that is
#: packed, and a reply or an outcome in it.
_HISTORY_BYTES = 800
_RECORD_BYTES = 400
_PACKED_BYTES = 50
_REPLY_BYTES = 150
_OUTCOME_BYTES = 300

#: Of so many containers that were removed last it is known that they were here.
REMOVED = 1000

#: The fields of a `Record`, before it is made into one.
_Raw = tuple[
    float, str, str, bytes, Sequence[tuple[str, bytes]], str, Sequence[tuple[str, str, str, str]],
    Mapping[str, int | Numbers],
]  # fmt: skip


class _History:
    """The records of one container. The first one, its creation, outlives later ones; what was refused goes first.

    Attributes:
        records: oldest first; the first one may be packed.
    """

    __slots__ = ("forgotten", "records", "refused", "size_bytes", "sizes")

    def __init__(self) -> None:
        self.records: list[Record | bytes] = []
        self.sizes: list[int] = []
        self.size_bytes = _HISTORY_BYTES
        self.refused = 0
        self.forgotten = 0

    def add(self, record: Record) -> int:
        """Put one more record at the end; returns about how much memory it holds, in bytes."""
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
        """Pack the first record, if it is one that can be; returns how many bytes that gives back."""
        first = self.records[0]
        data = None if isinstance(first, bytes) or first.failed else packed(first)
        if data is None:
            return 0
        less = self.sizes[0] - _PACKED_BYTES - len(data)
        self.records[0], self.sizes[0] = data, _PACKED_BYTES + len(data)
        self.size_bytes -= less
        return less

    def forget_one(self) -> int:
        """Drop the oldest refusal after the first record, else the oldest record after it; returns its size."""
        if self.refused:
            for at, record in enumerate(self.records):
                if at and _failed(record):
                    return self._remove(at)
        return self._remove(1)

    def drop(self, record: Record) -> int:
        """Drop a record, if it is there; returns its size."""
        for at, each in enumerate(self.records):
            if each is record:
                return self._remove(at)
        return 0

    def is_created_since(self, given_up: Record) -> bool:
        """Whether the creation that was given up has been tried again since, and has succeeded."""
        later = takewhile(lambda each: each is not given_up, reversed(self.records))
        return any(
            each.event == CREATION and each.container == given_up.container and not each.failed
            for each in later
            if not isinstance(each, bytes)  # a packed one is the first creation
        )

    def _remove(self, place: int) -> int:
        size_bytes, record = self.sizes.pop(place), self.records.pop(place)
        if self.refused and _failed(record):
            self.refused -= 1
        self.size_bytes -= size_bytes
        self.forgotten += 1
        return size_bytes


def _read(records: Sequence[Record | bytes]) -> list[Record]:
    return [unpacked(each) if isinstance(each, bytes) else each for each in records]


def _failed(record: Record | bytes) -> bool:
    return not isinstance(record, bytes) and bool(record.failed)


class Provenance:
    """The records of all containers. Thread-safe; `record` takes no lock most of the time.

    Args:
        max_containers: that many containers are remembered at most.
        max_bytes: that many bytes are kept at most, over all containers.
        max_records: events remembered per container; its creation is never forgotten before the container is.
        clock: seconds since 1970.

    Attributes:
        since: when it began to remember, in seconds since 1970.
        loose: the events that are not sorted into histories yet, each with its size in bytes.
        histories: of each container; `gone`: the removed ones of which something may be loose.
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
        self._removed: deque[str] = deque(maxlen=REMOVED)
        self._lock = threading.Lock()
        self.histories: OrderedDict[str, _History] = OrderedDict()
        self._whole: deque[str] = deque()  # whose first record is not packed, oldest first; some are gone already
        self._bytes = 0
        self._refused: deque[tuple[str, Record]] = deque()  # whose they are, oldest first; some are gone already
        self._most_refused = 2 * max_containers  # so many are looked through for those that are gone
        self._not_created: dict[str, None] = {}  # whose removal is still told, though there is nothing to remove
        # Appending to a deque is atomic, so requests need no lock. The count of bytes may be off by a race; it only
        # decides when to sort.
        self.loose: deque[tuple[Collection[str], _Raw, int]] = deque()
        self._loose_bytes = 0
        self._sorted = 0
        # Who is removed, and how many must be sorted until nothing of theirs is loose any more; in this order.
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
        numbers: Mapping[str, int | Numbers] = NO_NUMBERS,
    ) -> None:
        """Keep one event. Arguments are kept as they are: do not change them afterwards.

        Args:
            event: RPC name; ``UpdateContainers`` and ``Synchronize`` for what plugins ask for without one.
            container: id of the event's own container; "" if it has none.
            request: the event's request message, encoded as the runtime made it (before any plugin saw it).
            replies: ``NN-name`` and encoded reply of every plugin that answered, in order.
            touched: ids of other containers that the replies update.
            failed: why the event failed, in which case nothing was applied.
            outcomes: what became of single fields of updates: (container, field, outcome, reason).
            numbers: the place of each reply in the order of answers, by ``NN-name``; that of the request by "".
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
        if self._loose_bytes >= _LOOSE_BYTES or len(loose) >= LOOSE_RECORDS:
            with self._lock:
                self._sort(TIDIED, size_bytes)

    def not_created(self, container: str, reason: str) -> None:
        """Note that the runtime could not create a container after its plugins had answered."""
        self.record(CREATION, container, b"", (), failed=f"the runtime failed after its plugins had answered: {reason}")

    def _note_refusal(self, container: str) -> None:
        with self._lock:
            self._not_created[container] = None
            if len(self._not_created) > REMOVED:
                del self._not_created[next(iter(self._not_created))]

    def _is_not_created(self, container: str) -> bool:
        """Whether its creation has failed, which is asked once."""
        with self._lock:
            return container in self._not_created and self._not_created.pop(container) is None

    def forget(self, container: str) -> None:
        """Note that a container is removed; ids are not used twice.

        Runtimes tell that of one whose creation has failed, too, at once: its history says why, and stays.
        """
        if container in self._not_created and self._is_not_created(container):
            return
        self.gone.add(container)
        self._removed.append(container)
        self._leaving.append((self._sorted + len(self.loose) + _RACES, container))

    def tidy(self) -> None:
        """Sort some of what is loose, unless another thread is at it."""
        if self.loose and self._lock.acquire(False):
            try:
                self._sort(TIDIED)
            finally:
                self._lock.release()

    def _sort_all(self) -> None:
        """Put everything into the chains that is loose by now. Takes the lock, and gives it to others in between."""
        for _ in range(0, len(self.loose), TIDIED):
            with self._lock:
                self._sort(TIDIED)
        with self._lock:  # what is gone is dropped also where nothing is loose
            self._sort(0)

    def _sort(self, most: int, most_bytes: int = 0) -> None:
        """Put so many of what is loose into the chains, and drop what is gone. Holds the lock.

        Args:
            most: records.
            most_bytes: where more bytes are loose than may be: go on until so many are sorted.
        """
        gone, loose, histories = self.gone, self.loose, self.histories
        while loose and (most > 0 or (most_bytes > 0 and self._loose_bytes >= _LOOSE_BYTES)):
            touched, raw, size_bytes = loose.popleft()
            most -= 1
            most_bytes -= size_bytes
            self._sorted += 1
            self._loose_bytes -= size_bytes
            record: Record = tuple.__new__(Record, raw)  # the class's own way is a function in Python
            if touched:
                self._sort_parts(record, {target for target in touched if target and target != record.container})
            elif record.container and record.container not in gone:
                self._append(record.container, record)
        if not loose:
            self._loose_bytes = 0
        leaving = self._leaving
        while leaving and (not loose or leaving[0][0] <= self._sorted):
            _, container = leaving.popleft()
            gone.discard(container)
            history = histories.pop(container, None)
            if history is not None:
                self._bytes -= history.size_bytes
        while histories and (len(histories) > self._max_containers or self._bytes > self._max_bytes):
            if self._refused:
                self._drop(*self._refused.popleft())
                continue
            _, history = histories.popitem(last=False)
            self._bytes -= history.size_bytes
        if len(self._refused) > self._most_refused:
            kept = {id(record) for history in histories.values() for record in history.records}
            self._refused = deque(each for each in self._refused if id(each[1]) in kept)
            # Not again before there are twice as many: with most of them there still, each event would look at all.
            self._most_refused = max(2 * self._max_containers, 2 * len(self._refused))

    def _sort_parts(self, record: Record, others: Collection[str]) -> None:
        for target, part in parts_of(record, others):
            # A refused event says something of a container that is known; it makes none known.
            if target not in self.gone and (
                target == record.container or not record.failed or target in self.histories
            ):
                self._append(target, part)

    def _append(self, target: str, record: Record) -> None:
        history = self.histories.get(target)
        if history is None:
            while len(self._whole) >= _WHOLE:  # before it is there itself: it may have been known before
                old = self.histories.get(self._whole.popleft())
                if old is not None:
                    self._bytes -= old.pack()
            history = self.histories[target] = _History()
            self._bytes += _HISTORY_BYTES
            self._whole.append(target)
        elif not record.failed:
            self.histories.move_to_end(target)
        self._bytes += history.add(record)
        if record.failed:
            self._refused.append((target, record))
        if len(history.records) > self._max_records:
            self._bytes -= history.forget_one()

    def _drop(self, target: str, record: Record) -> None:
        """Forget something that was refused; its container, too, if nothing else is known of that."""
        history = self.histories.get(target)
        if history is None:
            return
        # With what was before it, it would look as if it had been created; unless it has been since, with the same id.
        given_up = record.is_given_up and record.container == target and not history.is_created_since(record)
        size_bytes = history.drop(record)
        if not size_bytes:
            return  # it has made room for later records of this container
        self._bytes -= size_bytes
        if given_up or not history.records:
            self._bytes -= history.size_bytes
            del self.histories[target]

    def containers(self) -> list[NamedContainer]:
        """The containers of which something is remembered, with their names, the newest first."""
        self._sort_all()
        with self._lock:
            known = [(one, list(history.records)) for one, history in self.histories.items() if history.records]
        told = [(read[0].when, named(one, read)) for one, records in known for read in (_read(records),)]
        told.sort(key=lambda each: each[0], reverse=True)
        return [one for _, one in told]

    def was_here(self, prefix: str) -> bool:
        """Whether one of the containers that were removed last had an id that begins so."""
        return any(one.startswith(prefix) for one in self._removed.copy())

    def explain(self, container: str, rules: Rules = Rules.DEFAULT) -> Explanation | None:
        """The history of changes of a container; None if nothing is remembered of it."""
        self._sort_all()
        with self._lock:
            history = self.histories.get(container)
            if history is None:
                return None
            records, forgotten = list(history.records), history.forgotten
        return explain(container, _read(records), forgotten, rules)

    def stats(self) -> dict[str, Any]:
        """Sizes of what is kept, as numbers by name."""
        self._sort_all()
        with self._lock:
            return {"containers": len(self.histories), "bytes": self._bytes, "max_bytes": self._max_bytes}
