"""The live containers with their namespaces and resources, from events and from the runtime's state.

The adaptation must not ask the runtime in the middle of an event, because the runtime may hold its locks at that time.
So the inventory stores what the adaptation needs: whether a container exists, its namespace, and the resources that it
had before side updates that are undone. Resources are stored as bytes: a message would keep the whole container alive.

| state | begins when | an update for the container |
|---|---|---|
| creating | its creation is requested | waits until the creation is done; later updates override earlier updates |
| known | the creation has succeeded, or the runtime's state contains it | is given to the runtime |
| gone | it is removed, or its creation was refused or aborted | is ignored and reported, as for an unknown container |

`nri.adaptation.registration.deferred_updates` hands deferred updates over. Until that is done, later updates are
deferred as well, so that they never overtake each other.
"""

from __future__ import annotations

import marshal
import threading
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.adaptation.containers.answer_order import FieldOrder, SequenceNumbers, without
from nri.adaptation.containers.restoration import Restoration
from nri.adaptation.containers.update_result import field_names
from nri.adaptation.merge.effects import put_resources
from nri.adaptation.merge.entries import read
from nri.api import messages as m
from nri.api.fields import RESOURCES_TREE
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from types import TracebackType

    #: The answers that set a creation's resources. For a single answer: the encoded resources and the sequence number.
    #: For several answers: all answers with their numbers, marshalled, which takes a third of the memory.
    CreationAnswers = tuple[bytes, int] | bytes

#: At most this many updates of a container can be undone; the oldest update beyond the limit becomes final.
MAX_OPEN_ANSWERS: Final = 16
#: If a plugin has several deferred updates of a container, they have at most this many bytes together.
MAX_DEFERRED_BYTES: Final = 64 << 10


class Presence(Enum):
    """The state of a container with regard to updates."""

    CREATING = "the container is being created"
    CREATED = "the creation has succeeded, and deferred updates can be handed over"
    KNOWN = "the container exists"
    GONE = "the runtime does not know the container"


class _AnsweredResources(NamedTuple):
    """The resources that an answer gave a container. `by` can still undo the answer; with None, the answer is final."""

    by: object | None
    resources: bytes
    numbers: SequenceNumbers


class ContainerRecord:
    """The known state of a container. A change creates a new record.

    Attributes:
        resources: the container's resources after all answers so far, encoded.
        order: the answers that set the resources, as `created` got them or `known_order` decoded them; None without
            such answers.
        before: resources and order before `answers`.
        answers: the answers beginning with the first that can still be undone; usually empty.
        unseen: the latest state of the runtime did not contain the container.
    """

    __slots__ = ("answers", "before", "namespace", "order", "pod_id", "resources", "unseen")

    def __init__(
        self, pod_id: str, namespace: str, resources: bytes, order: FieldOrder | CreationAnswers | None = None
    ) -> None:
        self.pod_id, self.namespace, self.resources, self.order = pod_id, namespace, resources, order
        self.before: tuple[bytes, FieldOrder | None] = (b"", None)
        self.answers: tuple[_AnsweredResources, ...] = ()
        self.unseen = False

    def known_order(self) -> FieldOrder | None:
        """The answers that set the resources. Computed on demand, because few containers need it."""
        order = self.order
        if isinstance(order, tuple):
            order = self.order = FieldOrder(m.LinuxResources.FromString(order[0]), SequenceNumbers(order[1]))
        elif isinstance(order, bytes):
            answers = marshal.loads(order)  # noqa: S302 - it has never left this process
            order = self.order = FieldOrder.of_creation(answers)
        return order

    def with_answers(
        self, before: tuple[bytes, FieldOrder | None], answers: tuple[_AnsweredResources, ...]
    ) -> ContainerRecord:
        """The same container with these answers over its state `before`. Each field has its newest answer."""
        now = before
        for answer in answers:
            now = _merged_resources(*now, answer)
        return self._changed_record(before, answers, now)

    def with_answer(self, answer: _AnsweredResources) -> ContainerRecord:
        """The same container with another answer over its current resources."""
        now = self.resources, self.known_order()
        return self._changed_record(
            self.before if self.answers else now, (*self.answers, answer), _merged_resources(*now, answer)
        )

    def _changed_record(
        self,
        before: tuple[bytes, FieldOrder | None],
        answers: tuple[_AnsweredResources, ...],
        now: tuple[bytes, FieldOrder | None],
    ) -> ContainerRecord:
        """The same container with the state `now`, the result of `answers` over `before`.

        Only open answers are kept.
        """
        record = ContainerRecord(self.pod_id, self.namespace, *now)
        while answers and (len(answers) > MAX_OPEN_ANSWERS or answers[0].by is None):
            before, answers = _merged_resources(*before, answers[0]) if len(answers) > 1 else now, answers[1:]
        if answers:
            record.before, record.answers = before, answers
        return record


