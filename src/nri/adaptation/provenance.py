"""Who changed what in a container, when, and from which value to which: the chain behind `nri why CONTAINER`.

While requests run, only bytes are kept: per event of a container the request as the runtime made it and every plugin's
reply, appended in one go. The chain is worked out when somebody asks, by running the merge again. Bounded twice, in
containers and in bytes: the containers that were touched longest ago are forgotten first, removed ones at once.

Next: `nri.adaptation.admin`, which serves it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nri.adaptation.history import Explanation, Record, explain
from nri.adaptation.rules import Rules

__all__ = ["Provenance", "Record"]


class _Chain:
    """The records of one container. The first one, its creation, outlives later ones."""

    __slots__ = ("forgotten", "records", "size_bytes")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.size_bytes = 0
        self.forgotten = 0


class Provenance:
    """The records of all containers. Thread-safe; `record` is an append under a lock.

    Args:
        max_containers: that many containers are remembered at most.
        max_bytes: that many bytes are kept at most, over all containers.
        max_records: events remembered per container; its creation is never forgotten before the container is.
        clock: seconds since 1970.
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
        self._lock = threading.Lock()
        self._chains: OrderedDict[str, _Chain] = OrderedDict()
        self._bytes = 0

    def record(
        self,
        event: str,
        container: str,
        request: bytes,
        replies: Sequence[tuple[str, bytes]],
        touched: Iterable[str] = (),
        *,
        failed: str = "",
        outcomes: Sequence[tuple[str, str, str, str]] = (),
    ) -> None:
        """Keep one event.

        Args:
            event: pretty name; ``UpdateContainers`` and ``Synchronize`` for what plugins ask for without one.
            container: id of the event's own container; "" if it has none.
            request: the event's request message, encoded as the runtime made it (before any plugin saw it).
            replies: ``NN-name`` and encoded reply of every plugin that answered, in order.
            touched: ids of other containers that the replies update.
            failed: why the event failed, in which case nothing was applied.
            outcomes: what became of single fields of updates: (container, field, outcome, reason).
        """
        record = Record(self._clock(), event, container, request, replies, failed, outcomes)
        with self._lock:
            for target in {container, *touched} if touched else (container,):
                if target:
                    self._append(target, record)
            while self._chains and (len(self._chains) > self._max_containers or self._bytes > self._max_bytes):
                _, chain = self._chains.popitem(last=False)
                self._bytes -= chain.size_bytes

    def _append(self, target: str, record: Record) -> None:
        chain = self._chains.get(target)
        if chain is None:
            chain = self._chains[target] = _Chain()
        else:
            self._chains.move_to_end(target)
        chain.records.append(record)
        self._grow(chain, record.size_bytes)
        if len(chain.records) > self._max_records:
            self._grow(chain, -chain.records.pop(1).size_bytes)
            chain.forgotten += 1

    def _grow(self, chain: _Chain, size_bytes: int) -> None:
        chain.size_bytes += size_bytes
        self._bytes += size_bytes

    def forget(self, container: str) -> None:
        """The container is removed."""
        with self._lock:
            chain = self._chains.pop(container, None)
            if chain is not None:
                self._bytes -= chain.size_bytes

    def find(self, prefix: str) -> list[str]:
        """Ids of the remembered containers that start with this; the exact one alone if there is one."""
        with self._lock:
            if prefix in self._chains:
                return [prefix]
            return sorted(one for one in self._chains if one.startswith(prefix))

    def explain(self, container: str, rules: Rules = Rules.DEFAULT) -> Explanation | None:
        """The chain of changes of a container; None if nothing is remembered of it."""
        with self._lock:
            chain = self._chains.get(container)
            if chain is None:
                return None
            records, forgotten = list(chain.records), chain.forgotten
        return explain(container, records, forgotten, rules)

    def stats(self) -> dict[str, Any]:
        """How much is kept."""
        with self._lock:
            return {"containers": len(self._chains), "bytes": self._bytes, "max_bytes": self._max_bytes}
