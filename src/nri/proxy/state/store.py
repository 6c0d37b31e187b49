"""The store of all pods and containers that the proxy knows, in memory and on disk.

A record changes only through `note`, so that memory and disk are always equal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, overload

from nri.proxy.state.checkpoint import Checkpoint, Record
from nri.proxy.state.records import ContainerRecord, PodRecord


class Store:
    """The records of a proxy. `making` has the keys of pods and containers that are being created. Thread-safe."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._pods: dict[str, PodRecord] = {}
        self._containers: dict[str, ContainerRecord] = {}
        self._by_runtime: dict[str, ContainerRecord] = {}
        self._lock = threading.RLock()
        self.making: dict[tuple[str, ...], int] = {}

    def load(self) -> None:
        """Load the records of an earlier proxy."""
        for record in self._checkpoint.load():
            self._add(record)

    # --- finding ---

    def pod(self, pod_id: str) -> PodRecord | None:
        """A pod by its id, or by a unique beginning of its id."""
        with self._lock:
            return self._pods.get(pod_id) or _unique_match(self._pods, pod_id)

    def container(self, runtime_id: str) -> ContainerRecord | None:
        """A container by the runtime's id, or by a unique beginning of this id."""
        with self._lock:
            return self._by_runtime.get(runtime_id) or _unique_match(self._by_runtime, runtime_id)

    def named(self, container_id: str) -> ContainerRecord | None:
        """A container by its id for plugins."""
        with self._lock:
            return self._containers.get(container_id)

    def pods(self) -> list[PodRecord]:
        """All pods."""
        with self._lock:
            return list(self._pods.values())

    def containers(self, pod_id: str = "") -> list[ContainerRecord]:
        """All containers, or the containers of a pod."""
        with self._lock:
            return [record for record in self._containers.values() if not pod_id or record.pod_id == pod_id]

    # --- changing ---

    @overload
    def put(self, record: PodRecord) -> PodRecord: ...
    @overload
    def put(self, record: ContainerRecord) -> ContainerRecord: ...
    def put(self, record: Record) -> Record:
        """Add a record, in memory and on disk."""
        with self._lock:
            self._add(record)
            self._checkpoint.put(record)
        return record

    def note(self, record: Record, **values: Any) -> None:
        """Change values of a record, in memory and on disk."""
        with self._lock:
            for name, value in values.items():
                setattr(record, name, value)
            if self._is_current(record):
                self._add(record)
                self._checkpoint.put(record)

    def advance(self, record: Record, step: str, before: Iterable[str]) -> bool:
        """Record that the next step is reported to plugins.

        Returns False if it was already, or if no step was reported.
        """
        with self._lock:
            if record.reported_step not in before:
                return False
            self.note(record, reported_step=step)
            return True

    def drop(self, record: Record) -> None:
        """Forget a record, in memory and on disk."""
        with self._lock:
            if isinstance(record, PodRecord):
                self._pods.pop(record.id, None)
            else:
                self._containers.pop(record.id, None)
                self._by_runtime.pop(record.runtime_id, None)
            self._checkpoint.delete(record)

    @contextmanager
    def creation_in_progress(self, *name: str) -> Iterator[None]:
        """Record for the length of the block that a pod or container of this name is being created or started."""
        with self._lock:
            self.making[name] = self.making.get(name, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self.making[name] -= 1
                if not self.making[name]:
                    del self.making[name]

    # --- inside ---

    def _is_current(self, record: Record) -> bool:
        where: Any = self._pods if isinstance(record, PodRecord) else self._containers
        return record.id in where

    def _add(self, record: Record) -> None:
        if isinstance(record, PodRecord):
            self._pods[record.id] = record
            return
        self._containers[record.id] = record
        if record.runtime_id:
            self._by_runtime[record.runtime_id] = record


def _unique_match(records: dict[str, Any], prefix: str) -> Any:
    if not prefix:
        return None
    matches = [record for key, record in records.items() if key.startswith(prefix)]
    return matches[0] if len(matches) == 1 else None
