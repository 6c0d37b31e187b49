"""The containers that there are, in which namespace, with which resources: from events, and from the runtime's state.

The adaptation needs to know three things without asking the runtime in the middle of an event (the runtime may hold its
locks then): whether an update names a container that exists, in which namespace that is, and what to go back to when a
creation fails after side updates were applied. Resources are kept as bytes: a message would keep the whole container
alive.

A container is in one of three states:

| state | from | an update for it |
|---|---|---|
| creating | its creation is asked | is kept, later ones of a plugin over earlier ones, until it is created |
| known | the creation has succeeded, or the runtime's state has it | is given to the runtime |
| gone | it is removed, or its creation was refused or aborted | is left out and reported, like one without an id |

Kept updates are handed over by `nri.adaptation.registration.kept_updates`. Until that is done later ones are kept as
well, so that they never overtake each other. The merge sees it as `KnownContainers`. Next:
`nri.adaptation.merge.side_updates`, which asks that.
"""

from __future__ import annotations

import marshal
import threading
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.adaptation.containers.answer_order import FieldOrder, Numbers, without
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

    #: Which answers a creation's resources are from: the resources that the only one has set, encoded, and its number;
    #: or, of several, each whole answer and its number, marshalled: a third of the memory.
    Begun = tuple[bytes, int] | bytes

__all__ = ["ContainerRecord", "Creation", "Inventory", "KeptUpdate", "KnownContainers", "Presence"]

#: Updates of one container that can still be taken back, at most; the oldest one stays for good then.
OPEN: Final = 16
#: The limit of a plugin's updates of one container that is being created, together, if there are several.
KEPT_BYTES: Final = 64 << 10


class Presence(Enum):
    """The standing of a container, for those that want to update it."""

    CREATING = "it is being created"
    CREATED = "its creation has succeeded, and what waits for it can be handed over"
    KNOWN = "it is there"
    GONE = "the runtime knows no such container"


class _AnsweredResources(NamedTuple):
    """Resources that answers gave a container: `by` whom they can still be taken back, or None."""

    by: object | None
    resources: bytes
    numbers: Numbers


class ContainerRecord:
    """One container as far as it is known. A change makes another record.

    Attributes:
        resources: what it has by all answers so far, encoded.
        order: which answers these are from, as `known_order` or `created` left it; None for none.
        before: resources and order without `words`.
        words: what answers gave it since the first one that can still be taken back; empty nearly always.
        unseen: the last state of the runtime did not have it.
    """

    __slots__ = ("before", "namespace", "order", "pod_id", "resources", "unseen", "words")

    def __init__(self, pod_id: str, namespace: str, resources: bytes, order: FieldOrder | Begun | None = None) -> None:
        self.pod_id, self.namespace, self.resources, self.order = pod_id, namespace, resources, order
        self.before: tuple[bytes, FieldOrder | None] = (b"", None)
        self.words: tuple[_AnsweredResources, ...] = ()
        self.unseen = False

    def known_order(self) -> FieldOrder | None:
        """Which answers the resources are from. Nearly no container needs it, so it is worked out when one does."""
        order = self.order
        if isinstance(order, tuple):
            order = self.order = FieldOrder(m.LinuxResources.FromString(order[0]), Numbers(order[1]))
        elif isinstance(order, bytes):
            answers = marshal.loads(order)  # noqa: S302 - it has never left this process
            order = self.order = FieldOrder.of_creation(answers)
        return order

    def with_words(
        self, before: tuple[bytes, FieldOrder | None], words: tuple[_AnsweredResources, ...]
    ) -> ContainerRecord:
        """The same container with these words over what it had before them; all newest ones count."""
        now = before
        for word in words:
            now = _over(*now, word)
        return self._with(before, words, now)

    def with_word(self, word: _AnsweredResources) -> ContainerRecord:
        """The same container with one word more; what the others came to is not worked out again."""
        now = self.resources, self.known_order()
        return self._with(self.before if self.words else now, (*self.words, word), _over(*now, word))

    def _with(
        self,
        before: tuple[bytes, FieldOrder | None],
        words: tuple[_AnsweredResources, ...],
        now: tuple[bytes, FieldOrder | None],
    ) -> ContainerRecord:
        """The same container with what it has now, which words over `before` come to; only open ones are kept."""
        made = ContainerRecord(self.pod_id, self.namespace, *now)
        while words and (len(words) > OPEN or words[0].by is None):
            before, words = _over(*before, words[0]) if len(words) > 1 else now, words[1:]
        if words:
            made.before, made.words = before, words
        return made


