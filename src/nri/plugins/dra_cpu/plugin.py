"""`dra-cpu`: a driver of dynamic resource allocation that gives pods whole CPUs, and pins containers to them.

Schedulers allocate the CPUs of the node's ResourceSlices to claims. The kubelet prepares a claim before the containers
start; the plugin then pins the containers of the claim's pods to its CPUs, and all others to the remaining CPUs.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import nri
from nri.api import cpuset
from nri.config.kubelet import pinning
from nri.errors import ConfigError, NriError
from nri.host import Root, read_topology
from nri.plugins.dra_cpu.claims import (
    DNS_NAME,
    MAX_NAME,
    ClaimError,
    ClaimStore,
    PreparedClaim,
    allocated_cpus,
    check_names,
)
from nri.stub.program.options import Flag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nri.host.topology import Topology
    from nri.kube.client import Apiserver
    from nri.plugins.dra_cpu.kubelet import KubeletSockets
    from nri.plugins.dra_cpu.pb.dra import api_pb2 as dra
    from nri.plugins.dra_cpu.slices import Publisher

#: Kubernetes' limit for the name of a driver.
_MAX_DRIVER = 63
#: Loaded before the plugin connects, because a busy machine takes longer for them than runtimes wait for Configure.
_EXTRAS = ("nri.plugins.dra_cpu.kubelet", "nri.plugins.dra_cpu.slices", "lightkube.config.client_adapter")
_RETRY_S = 5.0
#: A container whose update fails this often is not pinned any more. Runtimes do not report containers that they could
#: not create.
_MAX_FAILURES = 5


@dataclass(slots=True)
class _Container:
    """A container that runs or is being created.

    Attributes:
        cpus: the CPUs of its claims; empty for a container without claims.
        applied: the CPUs that the runtime has accepted, or "" if this plugin has not set them.
    """

    label: str
    cpus: frozenset[int]
    applied: str = ""
    failures: int = 0


class DraCpu(nri.Plugin):
    """Allocate whole CPUs to pods by claims of dynamic resource allocation (DRA), and pin containers to them."""

    name = "dra-cpu"
    sets = ("linux.resources.cpu.cpus",)
    flags: ClassVar[Mapping[str, Flag]] = {
        "kubeconfig": Flag("kubeconfig", "FILE", "kubeconfig of the API server (default: the pod's service account)"),
        "node": Flag("node", "NAME", "the node's name (default: NODE_NAME in the environment, then the host's name)"),
        "reserved": Flag("reserved", "CPUS", "CPUs that are never allocated to claims (default 0)"),
        "kubelet-dir": Flag("kubeletDir", "DIR", "the kubelet's folder (default /var/lib/kubelet)"),
        "cdi-dir": Flag("cdiDir", "DIR", "a folder in which the runtime looks for CDI files (default /var/run/cdi)"),
        "host-root": Flag("hostRoot", "DIR", "where the node's root is (default /)"),
    }

    class Config:
        """Keys of the configuration, which cannot change while the plugin runs.

        Attributes:
            driver: the driver's name in slices, device classes and claims.
        """

        driver: str = "dra-cpu.nri.io"
        kubeconfig: str = ""
        node: str = ""
        reserved: str = "0"
        kubeletDir: str = "/var/lib/kubelet"
        cdiDir: str = "/var/run/cdi"
        hostRoot: str = "/"

        def __post_init__(self) -> None:
            if len(self.driver) > _MAX_DRIVER or DNS_NAME.fullmatch(self.driver) is None:
                raise ValueError(f"driver must be a DNS name of at most {_MAX_DRIVER} characters, not {self.driver!r}")
            if self.node and (len(self.node) > MAX_NAME or DNS_NAME.fullmatch(self.node) is None):
                raise ValueError(f"node must be the name of a node, not {self.node[:64]!r}")
            try:
                cpuset.parse(self.reserved)
            except ValueError as error:
                raise ValueError(f"reserved: {error}") from None

    config: Config

    def __init__(self) -> None:
        for module in _EXTRAS:
            with suppress(ImportError):  # `_connect` reports it
                import_module(module)
        self._lock = threading.Lock()
        #: Held while the runtime applies updates. Handlers of events must not wait for it, or the two would deadlock.
        self._pin_lock = threading.Lock()
        self._start_config: DraCpu.Config | None = None
        self._containers: dict[str, _Container] = {}
        self._topology: Topology
        self._offered_cpus = frozenset[int]()
        self._node = ""
        self._store: ClaimStore
        self._api: Apiserver
        self._publisher: Publisher
        self._sockets: KubeletSockets | None = None

    # -- start and end ------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        source = self.config_source or "the configuration"
        if self._start_config is None:
            self._read_machine(self.config, source)
            self._start_config = self.config
        elif vars(self.config) != vars(self._start_config):
            raise ConfigError(source, "", "it cannot change while the plugin runs", "restart the plugin")
        if self._sockets is None:
            self._connect(self.config, source)

    def _read_machine(self, config: Config, source: str) -> None:
        """Read the machine and the checkpoint."""
        for manager in pinning(config.hostRoot):
            self.log.warning("%s: two programs that pin the same containers conflict; %s", manager, manager.next)
        self._topology = topology = read_topology(Root(config.hostRoot))
        reserved, online = cpuset.parse(config.reserved), cpuset.to_text(topology.online)
        self._offered_cpus = topology.online - reserved
        if not reserved & topology.online:
            reason = f"none of the CPUs {config.reserved!r} is online; containers without claims need a CPU"
            raise ConfigError(source, "reserved", reason, f"online: {online}")
        if not self._offered_cpus:
            raise ConfigError(source, "reserved", "no CPU is left for claims", f"online: {online}")
        self._node = config.node or os.environ.get("NODE_NAME", "") or socket.gethostname().lower()
        folder = Path(config.kubeletDir, "plugins", config.driver)
        self._store = ClaimStore(folder / "claims.json", Path(config.cdiDir), config.driver)
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._store.load()
        except OSError as error:
            raise ConfigError(source, "kubeletDir", str(error)) from error
        if claimed := reserved & self._store.cpus:
            reason = f"claims still have the CPUs {cpuset.to_text(claimed)}"
            raise ConfigError(source, "reserved", reason, "delete their pods first, and then reserve these CPUs")

    def _connect(self, config: Config, source: str) -> None:
        """Connect to the API server, and register with the kubelet."""
        try:
            from nri.kube.client import connect
            from nri.plugins.dra_cpu.kubelet import KubeletSockets
            from nri.plugins.dra_cpu.slices import Publisher, devices
        except ImportError as error:
            raise NriError(f"dra-cpu requires the extra agent: {error}. Install: pip install 'nri[agent]'") from None
        self._api = connect(config.kubeconfig)
        try:
            self._sockets = KubeletSockets(config.kubeletDir, config.driver, self, self.log)
        except (OSError, RuntimeError) as error:
            self._api.close()
            raise ConfigError(source, "kubeletDir", str(error)) from error
        listed = devices(self._topology, self._offered_cpus)
        self._publisher = Publisher(self._api, config.driver, self._node, listed, self.log)
        self._publisher.start()

    def closed(self) -> None:
        """Leave the kubelet until the runtime is connected again, because containers cannot be pinned meanwhile."""
        sockets, self._sockets = self._sockets, None
        if sockets is not None:
            self._publisher.stop()
            sockets.stop()
            self._api.close()

    @nri.every(1.0)
    def publish(self) -> None:
        """Keep the slices in the API."""
        if self._sockets is not None:
            self._publisher.publish()

    # -- claims, called by the kubelet --------------------------------------------------------------------------------

    def prepare(self, namespace: str, name: str, uid: str) -> Iterable[dra.Device]:
        """Prepare a claim, again if necessary, and return its devices."""
        from nri.kube.client.objects import RESOURCE_CLAIMS
        from nri.plugins.dra_cpu.pb.dra import api_pb2 as dra

        check_names(namespace, name, uid)
        if not self.runtime.connected:
            raise ClaimError("the plugin has no connection to the container runtime, so it cannot pin containers")
        with self._lock:
            claim = self._store.claims.get(uid)
            if claim is not None:
                self._store.write_cdi(claim)
        if claim is None:
            document = self._api.get(RESOURCE_CLAIMS, RESOURCE_CLAIMS.object_path(namespace, name))
            if document["metadata"].get("uid") != uid:
                raise ClaimError("it was deleted, and another claim has its name now")
            cpus = allocated_cpus(document, self.config.driver, self._node, self._offered_cpus)
            claim = PreparedClaim(uid, namespace, name, cpus)
            with self._lock:
                self._store.add(claim)
            self.log.info("%s has the CPUs %s", claim, cpuset.to_text(cpus))
            self.pin()
        return [
            dra.Device(
                request_names=claim.cpus[cpu], pool_name=self._node, device_name=f"cpu-{cpu}", cdi_device_ids=[device]
            )
            for cpu, device in self._store.device_ids(claim).items()
        ]

    def unprepare(self, namespace: str, name: str, uid: str) -> None:
        """Release a claim. A claim that is not prepared is not an error."""
        check_names(namespace, name, uid)
        with self._lock:
            released = self._store.remove(uid)
        if released:
            self.log.info("claim %s/%s is released", namespace, name)
            self.pin()

    # -- containers ---------------------------------------------------------------------------------------------------

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> list[nri.Update]:
        namespace_by_pod = {pod.id: pod.namespace for pod in pods}
        with self._lock:
            self._containers = {}
            for container in containers:
                namespace = namespace_by_pod.get(container.pod_sandbox_id, "")
                label = f"{namespace}/{container.name}"
                try:
                    cpus = self._store.container_cpus(namespace, container.env)
                except ClaimError as error:
                    self.log.warning("container %s: %s; it gets the shared CPUs", label, error)
                    cpus = frozenset()
                entry = _Container(label, cpus)
                if self._store.restricted:  # otherwise another program has set the CPUs
                    entry.applied = container.linux.resources.cpu.cpus
                self._containers[container.id] = entry
            updates = self._changes()
            for update in updates:
                self._containers[update.message.container_id].applied = update.message.linux.resources.cpu.cpus
        return updates

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        with self._lock:
            try:
                cpus = self._store.container_cpus(pod.namespace, container.env)
            except ClaimError as error:
                raise nri.Reject(str(error)) from None
            entry = _Container(f"{pod.namespace}/{pod.name}/{container.name}", cpus)
            self._containers[container.id] = entry
            if not cpus and not self._store.claims:
                return None
            entry.applied = self._target(entry)
        if cpus:
            self.log.info("%s has the CPUs %s", entry.label, entry.applied)
        return nri.Adjustment().set_cpuset_cpus(entry.applied)

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        with self._lock:
            self._containers.pop(container.id, None)

    remove_container = stop_container

    @nri.every(_RETRY_S)
    def pin(self) -> None:
        """Update containers whose CPUs have changed, and wait for the runtime."""
        with self._pin_lock:
            with self._lock:
                updates = self._changes()
            failed = self._send(updates) if updates else set()
            with self._lock:
                if self._store.restricted and not self._store.claims and not failed:
                    self._store.restricted = False
                    self._store.save()

    def _send(self, updates: list[nri.Update]) -> set[str]:
        """Send updates. Returns the ids of the containers whose update failed."""
        targets = {update.message.container_id: update.message.linux.resources.cpu.cpus for update in updates}
        try:
            failed = {update.message.container_id for update in self.runtime.update(updates).result()}
        except NriError as error:
            self.log.warning("%d containers are not pinned yet: %s", len(updates), error)
            return set(targets)
        with self._lock:
            for name, target in targets.items():
                container = self._containers.get(name)
                if container is None:  # it has stopped meanwhile
                    failed.discard(name)
                elif name not in failed:
                    container.applied, container.failures = target, 0
                else:
                    container.failures += 1
                    if container.failures >= _MAX_FAILURES:
                        self.log.warning("%s cannot be moved to the CPUs %s", container.label, target)
                        del self._containers[name]
                        failed.discard(name)
        return failed

    def _changes(self) -> list[nri.Update]:
        """Updates for the containers that are not on their CPUs."""
        return [
            nri.Update(name).set_cpuset_cpus(target)
            for name, container in self._containers.items()
            if (target := self._target(container)) != container.applied
        ]

    def _target(self, container: _Container) -> str:
        """The CPUs of a container, or "" if this plugin need not set them."""
        if container.cpus:
            return cpuset.to_text(container.cpus)
        if not self._store.claims and not container.applied:
            return ""
        return cpuset.to_text(self._topology.online - self._store.cpus)


if __name__ == "__main__":
    DraCpu.main()
