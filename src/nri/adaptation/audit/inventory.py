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
well, so that they never overtake each other. Next: `nri.adaptation.audit.known`, as which the merge sees this.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from nri.adaptation.audit.known import Known
from nri.adaptation.merge.effects import put_resources
from nri.adaptation.merge.entries import read
from nri.adaptation.merge.fields import RESOURCES_TREE
from nri.api import messages as m
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["ContainerRecord", "Creation", "Inventory", "Known", "Presence"]


#: What a plugin's updates of one container that is being created may have together, if there are several.
KEPT_BYTES: Final = 64 << 10


class Presence(Enum):
    """The standing of a container, for those that want to update it."""

    CREATING = "it is being created"
    KNOWN = "it is there"
    GONE = "the runtime knows no such container"


class ContainerRecord:
    """One container; `unseen` if the last state of the runtime did not have it."""

    __slots__ = ("namespace", "pod_id", "resources", "unseen")

    def __init__(self, pod_id: str, namespace: str, resources: bytes) -> None:
        self.pod_id, self.namespace, self.resources = pod_id, namespace, resources
        self.unseen = False


#: In place of updates and evictions where there are none; never changed.
_NOTHING: Final[dict[str, Any]] = {}


class Creation:
    """A container that is being created, and what waits for it.

    Attributes:
        namespace: of its pod.
        updates: per plugin (``NN-name``) the update that it asks for, the event in which it did, and the number of
            that answer.
        evictions: the reason by plugin, of those who want it gone.
        succeeded: the creation has succeeded, and the runtime has not yet said that the container is there.
        busy: what waited is being handed over.
    """

    __slots__ = ("busy", "evictions", "namespace", "succeeded", "updates")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        # Nearly always nothing waits: two dicts for each creation would be half of what it costs to note one.
        self.updates: dict[str, tuple[m.ContainerUpdate, str, int]] = _NOTHING
        self.evictions: dict[str, str] = _NOTHING
        self.succeeded = self.busy = False


#: What events told while a state was on its way; None for containers that went.
News = dict[str, "ContainerRecord | None"]


class Inventory:
    """All containers by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, ContainerRecord] = {}
        self._creations: dict[str, Creation] = {}
        self._news: list[News] = []
        #: Called with the id of a container whose creation has succeeded already, when something is kept for it.
        self.on_kept: Callable[[str], object] = lambda _container_id: None
        #: The ids of all containers, always up to date.
        self.known = Known(self._records, self._creations)

    def begin(self) -> News:
        """Note that the runtime's state is being asked for: what events tell from now on is newer. For `seed`."""
        news: News = {}
        with self._lock:
            self._news.append(news)
        return news

    def cancel(self, news: News) -> None:
        """Note that the state that was asked for at `begin` did not come."""
        with self._lock:
            self._news = [each for each in self._news if each is not news]

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
            self._news = [each for each in self._news if each is not news]
            for key, record in self._records.items():
                if key not in fresh and not record.unseen:
                    record.unseen = True
                    fresh[key] = record
            for key, told in news.items():
                if told is not None:
                    fresh[key] = told
                else:
                    fresh.pop(key, None)
            self._records = self.known.records = fresh

    def _put(self, container_id: str, record: ContainerRecord | None) -> None:
        for news in self._news:
            news[container_id] = record
        if record is None:
            self._records.pop(container_id, None)
        else:
            self._records[container_id] = record

    def creating(self, container_id: str, namespace: str) -> None:
        """Note that the creation of a container is asked."""
        self._creations[container_id] = Creation(namespace)  # one step, which needs no lock

    def not_created(self, container_id: str) -> None:
        """Note that a creation was refused: what waits for it is dropped."""
        with self._lock:
            self._creations.pop(container_id, None)

    def created(self, container_id: str, pod: m.PodSandbox, resources: bytes, *, uncommitted: bool = False) -> bool:
        """Note that a creation has succeeded, with these resources, encoded. True: updates wait for the container.

        `uncommitted`: the runtime will say when the container is there, so it is not known before that.
        """
        record = ContainerRecord(pod.id, pod.namespace, resources)
        with self._lock:
            for news in self._news:
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
        """Keep an update if its container is being created, later ones over earlier ones. Returns where it stands.

        A container that is not CREATING by now takes no update here: the caller has to give it to the runtime. One that
        comes on top of more than any plugin needs is GONE.

        Args:
            number: counts the answers of plugins: events end in another order than they were answered in.
        """
        with self._lock:
            creation = self._creations.get(update.container_id)
            if creation is None:
                return Presence.KNOWN if update.container_id in self._records else Presence.GONE
            held = creation.updates.get(plugin)
            if held is not None and held[0].ByteSize() + update.ByteSize() > KEPT_BYTES:
                return Presence.GONE
            if held is not None and held[2] <= number:
                kept, later = held[0], update
            else:
                kept = m.ContainerUpdate()
                kept.CopyFrom(update)
                later = update
                if held is not None:
                    later, event, number = held
            if held is not None:
                kept.ignore_failure = held[0].ignore_failure and update.ignore_failure
                put_resources(kept, read(later.linux.resources, RESOURCES_TREE))
            if creation.updates is _NOTHING:
                creation.updates = {}
            creation.updates[plugin] = (kept, event, number)
            succeeded = creation.succeeded
        if succeeded:
            self.on_kept(update.container_id)
        return Presence.CREATING

    def keep_eviction(self, plugin: str, eviction: m.ContainerEviction) -> Presence:
        """Keep an eviction if its container is being created. Returns where it stands."""
        with self._lock:
            creation = self._creations.get(eviction.container_id)
            if creation is None:
                return Presence.KNOWN if eviction.container_id in self._records else Presence.GONE
            if creation.evictions is _NOTHING:
                creation.evictions = {}
            creation.evictions[plugin] = plain(eviction.reason)
            succeeded = creation.succeeded
        if succeeded:
            self.on_kept(eviction.container_id)
        return Presence.CREATING

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
            taken = Creation(creation.namespace)
            taken.updates, taken.evictions = creation.updates, creation.evictions
            creation.updates = creation.evictions = _NOTHING
            creation.busy = True
            return taken

    def updated(self, container_id: str, *updates: m.LinuxResources) -> None:
        """Note that a container is being updated with these resources, one after the other."""
        with self._lock:
            record = self._records.get(container_id)
            if record is not None:
                merged = m.ContainerUpdate()
                merged.linux.resources.ParseFromString(record.resources)
                put_resources(merged, [entry for each in updates for entry in read(each, RESOURCES_TREE)])
                resources = merged.linux.resources.SerializeToString()
                self._put(container_id, ContainerRecord(record.pod_id, record.namespace, resources))

    def removed(self, container_id: str) -> None:
        """Note that a container is gone."""
        with self._lock:
            self._creations.pop(container_id, None)
            self._put(container_id, None)

    def restored(self, container_id: str, resources: m.LinuxResources) -> None:
        """Note that a container is given back the resources that it had."""
        with self._lock:
            record = self._records.get(container_id)
            if record is not None:
                self._put(container_id, ContainerRecord(record.pod_id, record.namespace, resources.SerializeToString()))

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