def _over(resources: bytes, order: FieldOrder | None, word: _AnsweredResources) -> tuple[bytes, FieldOrder]:
    """Resources and their order with a word over them, as far as none of them is newer."""
    order = FieldOrder() if order is None else order.copy()
    wanted = order.newest(m.LinuxResources.FromString(word.resources), word.numbers)
    holder = m.ContainerUpdate()
    holder.linux.resources.ParseFromString(resources)
    put_resources(holder, read(wanted, RESOURCES_TREE))
    order.set(field_names(wanted), word.numbers)
    return holder.linux.resources.SerializeToString(), order


class KnownContainers:
    """The containers that there are, for `in`, those being created, and their namespaces.

    Read without a lock: ask `is_creating` before `in`. A container that has just been created is known before it is no
    longer being created, so the other way round it would be missed.
    """

    __slots__ = ("_creations", "records")

    def __init__(self, records: Mapping[str, Any], creations: Mapping[str, Any]) -> None:
        """Look into these, which change meanwhile: the containers that are there, and those being created.

        Their values have a `namespace`: what they are is the inventory's, which is above this module.
        """
        self.records = records
        self._creations = creations

    def __contains__(self, container_id: object) -> bool:
        return container_id in self.records

    def __len__(self) -> int:
        return len(self.records)

    def begins(self, prefix: str) -> bool:
        """Whether a container is there whose id begins so. It looks at all of them: for people, not for events."""
        return any(one.startswith(prefix) for one in list(self.records))

    def is_creating(self, container_id: str) -> bool:
        """Whether a container is being created, so that an update for it can only be kept."""
        return container_id in self._creations

    def namespace_of(self, container_id: str) -> str | None:
        """The namespace of a container's pod; None for a container that is not there."""
        record = self.records.get(container_id) or self._creations.get(container_id)
        return None if record is None else record.namespace


class KeptUpdate(NamedTuple):
    """A plugin's update of a container that is being created.

    Attributes:
        update: all that it asks for.
        event: in which event it did last.
        numbers: of the answers that its fields are from.
    """

    update: m.ContainerUpdate
    event: str
    numbers: Numbers


#: In place of updates and evictions where there are none; never changed.
_NOTHING: Final[dict[str, Any]] = {}


class Creation:
    """A container that is being created, and what waits for it. A context manager, see `Inventory.creating`.

    Attributes:
        namespace: of its pod.
        updates: what waits for it, by plugin (``NN-name``).
        evictions: the reason by plugin, of those who want it gone.
        succeeded: the creation has succeeded, and the runtime has not yet said that the container is there.
        busy: what waited is being handed over.
    """

    __slots__ = ("_container_id", "_inventory", "busy", "evictions", "namespace", "succeeded", "updates")

    def __init__(self, namespace: str, container_id: str, inventory: Inventory) -> None:
        self.namespace = namespace
        self._container_id, self._inventory = container_id, inventory
        # Nearly always nothing waits: two dicts for each creation would be half of what it costs to note one.
        self.updates: dict[str, KeptUpdate] = _NOTHING
        self.evictions: dict[str, str] = _NOTHING
        self.succeeded = self.busy = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._inventory.not_created(self._container_id)


