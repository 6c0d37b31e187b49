"""Adopt pods and containers of the runtime that the proxy has no record of, for example after a restart.

The runtime's state is authoritative: the proxy ends records whose pod or container no longer exists, and creates
records for pods and containers without a record. This happens after each connection to the runtime and once a minute.
Connected plugins receive late events for pods and containers that they have not seen.
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
from nri.proxy.events.views import created_container, pod_shown
from nri.proxy.settings import ProxySettings
from nri.proxy.state import CREATED, CREATING, STOPPED, ContainerRecord, PodRecord, Store

#: gRPC's number of NOT_FOUND.
NOT_FOUND = 5

_log = logging.getLogger("nri.proxy")


def pod_key(metadata: pb.PodSandboxMetadata) -> tuple[str, ...]:
    """The key of a pod; only one pod can have it at a time."""
    return ("pod", metadata.namespace, metadata.name, metadata.uid, str(metadata.attempt))


def container_key(pod_id: str, metadata: pb.ContainerMetadata) -> tuple[str, ...]:
    """The key of a container; only one container can have it at a time."""
    return ("container", pod_id, metadata.name, str(metadata.attempt))


def start_key(record: ContainerRecord) -> tuple[str, ...]:
    """The key of a container while it is being started."""
    return ("start", record.id)


def is_skipped(settings: ProxySettings, config: pb.PodSandboxConfig) -> bool:
    """Whether a pod has the label that hides it from plugins."""
    key = settings.skip_label_key
    return bool(key) and config.labels.get(key) == settings.skip_label_value


class Adoption:
    """Creates records of pods and containers of the runtime.

    With `late`, connected plugins receive events about them, and no plugin joins in the meantime.
    """

    def __init__(self, settings: ProxySettings, store: Store, queries: RuntimeQueries, domain: Domain) -> None:
        self._settings, self._store = settings, store
        self._queries, self._domain = queries, domain
        self._reconcile_lock, self._adopt_lock = threading.Lock(), threading.Lock()
        self._failed: dict[str, str] = {}

    def everything(self, *, late: bool, deadline: float | None = None) -> None:
        """Synchronize all records with the runtime. Raises RpcError, RuntimeUnavailable, DeadlineExceeded."""
        with self._reconcile_lock:
            known_pods = {pod.id for pod in self._store.pods()}
            container_ids = {
                container.id
                for container in self._store.containers()
                if container.runtime_id or not self._is_being_created(container)
            }
            pods, containers = self._queries.lists()
            with self._keep_joiners_out(late):
                self._end_missing(
                    known_pods - {pod.id for pod in pods}, container_ids, {container.id for container in containers}
                )
            names = {pod.id for pod in pods} | {container.id for container in containers}
            self._failed = {name: reason for name, reason in self._failed.items() if name in names}
            for pod in pods:
                if self._store.pod(pod.id) is None and pod_key(pod.metadata) not in self._store.making:
                    self._adopt_logged(pod.id, partial(self.pod, pod.id, late=late), deadline)
            for container in containers:
                in_making = container_key(container.pod_sandbox_id, container.metadata) in self._store.making
                if self._store.container(container.id) is None and not in_making:
                    self._adopt_logged(container.id, partial(self._adopt_once, container, late), deadline)
            for record in self._store.containers():  # records of containers that were being created, but do not exist
                if not record.runtime_id and record.id in container_ids:
                    self._store.drop(record)

    def pod(self, pod_id: str, *, late: bool = True) -> PodRecord:
        """Adopt a pod. Raises RpcError, RuntimeUnavailable."""
        with self._adopt_lock, self._keep_joiners_out(late):
            return self._store.pod(pod_id) or self._pod(pod_id, late)

    def container(self, runtime_id: str, *, late: bool = True) -> ContainerRecord:
        """Adopt a container. Raises RpcError, RuntimeUnavailable."""
        facts = self._queries.container(runtime_id)
        container = pb.Container(id=facts.status.id, pod_sandbox_id=facts.pod_id, metadata=facts.status.metadata)
        if not container.pod_sandbox_id:
            _, containers = self._queries.lists()
            container.pod_sandbox_id = next(
                (other.pod_sandbox_id for other in containers if other.id == container.id), ""
            )
        return self._adopt_once(container, late)

    # --- inside ---

    def _keep_joiners_out(self, late: bool) -> AbstractContextManager[object]:
        """Keep plugins from joining between a record and its event, because they would get neither."""
        return self._domain.block() if late else nullcontext()

    def _pod(self, pod_id: str, late: bool) -> PodRecord:
        facts = self._queries.pod(pod_id)
        record = PodRecord(
            id=facts.status.id or pod_id, config=facts.config, runtime_handler=facts.status.runtime_handler
        )
        record.skipped = is_skipped(self._settings, facts.config)
        record.plugin_view = pod_shown(facts, facts.config)
        ready = facts.status.state == pb.SANDBOX_READY
        if not record.skipped:
            record.reported_step = CREATED if ready else STOPPED
        self._store.put(record)
        if late and ready and not record.skipped:
            _log.info("pod %s was not known until now; reporting it to plugins", record.id)
            try:
                self._domain.run_pod(record)
            except NriError as error:
                _log.warning("NRI run_pod_sandbox of %s, which is already running: %s", record.id, error)
        return record

    def _adopt_once(self, container: pb.Container, late: bool) -> ContainerRecord:
        with self._adopt_lock, self._keep_joiners_out(late):
            return self._store.container(container.id) or self._adopt_container(container, late)

    def _adopt_container(self, container: pb.Container, late: bool) -> ContainerRecord:
        facts = self._queries.container(container.id)
        if self._store.pod(container.pod_sandbox_id) is None:
            self._pod(container.pod_sandbox_id, late)
        record = self._unfinished_record(container)
        was_known = record is not None
        if record is None:
            record = ContainerRecord(id=container.id, pod_id=container.pod_sandbox_id, config=facts.config)
            record.resources.CopyFrom(facts.config.linux.resources)
            if facts.status.resources.HasField("linux"):
                record.resources.MergeFrom(facts.status.resources.linux)
        record.runtime_id = container.id
        has_ended = facts.status.state == pb.CONTAINER_EXITED
        pod = self._store.pod(record.pod_id)
        is_reported = pod is not None and not pod.skipped
        if is_reported:
            record.reported_step = STOPPED if has_ended and not was_known else CREATED
        record.plugin_view = created_container(record, facts)
        self._store.put(record)
        if late and is_reported and not has_ended:
            self._domain.post_create(record)
            if facts.status.state == pb.CONTAINER_RUNNING:
                self._domain.post_start(record)
        return record

    def _unfinished_record(self, container: pb.Container) -> ContainerRecord | None:
        """The record of a container that an earlier proxy was creating when it ended."""
        for record in self._store.containers(container.pod_sandbox_id):
            key = container_key(record.pod_id, record.config.metadata)
            if record.reported_step == CREATING and key == container_key(container.pod_sandbox_id, container.metadata):
                return record
        return None

    def _is_being_created(self, record: ContainerRecord) -> bool:
        return container_key(record.pod_id, record.config.metadata) in self._store.making

    def _end_missing(self, pods: set[str], recorded: set[str], present: set[str]) -> None:
        """Report the end of pods and containers that the runtime no longer has."""
        for record in self._store.containers():
            if record.id in recorded and record.runtime_id and record.runtime_id not in present:
                self._domain.remove(record)
        for pod_id in pods:
            if (pod := self._store.pod(pod_id)) is not None:
                self._domain.remove_pod(pod)

    def _adopt_logged(self, name: str, step: Callable[[], object], deadline: float | None) -> None:
        """Run an adoption step. Errors other than RuntimeUnavailable are logged once and do not stop other steps."""
        if deadline is not None and monotonic() >= deadline:
            raise DeadlineExceeded("adoption of the runtime's pods and containers")
        try:
            step()
        except RuntimeUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  one bad answer must not stop the others
            if isinstance(error, RpcError) and error.code == NOT_FOUND:
                return  # it was removed in the meantime
            if self._failed.get(name) != str(error):
                is_expected = isinstance(error, NriError)
                _log.warning("cannot adopt %s from the runtime: %s", name, error, exc_info=not is_expected)
            self._failed[name] = str(error)


#: The time between two synchronizations with the runtime, in seconds.
INTERVAL_S = 60.0
#: A failed synchronization is tried again after this time in seconds, which doubles each time up to the maximum.
_RETRY_S, _MAX_RETRY_S = 0.5, 30.0


class Reconciler:
    """A thread that calls `Adoption.everything` again and again."""

    def __init__(self, adoption: Adoption) -> None:
        self._adoption = adoption
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="nri-proxy-reconcile", daemon=True)

    def wake(self) -> None:
        """Synchronize now. May be called from any thread, even before `start`."""
        self._wake.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def give_up(self) -> None:
        """Start no further synchronization, and log no more failures, because the connection is closing."""
        self._stopping.set()
        self._wake.set()

    def stop(self) -> None:
        """End the thread. Close the connection to the runtime first, so that the thread does not wait for an answer."""
        self.give_up()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        failures = 0
        while True:
            self._wake.wait(min(_RETRY_S * 2.0 ** min(failures - 1, 16), _MAX_RETRY_S) if failures else INTERVAL_S)
            if self._stopping.is_set():
                return
            self._wake.clear()
            try:
                self._adoption.everything(late=True)
            except Exception as error:  # noqa: BLE001  one bad answer must not end the looking
                if not failures and not self._stopping.is_set():
                    is_expected = isinstance(error, NriError)
                    _log.warning("cannot list the runtime's pods and containers: %s", error, exc_info=not is_expected)
                failures += 1
                continue
            if failures:
                _log.info("the runtime's pods and containers can be listed again")
            failures = 0
