"""Restore the pods and containers of an earlier engine from its records, processes and mounts.

Running containers continue. Half-created pods and containers are undone. The end of a container that ended meanwhile is
handled like every other end; after a reboot this applies to all containers. An unusable record is set aside and
replaced by a substitute, so that a client can remove the pod or container. Processes and files without a record are
removed.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.container_creation import ContainerCreation
from nri.engine.calls.pod_creation import PodFiles, PodSteps
from nri.engine.images import ImageStore
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
from nri.engine.support.command import end_leftovers
from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import is_namespace
from nri.errors import NriError, describe

#: The reason of a container whose record was lost.
RECORD_LOST = "RecordLost"
#: The prefix of containerd's annotations in an OCI spec.
_KEY = "io.kubernetes.cri."
#: The NRI state of a substitute: plugins have received its creation, so they have to receive its end.
_NRI = {"told": "created"}


class Replay:
    """Restores the records of an earlier engine. `complaints` lists the problems, one line each."""

    def __init__(self, parts: Parts, steps: PodSteps, creation: ContainerCreation) -> None:
        self._inventory, self._machinery, self._processes = parts.inventory, parts.machinery, parts.processes
        self._domain, self._exit_handler = parts.domain, parts.exit_handler
        self._steps, self._creation, self._cgroups = steps, creation, parts.processes.cgroups
        self.complaints: list[str] = []

    def restore(self) -> None:
        """Load the records, and undo half-created pods and containers. It must be called before plugins connect."""
        loaded = self._inventory.store.load()
        self.complaints += loaded.complaints
        lost_pods, lost_containers = dict(loaded.lost_pods), dict(loaded.lost_containers)
        for pod in sorted(loaded.pods.values(), key=lambda record: record.created_at_ns):
            if complaint := self._try_restore(pod, lambda pod=pod: self._pod(pod)):  # type: ignore[misc]
                lost_pods[pod.id] = complaint
        pods = {*loaded.pods, *lost_pods}
        for container in sorted(loaded.containers.values(), key=lambda record: record.created_at_ns):
            if complaint := self._try_restore(container, lambda row=container: self._container(row, pods)):  # type: ignore[misc]
                lost_containers[container.id] = complaint
        for identity, complaint in lost_containers.items():
            self._container(lost_container(identity, complaint, self._machinery, self._cgroups), pods)
        for identity in lost_pods:
            containers = [entry.record for entry in self._inventory.containers(identity)]
            self._pod(lost_pod(identity, self._machinery, self._cgroups, containers))
        self._keep_substitutes({*lost_pods, *lost_containers})
        self.complaints += sweep(self._machinery, self._processes, {*pods, *loaded.containers, *lost_containers})

    def _try_restore(self, record: PodRecord | ContainerRecord, work: Callable[[], object]) -> str:
        """Restore a record by calling `work`, and return "". If that fails, set it aside and return the complaint."""
        try:
            work()
        except Exception as error:  # noqa: BLE001  the engine has to start, whatever a damaged value leads to
            place = self._inventory.store.set_aside(record)
            complaint = f"{record.name or record.id}: {describe(error)}; its record is {place}"
            self.complaints.append(complaint)
            return complaint
        return ""

    def _keep_substitutes(self, identities: Collection[str]) -> None:
        """Write the substitutes of lost records, so that the next start can read them."""
        entries: list[PodEntry | ContainerEntry] = [*self._inventory.pods(), *self._inventory.containers()]
        for entry in entries:
            if entry.id in identities:
                self._inventory.note(entry)

    def resume(self) -> None:
        """Watch running containers, and handle the ended ones. It must be called when plugins can connect."""
        for entry in self._inventory.containers():
            if entry.record.state is ContainerState.EXITED:
                self._exit_handler.report_later(entry)
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
        if record.state is PodState.READY and not self._has_namespaces(record):
            # The machine was rebooted, so the namespaces are lost. A stop notifies plugins and releases the network.
            record.state = PodState.STOPPING
        _check_listed(record, "metadata")
        pod_status(entry)  # fails now for a damaged value, instead of in each answer about all pods
        self._domain.pod_message(entry)
        parse_result(record.network, INTERFACE)
        self._inventory.take_in(entry)

    def _take_back_pod(self, entry: PodEntry) -> None:
        self._end_left(entry, f"CNI_CONTAINERID={entry.id}")
        complaints = take_back(self._steps.of(entry))
        self.complaints += [f"pod {entry.id}, half created: {complaint}" for complaint in complaints]
        if not complaints:
            self._inventory.drop(entry)  # otherwise the next start tries again

    def _has_namespaces(self, record: PodRecord) -> bool:
        folder = self._machinery.places.pod(record.id)
        return folder.exists() and all(is_namespace(path) for path in record.namespace_paths.values())

    # --- containers ---

    def _container(self, record: ContainerRecord, pods: Collection[str]) -> None:
        entry = ContainerEntry(record, {})
        if record.state is ContainerState.CREATING or record.pod_id not in pods:
            self._take_back_container(entry)
            return
        if record.state is ContainerState.STARTING and not self._waits_for_start(record):
            record.state, record.started_at_ns = ContainerState.RUNNING, record.started_at_ns or time.time_ns()
        elif record.state is ContainerState.STARTING:
            record.state = ContainerState.CREATED
        if record.state is ContainerState.REMOVING:
            entry.exited.set()
            entry.ended.set()
        _check_listed(record, "metadata", "image")
        container_status(entry)  # fails now for a damaged value, instead of in each answer about all containers
        self._domain.container_message(entry)
        self._read_spec(entry)
        self._inventory.take_in(entry)

    def _read_spec(self, entry: ContainerEntry) -> None:
        """Read a container's OCI spec. A container without a usable spec can only be stopped and removed."""
        bundle = self._machinery.places.bundle(entry.id)
        try:
            entry.spec = read_spec(bundle)
            self._domain.container_message(entry)
        except Exception as error:  # noqa: BLE001  the engine has to start, whatever a damaged value leads to
            entry.spec = {}
            self.complaints.append(
                f"{bundle / 'config.json'} cannot be used: {describe(error)}; {entry} can only be stopped and removed"
            )

    def _waits_for_start(self, record: ContainerRecord) -> bool:
        """Return whether a container is still waiting for its start, although an earlier engine was starting it."""
        try:
            return self._machinery.runtime(record.runtime_handler).state(record.id).status == "created"
        except EngineError:
            return False  # the container has ended, or its OCI runtime is missing; its end will be handled

    def _take_back_container(self, entry: ContainerEntry) -> None:
        self._end_left(entry)
        try:
            self._creation.dismantle(entry)
        except (EngineError, OSError) as error:
            self.complaints.append(f"container {entry.id}, half created: {error}")
        else:
            self._inventory.drop(entry)

    def _end_left(self, entry: PodEntry | ContainerEntry, variable: str = "") -> None:
        """Kill the programs that are still creating a pod or container, because they would disturb the undo."""
        if not self._machinery.dry:
            end_leftovers(self._machinery.places.bundle(entry.id), variable)
            for folder in self._machinery.images.snapshots.root.glob(f"{entry.id}*"):
                end_leftovers(folder)  # a copy of the image or of a volume


