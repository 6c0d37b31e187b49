"""Pods and containers that the proxy was not asked for, taken in from the runtime: after a restart, or found late.

Rules: what the runtime has is true: records without a counterpart are ended, pods and containers without a record get
one. A container that an earlier proxy was just making is known by its name in the pod, and keeps the name that plugins
know it by. Plugins that are connected by now get late what they have not seen, by events that have no answer, and
none joins meanwhile; what is being asked for right now is left alone. One is taken in at a time, once. All of
it is done each time that the runtime is connected to, and once a minute: then what was made or removed around the proxy
is found although no call names it, and no record stays for ever. A runtime that serves and cannot answer yet, as one
that has just begun, is asked again soon, and less and less often; that is said once. Next: `nri.proxy.events.domain`.
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
from nri.proxy.events.runtime_queries import RuntimeQueries
from nri.proxy.events.views import made, pod_shown
from nri.proxy.settings import ProxySettings
from nri.proxy.state import CREATED, CREATING, STOPPED, ContainerRecord, PodRecord, Store

__all__ = ["NOT_FOUND", "Adoption", "Reconciler", "container_key", "is_skipped", "pod_key", "start_key"]


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
    """The name by which the store has a container that is being started."""
    return ("start", record.id)


def is_skipped(settings: ProxySettings, config: pb.PodSandboxConfig) -> bool:
    """Whether a pod has the label that keeps it from plugins."""
    key = settings.skip_label_key
    return bool(key) and config.labels.get(key) == settings.skip_label_value


class Adoption:
    """Takes in what the runtime has; `late` is for when plugins may be there that would miss it."""

    def __init__(self, settings: ProxySettings, store: Store, queries: RuntimeQueries, domain: Domain) -> None:
        self._settings, self._store = settings, store
        self._queries, self._domain = queries, domain
        self._one_at_a_time, self._taking_in = threading.Lock(), threading.Lock()
        self._failed: dict[str, str] = {}

    def everything(self, *, late: bool, deadline: float | None = None) -> None:
        """Bring records and runtime together.

        Raises RpcError, RuntimeUnavailable; DeadlineExceeded with what is left then.
        """
        with self._one_at_a_time:
            known_pods = {pod.id for pod in self._store.pods()}
            known = {each.id for each in self._store.containers() if each.runtime_id or not self._in_making(each)}
            pods, containers = self._queries.lists()
            with self._none_joins(late):
                self._end_missing(known_pods - {pod.id for pod in pods}, known, {each.id for each in containers})
            names = {pod.id for pod in pods} | {each.id for each in containers}
            self._failed = {name: reason for name, reason in self._failed.items() if name in names}
            for pod in pods:
                if self._store.pod(pod.id) is None and pod_key(pod.metadata) not in self._store.making:
                    self._one(pod.id, partial(self.pod, pod.id, late=late), deadline)
            for each in containers:
                in_making = container_key(each.pod_sandbox_id, each.metadata) in self._store.making
                if self._store.container(each.id) is None and not in_making:
                    self._one(each.id, partial(self._taken_in, each, late), deadline)
            for record in self._store.containers():  # those that were being made, and are not there
                if not record.runtime_id and record.id in known:
                    self._store.drop(record)

    def pod(self, pod_id: str, *, late: bool = True) -> PodRecord:
        """A pod by the runtime's word. Raises RpcError, RuntimeUnavailable."""
        with self._taking_in, self._none_joins(late):
            return self._store.pod(pod_id) or self._pod(pod_id, late)

    def container(self, runtime_id: str, *, late: bool = True) -> ContainerRecord:
        """A container by the runtime's word. Raises RpcError, RuntimeUnavailable."""
        facts = self._queries.container(runtime_id)
        found = pb.Container(id=facts.status.id, pod_sandbox_id=facts.pod_id, metadata=facts.status.metadata)
        if not found.pod_sandbox_id:
            _, containers = self._queries.lists()
            found.pod_sandbox_id = next((each.pod_sandbox_id for each in containers if each.id == found.id), "")
        return self._taken_in(found, late)

    # --- inside ---

    def _none_joins(self, late: bool) -> AbstractContextManager[object]:
        """Keep plugins from joining between the record of one and the event: they would get neither."""
        return self._domain.block() if late else nullcontext()

    def _pod(self, pod_id: str, late: bool) -> PodRecord:
        facts = self._queries.pod(pod_id)
        record = PodRecord(
            id=facts.status.id or pod_id, config=facts.config, runtime_handler=facts.status.runtime_handler
        )
        record.skipped = is_skipped(self._settings, facts.config)
        record.shown = pod_shown(facts, facts.config)
        ready = facts.status.state == pb.SANDBOX_READY
        if not record.skipped:
            record.reported = CREATED if ready else STOPPED
        self._store.put(record)
        if late and ready and not record.skipped:
            _log.info("pod %s is found late, plugins get its events now", record.id)
            try:
                self._domain.run_pod(record)
            except NriError as error:
                _log.warning("NRI run_pod_sandbox of %s, which runs already: %s", record.id, error)
        return record

    def _taken_in(self, found: pb.Container, late: bool) -> ContainerRecord:
        with self._taking_in, self._none_joins(late):
            return self._store.container(found.id) or self._adopt(found, late)

    def _adopt(self, found: pb.Container, late: bool) -> ContainerRecord:
        facts = self._queries.container(found.id)
        if self._store.pod(found.pod_sandbox_id) is None:
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
        pod = self._store.pod(record.pod_id)
        told_of = pod is not None and not pod.skipped
        if told_of:
            record.reported = STOPPED if over and not was_known else CREATED
        record.shown = made(record, facts)
        self._store.put(record)
        if late and told_of and not over:
            self._domain.post_create(record)
            if facts.status.state == pb.CONTAINER_RUNNING:
                self._domain.post_start(record)
        return record

    def _awaited(self, found: pb.Container) -> ContainerRecord | None:
        """The record of a container that an earlier proxy was just making."""
        for each in self._store.containers(found.pod_sandbox_id):
            key = container_key(each.pod_id, each.config.metadata)
            if each.reported == CREATING and key == container_key(found.pod_sandbox_id, found.metadata):
                return each
        return None

    def _in_making(self, record: ContainerRecord) -> bool:
        return container_key(record.pod_id, record.config.metadata) in self._store.making

    def _end_missing(self, pods: set[str], known: set[str], there: set[str]) -> None:
        """Tell the end of what the runtime does not have any more."""
        for record in self._store.containers():
            if record.id in known and record.runtime_id and record.runtime_id not in there:
                self._domain.remove(record)
        for pod_id in pods:
            if (pod := self._store.pod(pod_id)) is not None:
                self._domain.remove_pod(pod)

    def _one(self, name: str, step: Callable[[], object], deadline: float | None) -> None:
        """Take one in; another one that cannot be asked about stops nothing, and is named in the log once."""
        if deadline is not None and monotonic() >= deadline:
            raise DeadlineExceeded("the runtime's answers about its pods and containers")
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