#: News from events while a state was on its way; None for containers that went.
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
        """Note that the runtime's state is being asked for: what events tell from now on is newer. For `seed`."""
        news: News = {}
        with self._lock:
            self.news.append(news)
        return news

    def cancel(self, news: News) -> None:
        """Note that the state that was asked for at `begin` did not come."""
        with self._lock:
            self.news = [each for each in self.news if each is not news]

    def seed(self, news: News, pods: Iterable[m.PodSandbox], containers: Iterable[m.Container]) -> None:
        """Take over the state that was asked for at `begin`.

        A container that it does not have is kept once: it may be just in the making.
        """
        namespaces = {pod.id: pod.namespace for pod in pods}
        fresh: dict[str, ContainerRecord] = {}
        for container in containers:
            pod_id = container.pod_sandbox_id
            resources = container.linux.resources.SerializeToString()
            fresh[container.id] = ContainerRecord(pod_id, namespaces.get(pod_id, ""), resources)
        with self._lock:
            self.news = [each for each in self.news if each is not news]
            for key, record in self._records.items():
                if key in fresh and record.words:
                    fresh[key] = record
                elif key in fresh:
                    fresh[key].order = record.known_order()
                elif not record.unseen:
                    record.unseen = True
                    fresh[key] = record
            for key, told in news.items():
                if told is not None:
                    fresh[key] = told
                else:
                    fresh.pop(key, None)
            self._records = self.known.records = fresh

    def _put(self, container_id: str, record: ContainerRecord | None) -> None:
        for news in self.news:
            news[container_id] = record
        if record is None:
            self._records.pop(container_id, None)
        else:
            self._records[container_id] = record

    def creating(self, container_id: str, namespace: str) -> Creation:
        """Note that a container is being created; in a `with` block, forget it if the block raises.

        This is the only place where a creation is entered. It ends with `created` and `committed`, or `not_created`.
        """
        creation = self._creations[container_id] = Creation(namespace, container_id, self)
        return creation  # entered in one step, which needs no lock

    def not_created(self, container_id: str) -> None:
        """Note that a creation was refused: what waits for it is dropped."""
        with self._lock:
            self._creations.pop(container_id, None)

    def created(
        self,
        container_id: str,
        pod: m.PodSandbox,
        resources: bytes,
        order: FieldOrder | Begun | None = None,
        *,
        uncommitted: bool = False,
    ) -> bool:
        """Note that a creation has succeeded. True: updates wait for the container.

        Args:
            container_id: the container.
            pod: its pod.
            resources: those with which it begins, encoded.
            order: by which answers they were set; or the answers, as `Begun` has them; None if no answer has.
            uncommitted: the runtime will say when the container is there, so it is not known before that.
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
        """Note that the runtime has created a container. False: something waits for it, to be handed over first."""
        with self._lock:
            creation = self._creations.get(container_id)
            if creation is None:
                return True
            if creation.updates or creation.evictions or creation.busy:
                return False
            del self._creations[container_id]
            return True

    def keep_update(self, plugin: str, update: m.ContainerUpdate, event: str, number: int) -> Presence:
        """Keep an update if its container is being created, later ones over earlier ones. Returns its place.

        CREATED: kept as well, and the caller has it handed over. A KNOWN one takes no update here: the caller gives it
        to the runtime. One that comes on top of more than any plugin needs is GONE.

        Args:
            number: of the plugin's answer: threads come here in another order than answers were read.
        """
        with self._lock:
            creation = self._creations.get(update.container_id)
            if creation is None:
                return Presence.KNOWN if update.container_id in self._records else Presence.GONE
            held = creation.updates.get(plugin)
            if held is not None and held.update.ByteSize() + update.ByteSize() > KEPT_BYTES:
                return Presence.GONE
            if creation.updates is _NOTHING:
                creation.updates = {}
            creation.updates[plugin] = _kept(held, update, event, number)
            return Presence.CREATED if creation.succeeded else Presence.CREATING

    def keep_eviction(self, plugin: str, eviction: m.ContainerEviction) -> Presence:
        """Keep an eviction if its container is being created. Returns its place."""
        with self._lock:
            creation = self._creations.get(eviction.container_id)
            if creation is None:
                return Presence.KNOWN if eviction.container_id in self._records else Presence.GONE
            if creation.evictions is _NOTHING:
                creation.evictions = {}
            creation.evictions[plugin] = plain(eviction.reason)
            return Presence.CREATED if creation.succeeded else Presence.CREATING

    def take_kept(self, container_id: str, *, again: bool = False) -> Creation | None:
        """Take what waits for a container that is created, to be handed over; None: nothing any more, and it is known.

        Ask `again` when that is done: what is asked for meanwhile waits, too. None also if another thread is at it.
        """
        with self._lock:
            creation = self._creations.get(container_id)
            if creation is None or not creation.succeeded or (creation.busy and not again):
                return None
            if container_id not in self._records or not (creation.updates or creation.evictions):
                del self._creations[container_id]
                return None
            taken = Creation(creation.namespace, container_id, self)
            taken.updates, taken.evictions = creation.updates, creation.evictions
            creation.updates = creation.evictions = _NOTHING
            creation.busy = True
            return taken

    def updated(
        self, container_id: str, resources: m.LinuxResources, numbers: Numbers, by: object | None = None
    ) -> bool:
        """Note that a container is being updated with these resources; False if it is not there.

        Args:
            by: who may still `take_back` the update, or has to `settle` it.
        """
        with self._lock:
            record = self._records.get(container_id)
            if record is None:
                return False
            self._put(container_id, record.with_word(_AnsweredResources(by, resources.SerializeToString(), numbers)))
            return True

    def settle(self, container_id: str, by: object, failed: Collection[str] = ()) -> None:
        """Note that updates of a container stand, without the fields in which they failed."""
        with self._lock:
            record = self._records.get(container_id)
            if record is None or not any(word.by is by for word in record.words):
                return
            words = [word._replace(by=None) if word.by is by else word for word in record.words]
            if failed:
                words = [
                    now._replace(resources=_less(now.resources, failed)) if was.by is by else now
                    for was, now in zip(record.words, words, strict=True)
                ]
            self._put(container_id, record.with_words(record.before, tuple(words)))

    def take_back(self, container_id: str, by: object) -> Restoration | None:
        """Note that updates of a container are taken back; returns what it has again, None if there were none."""
        with self._lock:
            record = self._records.get(container_id)
            if record is None:
                return None
            undone = [word for word in record.words if word.by is by]
            if not undone:
                return None
            made = record.with_words(record.before, tuple(word for word in record.words if word.by is not by))
            self._put(container_id, made)
            over = {
                field: word.numbers.of(field)
                for word in undone
                for field in field_names(m.LinuxResources.FromString(word.resources))
            }
            order = record.known_order()
            in_force = [field for field in over if order is None or order.last(field) == over[field]]
            return _restoration(container_id, made, in_force, over)

    def come_late(self, given: Restoration) -> Restoration | None:
        """The values of a restored container, by what was said or taken back while it was restored; None for nothing.

        The runtime has left such an answer alone if it saw it before the restoration: what was taken back was newer.
        """
        with self._lock:
            record = self._records.get(given.container_id)
            if record is None:
                return None
            numbers, order = given.numbers, record.known_order() or FieldOrder()
            over = {
                field: numbers.reach(field)
                for field in (*given.restored, *given.unset)
                if numbers.of(field) != order.last(field) < numbers.reach(field)
            }
            return _restoration(given.container_id, record, over, over) if over else None

    def removed(self, container_id: str) -> None:
        """Note that a container is gone."""
        with self._lock:
            self._creations.pop(container_id, None)
            self._put(container_id, None)

    def pod_removed(self, pod_id: str) -> list[str]:
        """Note that a pod is gone with all that was in it; returns the ids of its containers."""
        with self._lock:
            inside = [key for key, record in self._records.items() if record.pod_id == pod_id]
            for container_id in inside:
                self._creations.pop(container_id, None)
                self._put(container_id, None)
            return inside

    def resources_of(self, container_id: str) -> m.LinuxResources | None:
        """The resources that a container was given, as far as they are known."""
        record = self._records.get(container_id)
        return None if record is None else m.LinuxResources.FromString(record.resources)


def _less(resources: bytes, fields: Collection[str]) -> bytes:
    encoded: bytes = without(m.LinuxResources.FromString(resources), fields).SerializeToString()
    return encoded


def _kept(held: KeptUpdate | None, update: m.ContainerUpdate, event: str, number: int) -> KeptUpdate:
    """One more update of a plugin over what is kept of it already, as far as that is not newer."""
    whole, resources, numbers = m.ContainerUpdate(), update.linux.resources, Numbers(number)
    if held is None:
        whole.CopyFrom(update)
        return KeptUpdate(whole, event, numbers)
    order = FieldOrder(held.update.linux.resources, held.numbers)
    resources = order.newest(resources, numbers)
    whole.CopyFrom(held.update)
    whole.ignore_failure = held.update.ignore_failure and update.ignore_failure
    put_resources(whole, read(resources, RESOURCES_TREE))
    order.set(field_names(resources), numbers)
    fields = {field: order.last(field) for field in field_names(whole.linux.resources)}
    return KeptUpdate(whole, event if resources is update.linux.resources else held.event, Numbers(number, fields))


def _restoration(
    container_id: str, record: ContainerRecord, fields: Collection[str], over: Mapping[str, int]
) -> Restoration:
    """The restoration of fields to what a container has by others than the answers with the numbers in `over`."""
    resources = m.LinuxResources.FromString(record.resources)
    had = set(field_names(resources))
    order = record.known_order() or FieldOrder()
    return Restoration(
        container_id,
        resources,
        tuple(field for field in fields if field in had),
        tuple(field for field in fields if field not in had),
        Numbers(0, {field: order.last(field) if field in had else 0 for field in over}, over),
    )
