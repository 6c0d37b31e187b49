"""Pods and containers that the proxy was not asked for, taken in from the runtime: after a restart, or found late.

Rules: what the runtime has is true: records without a counterpart are ended, pods and containers without a record get
one. A container that an earlier proxy was just making is known by its name in the pod, and keeps the name that plugins
know it by. What plugins that are connected by now have not seen is told them late, by events that have no answer, and
while that is told none joins; what is being asked for right now is left alone. One is taken in at a time, once. Next:
`nri.proxy.events.domain`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import monotonic

from nri.cri.pb import api_pb2 as pb
from nri.errors import DeadlineExceeded, NriError, RpcError, RuntimeUnavailable
from nri.proxy.events.domain import Domain
from nri.proxy.events.inquiry import Inquiry
from nri.proxy.events.views import made, pod_shown
from nri.proxy.settings import ProxySettings
from nri.proxy.state import CREATED, CREATING, STOPPED, Book, ContainerRecord, PodRecord

__all__ = ["NOT_FOUND", "Adoption", "container_key", "is_skipped", "pod_key", "start_key"]

#: gRPC's number of NOT_FOUND.
NOT_FOUND = 5

_log = logging.getLogger("nri.proxy")


def pod_key(metadata: pb.PodSandboxMetadata) -> tuple[str, ...]:
    """The name of a pod that only one can have at a time."""
    return ("pod", metadata.namespace, metadata.name, metadata.uid, str(metadata.attempt))


def container_key(pod_id: str, metadata: pb.ContainerMetadata) -> tuple[str, ...]:
    """The name of a container that only one can have at a time."""
    return ("container", pod_id, metadata.name, str(metadata.attempt))


def start_key(record: ContainerRecord) -> tuple[str, ...]:
    """The name by which the book has a container that is being started."""
    return ("start", record.id)


def is_skipped(settings: ProxySettings, config: pb.PodSandboxConfig) -> bool:
    """Whether a pod has the label with which plugins are told nothing of it."""
    key = settings.skip_label_key
    return bool(key) and config.labels.get(key) == settings.skip_label_value


class Adoption:
    """Takes in what the runtime has; `late` is for when plugins may be there that would miss it."""

    def __init__(self, settings: ProxySettings, book: Book, inquiry: Inquiry, domain: Domain) -> None:
        self._settings, self._book = settings, book
        self._inquiry, self._domain = inquiry, domain
        self._one_at_a_time, self._taking_in = threading.Lock(), threading.Lock()
        self._failed: dict[str, str] = {}

    def everything(self, *, late: bool, deadline: float | None = None) -> None:
        """Bring records and runtime together.

        Raises RpcError, RuntimeUnavailable; DeadlineExceeded with what is left then.
        """
        with self._one_at_a_time:
            known_pods = {pod.id for pod in self._book.pods()}
            known = {each.id for each in self._book.containers() if each.runtime_id or not self._in_making(each)}
            pods, containers = self._inquiry.lists()
            with self._none_joins(late):
                self._end_missing(known_pods - {pod.id for pod in pods}, known, {each.id for each in containers})
            names = {pod.id for pod in pods} | {each.id for each in containers}
            self._failed = {name: reason for name, reason in self._failed.items() if name in names}
            for pod in pods:
                if self._book.pod(pod.id) is None and pod_key(pod.metadata) not in self._book.making:
                    self._one(pod.id, partial(self.pod, pod.id, late=late), deadline)
            for each in containers:
                in_making = container_key(each.pod_sandbox_id, each.metadata) in self._book.making
                if self._book.container(each.id) is None and not in_making:
                    self._one(each.id, partial(self._taken_in, each, late), deadline)
            for record in self._book.containers():  # those that were being made, and are not there
                if not record.runtime_id and record.id in known:
                    self._book.drop(record)

    def pod(self, pod_id: str, *, late: bool = True) -> PodRecord:
        """A pod by the runtime's word. Raises RpcError, RuntimeUnavailable."""
        with self._taking_in, self._none_joins(late):
            return self._book.pod(pod_id) or self._pod(pod_id, late)

    def container(self, runtime_id: str, *, late: bool = True) -> ContainerRecord:
        """A container by the runtime's word. Raises RpcError, RuntimeUnavailable."""
        facts = self._inquiry.container(runtime_id)
        found = pb.Container(id=facts.status.id, pod_sandbox_id=facts.pod_id, metadata=facts.status.metadata)
        if not found.pod_sandbox_id:
            _, containers = self._inquiry.lists()
            found.pod_sandbox_id = next((each.pod_sandbox_id for each in containers if each.id == found.id), "")
        return self._taken_in(found, late)

    # --- inside ---

    def _none_joins(self, late: bool) -> AbstractContextManager[object]:
        """Keep plugins from joining between the record of one and the event: they would get neither."""
        return self._domain.block() if late else nullcontext()

    def _pod(self, pod_id: str, late: bool) -> PodRecord:
        facts = self._inquiry.pod(pod_id)
        record = PodRecord(
            id=facts.status.id or pod_id, config=facts.config, runtime_handler=facts.status.runtime_handler
        )
        record.skipped = is_skipped(self._settings, facts.config)
        record.shown = pod_shown(facts, facts.config)
        ready = facts.status.state == pb.SANDBOX_READY
        if not record.skipped:
            record.told = CREATED if ready else STOPPED
        self._book.put(record)
        if late and ready and not record.skipped:
            _log.info("pod %s is found late, plugins are told of it now", record.id)
            try:
                self._domain.run_pod(record)
            except NriError as error:
                _log.warning("NRI run_pod_sandbox of %s, which runs already: %s", record.id, error)
        return record

    def _taken_in(self, found: pb.Container, late: bool) -> ContainerRecord:
        with self._taking_in, self._none_joins(late):
            return self._book.container(found.id) or self._adopt(found, late)

    def _adopt(self, found: pb.Container, late: bool) -> ContainerRecord:
        facts = self._inquiry.container(found.id)
        if self._book.pod(found.pod_sandbox_id) is None:
            self._pod(found.pod_sandbox_id, late)
        record = self._awaited(found)
        was_known = record is not None
        if record is None:
            record = ContainerRecord(id=found.id, pod_id=found.pod_sandbox_id, config=facts.config)
            record.resources.CopyFrom(facts.config.linux.resources)
            if facts.status.resources.HasField("linux"):
                record.resources.MergeFrom(facts.status.resources.linux)
        record.runtime_id = found.id
        over = facts.status.state == pb.CONTAINER_EXITED
        pod = self._book.pod(record.pod_id)
        told_of = pod is not None and not pod.skipped
        if told_of:
            record.told = STOPPED if over and not was_known else CREATED
        record.shown = made(record, facts)
        self._book.put(record)
        if late and told_of and not over:
            self._domain.post_create(record)
            if facts.status.state == pb.CONTAINER_RUNNING:
                self._domain.post_start(record)
        return record

    def _awaited(self, found: pb.Container) -> ContainerRecord | None:
        """The record of a container that an earlier proxy was just making."""
        for each in self._book.containers(found.pod_sandbox_id):
            key = container_key(each.pod_id, each.config.metadata)
            if each.told == CREATING and key == container_key(found.pod_sandbox_id, found.metadata):
                return each
        return None

    def _in_making(self, record: ContainerRecord) -> bool:
        return container_key(record.pod_id, record.config.metadata) in self._book.making

    def _end_missing(self, pods: set[str], known: set[str], there: set[str]) -> None:
        """Tell the end of what the runtime does not have any more."""
        for record in self._book.containers():
            if record.id in known and record.runtime_id and record.runtime_id not in there:
                self._domain.remove(record)
        for pod_id in pods:
            if (pod := self._book.pod(pod_id)) is not None:
                self._domain.remove_pod(pod)

    def _one(self, name: str, step: Callable[[], object], deadline: float | None) -> None:
        """Take one in; another one that cannot be asked about stops nothing, and is named in the log once."""
        if deadline is not None and monotonic() >= deadline:
            raise DeadlineExceeded("the runtime's words on its pods and containers")
        try:
            step()
        except RuntimeUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  whatever a runtime says of one, the others are taken in
            if isinstance(error, RpcError) and error.code == NOT_FOUND:
                return  # it was removed meanwhile
            if self._failed.get(name) != str(error):
                known = isinstance(error, NriError)
                _log.warning("%s of the runtime could not be taken in: %s", name, error, exc_info=not known)
            self._failed[name] = str(error)
