"""What a started engine does first with the records, processes and mounts that an earlier one has left.

What runs continues; what was half created is taken back; what has ended meanwhile is handled like every end; after a
restart of the machine everything has ended. Steps that cannot be taken back are reported and left for the next removal.
A record that cannot be used is set aside, and a substitute is made, so that a client can remove its pod or container; a
container whose pod is not known is ended. Files without a record are removed only if they have the name of an id and
are in a folder of the engine.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.container_creation import ContainerCreation
from nri.engine.calls.pod_creation import PodFiles, PodSteps
from nri.engine.lifecycle.cgroups import Cgroups
from nri.engine.lifecycle.inventory import ContainerEntry, PodEntry, container_status, pod_status, read_spec
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.parts import Parts
from nri.engine.lifecycle.places import remove_bundle
from nri.engine.lifecycle.processes import Processes
from nri.engine.lifecycle.undo import take_back
from nri.engine.network.cni import INTERFACE
from nri.engine.network.results import parse_result
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState
from nri.engine.support.command import end_left
from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import is_mount_point
from nri.errors import NriError, describe

#: The reason of a container whose record cannot be read.
RECORD_LOST = "RecordLost"
_KEY = "io.kubernetes.cri."
#: Plugins were notified of it, as of each one that was made, and are to be notified of its end.
_NRI = {"told": "created"}


class Replay:
    """Takes up the records of an engine that ended. `complaints` says what was not as it should be."""

    def __init__(self, parts: Parts, steps: PodSteps, creation: ContainerCreation) -> None:
        self._inventory, self._machinery, self._processes = parts.inventory, parts.machinery, parts.processes
        self._domain, self._exit_handler = parts.domain, parts.exit_handler
        self._steps, self._creation, self._cgroups = steps, creation, parts.processes.cgroups
        self.complaints: list[str] = []

    def records(self) -> None:
        """Take in what the disk says, and take back what was half made. Before plugins can connect."""
        loaded = self._inventory.store.load()
        self.complaints += loaded.complaints
        lost_pods, lost_containers = dict(loaded.lost_pods), dict(loaded.lost_containers)
        for pod in sorted(loaded.pods.values(), key=lambda record: record.created_at_ns):
            if complaint := self._unusable(pod, lambda pod=pod: self._pod(pod)):  # type: ignore[misc]
                lost_pods[pod.id] = complaint
        pods = {*loaded.pods, *lost_pods}
        for container in sorted(loaded.containers.values(), key=lambda record: record.created_at_ns):
            if complaint := self._unusable(container, lambda row=container: self._container(row, pods)):  # type: ignore[misc]
                lost_containers[container.id] = complaint
        for identity, complaint in lost_containers.items():
            self._container(lost_container(identity, complaint, self._machinery, self._cgroups), pods)
        for identity in lost_pods:
            containers = [entry.record for entry in self._inventory.containers(identity)]
            self._pod(lost_pod(identity, self._machinery, self._cgroups, containers))
        self._keep_substitutes({*lost_pods, *lost_containers})
        self.complaints += sweep(self._machinery, self._processes, {*pods, *loaded.containers, *lost_containers})

    def _unusable(self, record: PodRecord | ContainerRecord, work: Callable[[], object]) -> str:
        """Take a record up. One that cannot be used is set aside, and the result is a line about it; else ""."""
        try:
            work()
        except Exception as error:  # noqa: BLE001  whatever a damaged value leads to, the engine has to start
            place = self._inventory.store.set_aside(record)
            complaint = f"{record.name or record.id}: {describe(error)}; its record is {place}"
            self.complaints.append(complaint)
            return complaint
        return ""

    def _keep_substitutes(self, identities: Collection[str]) -> None:
        """Write the records that replace lost ones, so that the next start knows of them, too."""
        entries: list[PodEntry | ContainerEntry] = [*self._inventory.pods(), *self._inventory.containers()]
        for entry in entries:
            if entry.id in identities:
                self._inventory.note(entry)

    def ends(self) -> None:
        """Watch what runs, and take up what has ended. When plugins can connect."""
        for entry in self._inventory.containers():
            if entry.record.state is ContainerState.EXITED:
                self._exit_handler.later(entry)
            elif entry.record.state is not ContainerState.REMOVING:
                self._exit_handler.watch(entry)
        for pod in self._inventory.pods():
            if pod.record.bundle and pod.record.state is PodState.READY:
                self._exit_handler.watch(pod)

    # --- pods ---

    def _pod(self, record: PodRecord) -> None:
        entry = PodEntry(record)
        if record.state is PodState.CREATING:
            self._take_back_pod(entry)
            return
        if record.state is PodState.READY and not self._there(record):
            # The machine was started again: no namespace is there. Its stop tells plugins and gives the network back.
            record.state = PodState.STOPPING
        _check_listed(record, "metadata")
        pod_status(entry)  # raises an error now for a damaged value, and not in each answer about all pods
        self._domain.pod_message(entry)
        parse_result(record.network, INTERFACE)
        self._inventory.take_in(entry)

    def _take_back_pod(self, entry: PodEntry) -> None:
        self._end_left(entry, f"CNI_CONTAINERID={entry.id}")
        complaints = take_back(self._steps.of(entry))
        self.complaints += [f"pod {entry.id}, half made: {each}" for each in complaints]
        if not complaints:
            self._inventory.drop(entry)  # else the next start tries again

    def _there(self, record: PodRecord) -> bool:
        folder = self._machinery.places.pod(record.id)
        return folder.exists() and all(is_mount_point(Path(path)) for path in record.namespace_paths.values())

    # --- containers ---

    def _container(self, record: ContainerRecord, pods: Collection[str]) -> None:
        entry = ContainerEntry(record, {})
        if record.state is ContainerState.CREATING or record.pod_id not in pods:
            self._take_back_container(entry)
            return
        if record.state is ContainerState.STARTING and not self._waits(record):
            record.state, record.started_at_ns = ContainerState.RUNNING, record.started_at_ns or time.time_ns()
        elif record.state is ContainerState.STARTING:
            record.state = ContainerState.CREATED
        if record.state is ContainerState.REMOVING:
            entry.exited.set()
            entry.ended.set()
        _check_listed(record, "metadata", "image")
        container_status(entry)  # raises an error now for a damaged value, and not in each answer about all containers
        self._domain.container_message(entry)
        self._read_spec(entry)
        self._inventory.take_in(entry)

    def _read_spec(self, entry: ContainerEntry) -> None:
        """Take in a container's OCI spec; without one that can be used it can only be stopped and removed."""
        bundle = self._machinery.places.bundle(entry.id)
        try:
            entry.spec = read_spec(bundle)
            self._domain.container_message(entry)
        except Exception as error:  # noqa: BLE001  whatever a damaged value leads to, the engine has to start
            entry.spec = {}
            self.complaints.append(
                f"{bundle / 'config.json'} cannot be used: {describe(error)}; {entry} can only be stopped and removed"
            )

    def _waits(self, record: ContainerRecord) -> bool:
        """Whether a container that was being started still waits for its start."""
        try:
            return self._machinery.runtime(record.runtime_handler).state(record.id).status == "created"
        except EngineError:
            return False  # it has ended, or its runtime is gone: its end will be taken up

    def _take_back_container(self, entry: ContainerEntry) -> None:
        self._end_left(entry)
        try:
            self._creation.dismantle(entry)
        except (EngineError, OSError) as error:
            self.complaints.append(f"container {entry.id}, half made: {error}")
        else:
            self._inventory.drop(entry)

    def _end_left(self, entry: PodEntry | ContainerEntry, variable: str = "") -> None:
        """End the programs that were making it when the engine was killed: else they go on while it is taken back."""
        if not self._machinery.dry:
            end_left(self._machinery.places.bundle(entry.id), variable)