#: How often what the runtime has is compared with the records, in seconds.
EVERY_S = 60.0
#: After a failure: so many seconds, then twice as many, up to the second.
_AGAIN_S, _AGAIN_AT_MOST_S = 0.5, 30.0


class Reconciler:
    """Has `Adoption.everything` done in a thread of its own."""

    def __init__(self, adoption: Adoption) -> None:
        self._adoption = adoption
        self._wanted, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="nri-proxy-reconcile", daemon=True)

    def wake(self) -> None:
        """Have it done now; from any thread, also before `start`."""
        self._wanted.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def give_up(self) -> None:
        """Begin no more, and say nothing of what fails from now on: the connection to the runtime is being closed."""
        self._stopping.set()
        self._wanted.set()

    def stop(self) -> None:
        """End it; the connection to the runtime is closed before, so that nothing waits for that."""
        self.give_up()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        failures = 0
        while True:
            self._wanted.wait(min(_AGAIN_S * 2.0 ** min(failures - 1, 16), _AGAIN_AT_MOST_S) if failures else EVERY_S)
            if self._stopping.is_set():
                return
            self._wanted.clear()
            try:
                self._adoption.everything(late=True)
            except Exception as error:  # noqa: BLE001  one bad answer must not end the looking
                if not failures and not self._stopping.is_set():
                    known = isinstance(error, NriError)
                    _log.warning("the runtime's pods and containers are not known yet: %s", error, exc_info=not known)
                failures += 1
                continue
            if failures:
                _log.info("the runtime's pods and containers are known again")
            failures = 0