def _merged_resources(
    resources: bytes, order: FieldOrder | None, answer: _AnsweredResources
) -> tuple[bytes, FieldOrder]:
    """Merge an answer into resources and their order, except fields that have a newer answer."""
    order = FieldOrder() if order is None else order.copy()
    newest = order.newest(m.LinuxResources.FromString(answer.resources), answer.numbers)
    holder = m.ContainerUpdate()
    holder.linux.resources.ParseFromString(resources)
    put_resources(holder, read(newest, RESOURCES_TREE))
    order.set(field_names(newest), answer.numbers)
    return holder.linux.resources.SerializeToString(), order


class KnownContainers:
    """The existing containers, the containers that are being created, and their namespaces.

    Read it without a lock: check `is_creating` before `in`. When a container is created, it becomes known first and
    stops being created afterwards, so the other order of checks could miss it.
    """

    __slots__ = ("_creations", "records")

    def __init__(self, records: Mapping[str, Any], creations: Mapping[str, Any]) -> None:
        """`records` are the existing containers, `creations` the containers that are being created.

        Both mappings change in the meantime. Their values have a `namespace`.
        """
        self.records = records
        self._creations = creations

    def __contains__(self, container_id: object) -> bool:
        return container_id in self.records

    def __len__(self) -> int:
        return len(self.records)

    def begins(self, prefix: str) -> bool:
        """Whether the id of a container begins with `prefix`.

        This searches all containers, so it is too slow for events.
        """
        return any(id_.startswith(prefix) for id_ in list(self.records))

    def is_creating(self, container_id: str) -> bool:
        """Whether a container is being created, so that updates for it are deferred."""
        return container_id in self._creations

    def namespace_of(self, container_id: str) -> str | None:
        """The namespace of a container's pod. Returns None if the container is unknown."""
        record = self.records.get(container_id) or self._creations.get(container_id)
        return None if record is None else record.namespace


class DeferredUpdate(NamedTuple):
    """A plugin's deferred update of a container that is being created.

    Attributes:
        update: the merged update.
        event: the latest event in which the plugin requested it.
        numbers: the sequence numbers of the answers that set its fields.
    """

    update: m.ContainerUpdate
    event: str
    numbers: SequenceNumbers


#: An empty dict shared by all creations without updates and evictions; never changed.
_NOTHING: Final[dict[str, Any]] = {}


class Creation:
    """A container that is being created, and its deferred updates. A context manager, see `Inventory.creating`.

    Attributes:
        namespace: the namespace of its pod.
        updates: the deferred updates by plugin (``NN-name``).
        evictions: reasons of deferred evictions by plugin.
        succeeded: the creation has succeeded, and the runtime has not committed it yet.
        busy: deferred updates are being handed over.
    """

    __slots__ = ("_container_id", "_inventory", "busy", "evictions", "namespace", "succeeded", "updates")

    def __init__(self, namespace: str, container_id: str, inventory: Inventory) -> None:
        self.namespace = namespace
        self._container_id, self._inventory = container_id, inventory
        # Usually empty: two dicts for each creation would double its cost.
        self.updates: dict[str, DeferredUpdate] = _NOTHING
        self.evictions: dict[str, str] = _NOTHING
        self.succeeded = self.busy = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._inventory.not_created(self._container_id)