def _check_listed(record: PodRecord | ContainerRecord, *keys: str) -> None:
    """Check the parts of a configuration that lists of pods and containers read. Raises ValueError."""
    for key in keys:
        if not isinstance(record.config.get(key), dict):
            raise ValueError(f"'config' has no table {key!r}")  # noqa: TRY004  one kind of complaint for the reader
    if not isinstance(record.config["metadata"].get("name"), str):
        raise ValueError("'config' has no metadata.name")  # noqa: TRY004  as above


class _Stray(NamedTuple):
    """Something without a record: its kind and name, and the call that takes it away."""

    kind: str
    name: str
    take_away: Callable[[], object]


def sweep(machinery: Machinery, processes: Processes, known: Collection[str]) -> list[str]:
    """Take away what is not of these pods and containers; returns a line for each that could not be."""
    complaints: list[str] = []
    for find in (partial(_processes, processes), _folders, _pods):
        for stray in find(machinery, known):
            try:
                stray.take_away()
            except (NriError, OSError) as error:
                complaints.append(f"{stray.kind} of {stray.name}, of which there is no record: {error}")
    return complaints


def _processes(processes: Processes, machinery: Machinery, known: Collection[str]) -> Iterator[_Stray]:
    """Containers that an OCI runtime still has, or that have a bundle and perhaps processes."""
    places = machinery.places
    handlers = {path.name: machinery.config.default_runtime for path in places.bundles.iterdir()}
    for handler in machinery.config.runtimes:
        if places.runtime(handler).exists():
            handlers.update(dict.fromkeys(machinery.runtime(handler).containers(), handler))
    for name in _strays(handlers, known):
        yield _Stray("the process", name, partial(processes.end_stray, name, handlers[name]))


def _folders(machinery: Machinery, known: Collection[str]) -> Iterator[_Stray]:
    """Bundles and root file systems."""
    bundles, images = machinery.places.bundles, machinery.images
    for name in _strays((path.name for path in bundles.iterdir()), known):
        yield _Stray("the bundle", name, partial(remove_bundle, bundles / name))
    for name in _strays((path.name for path in images.snapshots.root.iterdir()), known):
        yield _Stray("the root file system", name, partial(images.unmount, name))


