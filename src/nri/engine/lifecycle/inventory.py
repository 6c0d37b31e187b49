"""The pods and containers of an engine, in memory and on disk, and their statuses for the CRI.

All changes of records go through :class:`Inventory`, and are written before they take effect. A thread takes locks in
this order: the `request_lock` of a pod or container, so that one request at a time changes it; the `record_lock`, which
is held only for the moment of a change; the lock of `Inventory`. An update that a plugin requests takes only the
`record_lock`, so it does not wait for a request on the same container.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from nri.adaptation import FieldOrder
from nri.config.syntax import parse_json
from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import effective_signal
from nri.engine.state import ContainerRecord, ContainerState, Ids, Names, PodRecord, PodState, Store
from nri.engine.state.tables import next_container_state, next_pod_state
from nri.engine.support.errors import EngineError, NotFound
from nri.files import read_regular, write_whole

_log = logging.getLogger(__name__)

#: The CRI's states of containers.
STATES = {
    ContainerState.CREATING: pb.CONTAINER_CREATED,
    ContainerState.CREATED: pb.CONTAINER_CREATED,
    ContainerState.STARTING: pb.CONTAINER_CREATED,
    ContainerState.RUNNING: pb.CONTAINER_RUNNING,
    ContainerState.EXITED: pb.CONTAINER_EXITED,
    ContainerState.REMOVING: pb.CONTAINER_EXITED,
    ContainerState.UNKNOWN: pb.CONTAINER_UNKNOWN,
}
#: The steps that free disk space. They must not fail on a full disk.
_FREEING_STEPS = ("stop", "finish stop", "remove")
#: The length of an id in the log, as in `nri pod ps`.
_SHORT_ID_LENGTH = 13
#: The maximum size of a spec. A request has up to 4 MiB, and is longer in JSON and with the plugins' adjustment.
_SPEC_BYTES = 1 << 26


def to_json(message: Any) -> dict[str, Any]:
    """Convert a message of the CRI to JSON values for records."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


class PodEntry:
    """A pod: its record, and its configuration as a message."""

    def __init__(self, record: PodRecord) -> None:
        self.id, self.record = record.id, record
        self.config = json_format.ParseDict(record.config, pb.PodSandboxConfig(), ignore_unknown_fields=True)
        self.request_lock = threading.RLock()
        self.record_lock = threading.RLock()

    def __str__(self) -> str:
        """The name in logs: `pod 1f2e3d4c5b6a7 default/web`."""
        return f"pod {self.id[:_SHORT_ID_LENGTH]} {self.record.namespace}/{self.config.metadata.name}"


class ContainerEntry:
    """A container: its record, its configuration as a message, and its current OCI spec.

    Attributes:
        exited: set when the container's process has ended.
        ended: set when the end was recorded and reported to plugins.
        log_lock: held while the log is reopened.
        failure: why plugins could not be notified of the end, or "". The next stop of the container raises this error.
        starting: held while the container starts and while its end is handled, so that the end comes after the start.
        order: which plugin set each resource last.
    """

    def __init__(self, record: ContainerRecord, spec: dict[str, Any]) -> None:
        self.id, self.record = record.id, record
        self.config = json_format.ParseDict(record.config, pb.ContainerConfig(), ignore_unknown_fields=True)
        self.spec = spec
        self.request_lock = threading.RLock()
        self.record_lock = threading.RLock()
        self.log_lock = threading.Lock()
        self.exited = threading.Event()
        self.ended = threading.Event()
        self.failure = ""
        self.starting = threading.RLock()
        self.order = FieldOrder()

    def __str__(self) -> str:
        """The name in logs: `container 1f2e3d4c5b6a7 default/web/app`."""
        name = self.config.metadata.name
        pod, namespace, *_ = [*self.record.name.removeprefix(f"{name}_").rsplit("_", 4), ""]  # `names.container_name`
        return f"container {self.id[:_SHORT_ID_LENGTH]} {namespace}/{pod}/{name}"


Entry = PodEntry | ContainerEntry