#: Changes by events while the runtime's state was read. The value is None for removed containers.
News = dict[str, "ContainerRecord | None"]


class Inventory:
    """All containers by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, ContainerRecord] = {}
        self._creations: dict[str, Creation] = {}
        self.news: list[News] = []
        #: The ids of all containers, always up to date.
        self.known = KnownContainers(self._records, self._creations)

    def begin(self) -> News:
        """Begin reading the runtime's state: later changes by events are newer. Pass the return value to `seed`."""
        news: News = {}
        with self._lock:
            self.news.append(news)
        return news

    def cancel(self, news: News) -> None:
        """End a reading that `begin` started and that failed."""
        with self._lock:
            self.news = [other for other in self.news if other is not news]

    def seed(self, news: News, pods: Iterable[m.PodSandbox], containers: Iterable[m.Container]) -> None:
        """Take over the state that was read after `begin`.

        A container that the state lacks is kept once, because it may be about to be created.
        """
        namespaces = {pod.id: pod.namespace for pod in pods}
        fresh: dict[str, ContainerRecord] = {}
        for container in containers:
            pod_id = container.pod_sandbox_id
            resources = container.linux.resources.SerializeToString()
            fresh[container.id] = ContainerRecord(pod_id, namespaces.get(pod_id, ""), resources)
        with self._lock:
            self.news = [other for other in self.news if other is not news]
            for key, record in self._records.items():
                if key in fresh and record.answers:
                    fresh[key] = record
                elif key in fresh:
                    fresh[key].order = record.known_order()
                elif not record.unseen:
                    record.unseen = True
                    fresh[key] = record
            for key, event_record in news.items():
                if event_record is not None:
                    fresh[key] = event_record
                else:
                    fresh.pop(key, None)
            self._records = self.known.records = fresh

    def _set_record(self, container_id: str, record: ContainerRecord | None) -> None:
        for news in self.news:
            news[container_id] = record
        if record is None:
            self._records.pop(container_id, None)
        else:
            self._records[container_id] = record

    def creating(self, container_id: str, namespace: str) -> Creation:
        """Record that a container is being created. As a `with` block, forget the container if the block raises.

        Only this method adds a creation. It ends with `created` and `committed`, or `not_created`.
        """
        creation = self._creations[container_id] = Creation(namespace, container_id, self)
        return creation  # added in one step, which needs no lock

    def not_created(self, container_id: str) -> None:
        """Record that a creation was refused: its deferred updates are dropped."""
        with self._lock:
            self._creations.pop(container_id, None)

    def created(
        self,
        container_id: str,
        pod: m.PodSandbox,
        resources: bytes,
        order: FieldOrder | CreationAnswers | None = None,
        *,
        uncommitted: bool = False,
    ) -> bool:
        """Record that a creation has succeeded. Returns whether updates wait for the container.

        Args:
            container_id: the container.
            pod: its pod.
            resources: its initial resources, encoded.
            order: the answers that set the resources; None if no answer set them.
            uncommitted: the runtime will commit the creation, and the container is not known before the commit.
        """
        record = ContainerRecord(pod.id, pod.namespace, resources, order)
        with self._lock:
            for news in self.news:
                news[container_id] = record
            self._records[container_id] = record
            creation = self._creations.get(container_id)
            if creation is None:
                return False
            if creation.updates or creation.evictions:
                creation.succeeded = True
                return True
            if uncommitted:
                creation.succeeded = True
            else:
                del self._creations[container_id]
            return False

    def committed(self, container_id: str) -> bool:
        """Record that the runtime has created a container.

        Returns False if deferred updates must be handed over first.
        """
        with self._lock:
            creation = self._creations.get(container_id)
            if creation is None:
                return True
            if creation.updates or creation.evictions or creation.busy:
                return False
            del self._creations[container_id]
            return True

    def defer_update(self, plugin: str, update: m.ContainerUpdate, event: str, number: int) -> Presence:
        """Defer an update if its container is being created; a later update overrides an earlier one.

        Returns the container's presence. CREATED: the update is deferred as well, and the caller schedules the
        handover.
        KNOWN: nothing is deferred, the caller gives the update to the runtime. GONE: the update is dropped, also
            because it
        exceeds `MAX_DEFERRED_BYTES`.

        Args:
            number: the sequence number of the plugin's answer, because threads may call in another order.
        """
        with self._lock:
            creation = self._creations.get(update.container_id)
            if creation is None:
                return Presence.KNOWN if update.container_id in self._records else Presence.GONE
            previous = creation.updates.get(plugin)
            if previous is not None and previous.update.ByteSize() + update.ByteSize() > MAX_DEFERRED_BYTES:
                return Presence.GONE
            if creation.updates is _NOTHING:
                creation.updates = {}
            creation.updates[plugin] = _merged_update(previous, update, event, number)
            return Presence.CREATED if creation.succeeded else Presence.CREATING

    def defer_eviction(self, plugin: str, eviction: m.ContainerEviction) -> Presence:
        """Defer an eviction if its container is being created. Returns the container's presence."""
        with self._lock:
            creation = self._creations.get(eviction.container_id)
            if creation is None:
                return Presence.KNOWN if eviction.container_id in self._records else Presence.GONE
            if creation.evictions is _NOTHING:
                creation.evictions = {}
            creation.evictions[plugin] = plain(eviction.reason)
            return Presence.CREATED if creation.succeeded else Presence.CREATING

    def take_deferred(self, container_id: str, *, continued: bool = False) -> Creation | None:
        """Take the deferred updates of a created container for handover.

        Returns None if there are no more updates, and the container is known, or if another thread hands them over.
        Call it again with `continued` afterwards, for updates that were deferred meanwhile.
        """
        with self._lock:
            creation = self._creations.get(container_id)
            if creation is None or not creation.succeeded or (creation.busy and not continued):
                return None
            if container_id not in self._records or not (creation.updates or creation.evictions):
                del self._creations[container_id]
                return None
            batch = Creation(creation.namespace, container_id, self)
            batch.updates, batch.evictions = creation.updates, creation.evictions
            creation.updates = creation.evictions = _NOTHING
            creation.busy = True
            return batch

    def updated(
        self, container_id: str, resources: m.LinuxResources, numbers: SequenceNumbers, by: object | None = None
    ) -> bool:
        """Record that a container is being updated with these resources. Returns False if the container is unknown.

        Args:
            by: the key for `take_back` or `settle`; with None the update is final.
        """
        with self._lock:
            record = self._records.get(container_id)
            if record is None:
                return False
            self._set_record(
                container_id, record.with_answer(_AnsweredResources(by, resources.SerializeToString(), numbers))
            )
            return True

    def settle(self, container_id: str, by: object, failed: Collection[str] = ()) -> None:
        """Record that updates of a container are final, except the fields that failed."""
        with self._lock:
            record = self._records.get(container_id)
            if record is None or not any(answer.by is by for answer in record.answers):
                return
            answers = [answer._replace(by=None) if answer.by is by else answer for answer in record.answers]
            if failed:
                answers = [
                    now._replace(resources=_without_fields(now.resources, failed)) if was.by is by else now
                    for was, now in zip(record.answers, answers, strict=True)
                ]
            self._set_record(container_id, record.with_answers(record.before, tuple(answers)))

    def take_back(self, container_id: str, by: object) -> Restoration | None:
        """Record that updates of a container are undone. Returns its restored resources, or None without updates."""
        with self._lock:
            record = self._records.get(container_id)
            if record is None:
                return None
            undone = [answer for answer in record.answers if answer.by is by]
            if not undone:
                return None
            restored = record.with_answers(
                record.before, tuple(answer for answer in record.answers if answer.by is not by)
            )
            self._set_record(container_id, restored)
            over = {
                field: answer.numbers.number(field)
                for answer in undone
                for field in field_names(m.LinuxResources.FromString(answer.resources))
            }
            order = record.known_order()
            in_force = [field for field in over if order is None or order.last(field) == over[field]]
            return _restoration(container_id, restored, in_force, over)

    def follow_up(self, restoration: Restoration) -> Restoration | None:
        """A further restoration for changes of a container during a restoration. Returns None if nothing changed.

        The runtime ignored an answer that came before the restoration, because the undone answer was newer.
        """
        with self._lock:
            record = self._records.get(restoration.container_id)
            if record is None:
                return None
            numbers, order = restoration.numbers, record.known_order() or FieldOrder()
            over = {
                field: numbers.greatest_overridden(field)
                for field in (*restoration.restored, *restoration.unset)
                if numbers.number(field) != order.last(field) < numbers.greatest_overridden(field)
            }
            return _restoration(restoration.container_id, record, over, over) if over else None

    def removed(self, container_id: str) -> None:
        """Record that a container is gone."""
        with self._lock:
            self._creations.pop(container_id, None)
            self._set_record(container_id, None)

    def pod_removed(self, pod_id: str) -> list[str]:
        """Record that a pod and its containers are gone. Returns the ids of the containers."""
        with self._lock:
            inside = [key for key, record in self._records.items() if record.pod_id == pod_id]
            for container_id in inside:
                self._creations.pop(container_id, None)
                self._set_record(container_id, None)
            return inside

    def resources_of(self, container_id: str) -> m.LinuxResources | None:
        """The known resources of a container. Returns None if the container is unknown."""
        record = self._records.get(container_id)
        return None if record is None else m.LinuxResources.FromString(record.resources)