def _check_listed(record: PodRecord | ContainerRecord, *keys: str) -> None:
    """Check the keys that lists of pods and containers read. Raises ValueError if one is missing or invalid."""
    for key in keys:
        if not isinstance(record.config.get(key), dict):
            raise ValueError(f"'config' has no object {key!r}")  # noqa: TRY004  one kind of complaint for the reader
    if not isinstance(record.config["metadata"].get("name"), str):
        raise ValueError("'config' has no metadata.name")  # noqa: TRY004  as above


class _Stray(NamedTuple):
    """An object without a record: its kind, its name, and the function that removes it."""

    kind: str
    name: str
    remove: Callable[[], object]


def sweep(machinery: Machinery, processes: Processes, known_ids: Collection[str]) -> list[str]:
    """Remove processes, files, namespaces and networks of unknown ids. Returns a line for each failure."""
    complaints: list[str] = []
    for find in (partial(_processes, processes), _folders, _pods):
        for stray in find(machinery, known_ids):
            try:
                stray.remove()
            except (NriError, OSError) as error:
                complaints.append(f"{stray.kind} of {stray.name}, which has no record: {error}")
    return complaints


def _processes(processes: Processes, machinery: Machinery, known_ids: Collection[str]) -> Iterator[_Stray]:
    """Find containers that an OCI runtime still knows, or that have a bundle and perhaps processes."""
    places = machinery.places
    handlers = {path.name: machinery.config.default_runtime for path in places.bundles.iterdir()}
    for handler in machinery.config.runtimes:
        if places.runtime(handler).exists():
            handlers.update(dict.fromkeys(machinery.runtime(handler).containers(), handler))
    for name in _stray_names(handlers, known_ids):
        yield _Stray("the process", name, partial(processes.end_stray, name, handlers[name]))