def _pods(machinery: Machinery, known: Collection[str]) -> Iterator[_Stray]:
    """Networks, namespaces, files and cgroups of pods."""
    places = machinery.places
    for name in _strays(machinery.cni.attached(), known):
        yield _Stray("the network", name, partial(machinery.cni.delete, name))
    pods = {*machinery.network_namespaces.names(), *(path.name for path in places.pods.iterdir())}
    cgroups = Cgroups(v2=machinery.machine.cgroup_v2)
    for name in _strays(pods, known):
        yield _Stray("the namespaces", name, partial(machinery.namespaces.remove, name, places.pod(name)))
        yield _Stray("the folder", name, PodFiles(places.pod(name), pb.PodSandboxConfig(), "").remove)
        if not machinery.systemd_cgroup:
            yield _Stray("the cgroup", name, partial(cgroups.remove, machinery.pod_cgroup(name)))


def _strays(names: Iterable[str], known: Collection[str]) -> list[str]:
    """The names that belong to no id; images that a container mounts have its id and a number."""
    return sorted(name for name in names if name.partition("-image")[0] not in known)


# --- substitutes of lost records ---
# Their values come from other files and from the kernel: the annotations of the container's OCI spec name its pod, and
# cgroups are found by their names. Such a container is in the state unknown, and such a pod is not ready, until a
# client removes it.


def lost_container(identity: str, complaint: str, machinery: Machinery, cgroups: Cgroups) -> ContainerRecord:
    """A record for a container; its `pod_id` is "" if nothing names the pod. The complaint is its message."""
    bundle = machinery.places.bundle(identity)
    annotations = _annotations(machinery, identity)
    name = annotations.get(f"{_KEY}container-name") or identity
    image = annotations.get(f"{_KEY}image-name", "")
    return ContainerRecord(
        id=identity,
        name=identity,
        config={"metadata": {"name": name}, "image": {"image": image}},
        created_at_ns=time.time_ns(),
        nri=dict(_NRI),
        pod_id=annotations.get(f"{_KEY}sandbox-id", ""),
        state=ContainerState.UNKNOWN,
        image=image,
        runtime_handler=_handler(machinery, identity),
        bundle=str(bundle),
        cgroup_path=_cgroup(cgroups, identity),
        reason=RECORD_LOST,
        message=complaint,
    )


def lost_pod(identity: str, machinery: Machinery, cgroups: Cgroups, containers: Iterable[ContainerRecord]) -> PodRecord:
    """A record for a pod that is not ready, after its containers, which know its name and its cgroup."""
    cgroup = _cgroup(cgroups, identity)
    parents = [posixpath.dirname(path) for path in (cgroup, *(row.cgroup_path for row in containers)) if path]
    own = machinery.pod_cgroup(identity)
    metadata: dict[str, str] = {}
    for container in containers:
        annotations = _annotations(machinery, container.id)
        for key in ("name", "namespace", "uid"):
            metadata.setdefault(key, annotations.get(f"{_KEY}sandbox-{key}", ""))
    metadata["name"] = metadata.get("name") or identity
    parent = parents[0] if parents else own
    bundle = machinery.places.bundle(identity)
    return PodRecord(
        id=identity,
        name=identity,
        # A cgroup that a client has named is the client's to remove.
        config={"metadata": metadata, "linux": {"cgroup_parent": "" if parent == own else parent}},
        created_at_ns=time.time_ns(),
        nri=dict(_NRI),
        namespace=metadata.get("namespace", ""),
        uid=metadata.get("uid", ""),
        state=PodState.STOPPING,
        runtime_handler=_handler(machinery, identity),
        cgroup_parent=parent,
        cgroup_path=parent,
        bundle=str(bundle) if cgroup or bundle.exists() else "",
    )


def _annotations(machinery: Machinery, identity: str) -> Mapping[str, str]:
    """The annotations of a bundle's spec that are text; {} without a spec that can be read."""
    try:
        rows: Any = read_spec(machinery.places.bundle(identity)).get("annotations")
    except (OSError, ValueError):
        return {}
    if not isinstance(rows, dict):
        return {}
    return {key: text for key, text in rows.items() if isinstance(text, str) and text.isascii() and text.isprintable()}


def _handler(machinery: Machinery, identity: str) -> str:
    """The handler whose OCI runtime has the container; the default one if none has it."""
    handlers = [name for name in machinery.config.runtimes if (machinery.places.runtime(name) / identity).exists()]
    return handlers[0] if handlers else machinery.config.default_runtime


def _cgroup(cgroups: Cgroups, identity: str) -> str:
    """The container's own cgroup, "" if there is none."""
    paths = [path for path in cgroups.find(identity) if not posixpath.basename(path).startswith("conmon-")]
    return paths[0] if paths else ""