def _without_fields(resources: bytes, fields: Collection[str]) -> bytes:
    encoded: bytes = without(m.LinuxResources.FromString(resources), fields).SerializeToString()
    return encoded


def _merged_update(
    previous: DeferredUpdate | None, update: m.ContainerUpdate, event: str, number: int
) -> DeferredUpdate:
    """Merge an update of a plugin into its deferred update, except fields that have a newer answer."""
    merged, resources, numbers = m.ContainerUpdate(), update.linux.resources, SequenceNumbers(number)
    if previous is None:
        merged.CopyFrom(update)
        return DeferredUpdate(merged, event, numbers)
    order = FieldOrder(previous.update.linux.resources, previous.numbers)
    resources = order.newest(resources, numbers)
    merged.CopyFrom(previous.update)
    merged.ignore_failure = previous.update.ignore_failure and update.ignore_failure
    put_resources(merged, read(resources, RESOURCES_TREE))
    order.set(field_names(resources), numbers)
    fields = {field: order.last(field) for field in field_names(merged.linux.resources)}
    return DeferredUpdate(
        merged, event if resources is update.linux.resources else previous.event, SequenceNumbers(number, fields)
    )


def _restoration(
    container_id: str, record: ContainerRecord, fields: Collection[str], over: Mapping[str, int]
) -> Restoration:
    """The restoration of fields of a container after the answers with the sequence numbers in `over` are undone."""
    resources = m.LinuxResources.FromString(record.resources)
    had = set(field_names(resources))
    order = record.known_order() or FieldOrder()
    return Restoration(
        container_id,
        resources,
        tuple(field for field in fields if field in had),
        tuple(field for field in fields if field not in had),
        SequenceNumbers(0, {field: order.last(field) if field in had else 0 for field in over}, over),
    )