def _folders(machinery: Machinery, known_ids: Collection[str]) -> Iterator[_Stray]:
    """Find bundles and root file systems of unknown ids."""
    bundles, images = machinery.places.bundles, machinery.images
    for name in _stray_names((path.name for path in bundles.iterdir()), known_ids):
        yield _Stray("the bundle", name, partial(remove_bundle, bundles / name))
    for name in _stray_names((path.name for path in images.snapshots.root.iterdir()), known_ids):
        yield _Stray("the root file system", name, partial(_remove_root, images, name))


def _remove_root(images: ImageStore, name: str) -> None:
    """Kill the programs that copy files into a root file system, and remove it."""
    end_leftovers(images.snapshots.root / name)
    images.unmount(name)


def _pods(machinery: Machinery, known_ids: Collection[str]) -> Iterator[_Stray]:
    """Find networks, namespaces, files and cgroups of unknown pods."""
    places = machinery.places
    for name in _stray_names(machinery.cni.attached(), known_ids):
        yield _Stray("the network", name, partial(machinery.cni.delete, name))
    pods = {*machinery.network_namespaces.names(), *(path.name for path in places.pods.iterdir())}
    cgroups = Cgroups(v2=machinery.machine.cgroup_v2)
    for name in _stray_names(pods, known_ids):
        yield _Stray("the namespaces", name, partial(machinery.namespaces.remove, name, places.pod(name)))
        yield _Stray("the folder", name, PodFiles(places.pod(name), pb.PodSandboxConfig(), "").remove)
        if not machinery.systemd_cgroup:
            yield _Stray("the cgroup", name, partial(cgroups.remove, machinery.pod_cgroup(name)))


def _stray_names(names: Iterable[str], known_ids: Collection[str]) -> list[str]:
    """Return the names that belong to unknown ids. A mounted image is named by its container's id and a number."""
    return sorted(name for name in names if name.partition("-image")[0] not in known_ids)


# --- substitutes of lost records ---
# The values come from other files and from the kernel: the annotations of the container's OCI spec name its pod, and
# cgroups are found by their names. Until a client removes it, a substitute container is in the state unknown, and a
# substitute pod is not ready.


def lost_container(identity: str, complaint: str, machinery: Machinery, cgroups: Cgroups) -> ContainerRecord:
    """Create a substitute for a container's record. `pod_id` is "" if the pod is not known.

    `complaint` becomes the container's message.
    """
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
    """Create a substitute for a pod's record. The name and the cgroup come from the pod's containers."""
    cgroup = _cgroup(cgroups, identity)
    parents = [posixpath.dirname(path) for path in (cgroup, *(row.cgroup_path for row in containers)) if path]
    default_parent = machinery.pod_cgroup(identity)
    metadata: dict[str, str] = {}
    for container in containers:
        annotations = _annotations(machinery, container.id)
        for key in ("name", "namespace", "uid"):
            metadata.setdefault(key, annotations.get(f"{_KEY}sandbox-{key}", ""))
    metadata["name"] = metadata.get("name") or identity
    parent = parents[0] if parents else default_parent
    bundle = machinery.places.bundle(identity)
    return PodRecord(
        id=identity,
        name=identity,
        # A client that named the cgroup also removes it.
        config={"metadata": metadata, "linux": {"cgroup_parent": "" if parent == default_parent else parent}},
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
    """Return the string annotations of a bundle's spec, or {} if the spec cannot be read."""
    try:
        rows: Any = read_spec(machinery.places.bundle(identity)).get("annotations")
    except (OSError, ValueError):
        return {}
    if not isinstance(rows, dict):
        return {}
    return {key: text for key, text in rows.items() if isinstance(text, str) and text.isascii() and text.isprintable()}


def _handler(machinery: Machinery, identity: str) -> str:
    """Return the handler whose OCI runtime has state of the container, otherwise the default handler."""
    handlers = [name for name in machinery.config.runtimes if (machinery.places.runtime(name) / identity).exists()]
    return handlers[0] if handlers else machinery.config.default_runtime


def _cgroup(cgroups: Cgroups, identity: str) -> str:
    """Return the container's cgroup, or "" if it has no cgroup."""
    paths = [path for path in cgroups.find(identity) if not posixpath.basename(path).startswith("conmon-")]
    return paths[0] if paths else ""