class Inventory:
    """All pods and containers, by id."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pod_names, self.container_names = Names("pod"), Names("container")
        self._pod_ids, self._container_ids = Ids("pod"), Ids("container")
        self._pods: dict[str, PodEntry] = {}
        self._containers: dict[str, ContainerEntry] = {}
        self._lock = threading.Lock()

    # --- queries ---

    def pod(self, prefix: str) -> PodEntry:
        """Return the pod with an id that begins with `prefix`.

        Raises NotFound if there is no such pod, or if it is still being created.
        """
        return self._pod(self._pod_ids.resolve(prefix), prefix)

    def _pod(self, identity: str, prefix: str) -> PodEntry:
        with self._lock:
            pod = self._pods.get(identity)
        if pod is None or pod.record.state is PodState.CREATING:
            raise NotFound("pod", prefix)
        return pod

    def container(self, prefix: str) -> ContainerEntry:
        """Return the container with an id that begins with `prefix`.

        Raises NotFound if there is no such container, or if it is still being created.
        """
        identity = self._container_ids.resolve(prefix)
        with self._lock:
            container = self._containers.get(identity)
        if container is None or container.record.state is ContainerState.CREATING:
            raise NotFound("container", prefix)
        return container

    def pods(self) -> list[PodEntry]:
        """Return all pods whose creation is complete, the oldest first."""
        with self._lock:
            pods = [*self._pods.values()]
        return [pod for pod in pods if pod.record.state is not PodState.CREATING]

    def containers(self, pod_id: str = "") -> list[ContainerEntry]:
        """Return all containers whose creation is complete, or only the containers of a pod, the oldest first."""
        with self._lock:
            containers = [*self._containers.values()]
        return [
            container for container in containers
            if container.record.state is not ContainerState.CREATING and pod_id in ("", container.record.pod_id)
        ]  # fmt: skip

    # --- changes ---

    def add(self, entry: Entry) -> None:
        """Add a pod or container that is about to be created, and write its record.

        Raises AlreadyExists if another pod or container has its name.
        """
        self._names(entry).reserve(entry.record.name, entry.id)
        self.put(entry)
        self._add_entry(entry)

    def take_in(self, entry: Entry) -> None:
        """Add a pod or container that was read from the disk. Raises AlreadyExists if its name is in use."""
        self._names(entry).reserve(entry.record.name, entry.id)
        self._add_entry(entry)

    def _names(self, entry: Entry) -> Names:
        return self.pod_names if isinstance(entry, PodEntry) else self.container_names

    def _add_entry(self, entry: Entry) -> None:
        with self._lock:
            if isinstance(entry, PodEntry):
                self._pods[entry.id] = entry
            else:
                self._containers[entry.id] = entry
        (self._pod_ids if isinstance(entry, PodEntry) else self._container_ids).add(entry.id)

    def drop(self, entry: Entry) -> None:
        """Remove a pod or container and its record, and release its name."""
        try:
            self.store.remove(entry.id, sync=False)
        except OSError as error:
            raise EngineError(f"the record of {entry.id} cannot be removed: {error}") from error
        pod = isinstance(entry, PodEntry)
        (self._pod_ids if pod else self._container_ids).discard(entry.id)
        with self._lock:
            (self._pods if pod else self._containers).pop(entry.id, None)
        self._names(entry).release(entry.id)

    def put(self, entry: Entry, *, sync: bool = False, **changes: Any) -> None:
        """Change fields of a record and write it. Raises EngineError if writing fails; then nothing is changed.

        With `sync` the change survives a crash of the machine.
        """
        with entry.record_lock:
            before = {name: getattr(entry.record, name) for name in changes}
            _set(entry, changes)
            try:
                self.store.put(entry.record, sync=sync)
            except (OSError, ValueError, TypeError) as error:
                _set(entry, before)
                raise EngineError(f"the record of {entry.id} cannot be written: {error}") from error

    def note(self, entry: Entry, **changes: Any) -> None:
        """Change fields of a record to describe what has happened. If writing fails, the failure is only logged."""
        try:
            self.put(entry, **changes)
        except EngineError as error:
            _log.warning("%s; a restarted engine will have to detect the change", error)
            with entry.record_lock:
                _set(entry, changes)

    def move_pod(self, entry: PodEntry, step: str, *, sync: bool = False, **changes: Any) -> None:
        """Move to the state after a step. WrongState if the step is not allowed."""
        with entry.record_lock:
            self._move(entry, step, next_pod_state(entry.id, entry.record.state, step), sync, changes)

    def move_container(self, entry: ContainerEntry, step: str, *, sync: bool = False, **changes: Any) -> None:
        """Move to the state after a step. WrongState if the step is not allowed."""
        with entry.record_lock:
            self._move(entry, step, next_container_state(entry.id, entry.record.state, step), sync, changes)

    def _move(
        self, entry: Entry, step: str, state: PodState | ContainerState, sync: bool, changes: dict[str, Any]
    ) -> None:
        if step in _FREEING_STEPS:
            self.note(entry, state=state, **changes)
        else:
            self.put(entry, sync=sync, state=state, **changes)


def write_spec(bundle: Path, spec: dict[str, Any]) -> None:
    """Write the spec of a bundle, for the OCI runtime and for a restarted engine. Raises OSError."""
    write_whole(bundle / "config.json", json.dumps(spec).encode(), sync=False)


def read_spec(bundle: Path) -> dict[str, Any]:
    """Read the spec of a bundle. Returns {} if the bundle has no spec, for example after a reboot.

    Raises OSError if it cannot be read, and ValueError if it is not a JSON object.
    """
    try:
        spec = parse_json(read_regular(bundle / "config.json", _SPEC_BYTES))
    except FileNotFoundError:
        return {}
    if not isinstance(spec, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  one kind of error for the caller
    return spec


def _set(entry: Entry, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(entry.record, name, value)


# --- statuses of the CRI ---


def pod_status(entry: PodEntry) -> pb.PodSandboxStatus:
    """Return the status of a pod for clients, with the requested handler, and without addresses after a stop."""
    status = pod_progress(entry)
    status.runtime_handler = entry.record.requested_handler
    if entry.record.state in (PodState.STOPPED, PodState.REMOVING):
        status.network.CopyFrom(pb.PodSandboxNetworkStatus())
    return status


def pod_progress(entry: PodEntry) -> pb.PodSandboxStatus:
    """Return the status of a pod from which its NRI message is built."""
    record = entry.record
    status = pb.PodSandboxStatus(
        id=record.id,
        metadata=entry.config.metadata,
        state=pb.SANDBOX_READY if record.state is PodState.READY else pb.SANDBOX_NOTREADY,
        created_at=record.created_at_ns,
        labels=record.labels,
        annotations=record.annotations,
        runtime_handler=record.runtime_handler,
    )
    status.network.ip = record.ips[0] if record.ips else ""
    status.network.additional_ips.extend(pb.PodIP(ip=ip) for ip in record.ips[1:])
    status.linux.namespaces.options.CopyFrom(entry.config.linux.security_context.namespace_options)
    return status


def progress(entry: ContainerEntry) -> pb.ContainerStatus:
    """Return the fields of a container's status that its NRI message needs: state, times and image.

    Building the complete status takes several times as long, because mounts and resources are parsed from JSON.
    """
    record = entry.record
    return pb.ContainerStatus(
        id=record.id,
        state=STATES[record.state],
        created_at=record.created_at_ns,
        started_at=record.started_at_ns,
        finished_at=record.finished_at_ns,
        exit_code=record.exit_code,
        image_ref=record.image_ref,
        image_id=record.image_id,
        reason=record.reason,
        message=record.message,
    )


def container_status(entry: ContainerEntry) -> pb.ContainerStatus:
    """The status of a container."""
    record, config = entry.record, entry.config
    status = progress(entry)
    status.MergeFrom(
        pb.ContainerStatus(
            metadata=config.metadata,
            image=config.image,
            labels=record.labels,
            annotations=record.annotations,
            mounts=_mounts(record.mounts),
            log_path=record.log_path,
            stop_signal=effective_signal(config, record.stop_signal),
        )
    )
    if record.image:
        status.image.image = record.image
    status.resources.linux.SetInParent()  # as in containerd, the field is set even if there is no limit
    json_format.ParseDict(record.resources, status.resources.linux, ignore_unknown_fields=True)
    json_format.ParseDict(record.user, status.user.linux, ignore_unknown_fields=True)
    return status


def _mounts(rows: Sequence[dict[str, Any]]) -> list[pb.Mount]:
    return [json_format.ParseDict(row, pb.Mount(), ignore_unknown_fields=True) for row in rows]
