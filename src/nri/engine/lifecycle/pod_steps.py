"""The steps that make a pod, each with its undo, in the order in which they are done.

Next: :mod:`nri.engine.lifecycle.pods`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.images.mapping import open_way
from nri.engine.lifecycle.ends import Ends
from nri.engine.lifecycle.lives import PodLife, write_spec
from nri.engine.lifecycle.parts.cgroups import Cgroups
from nri.engine.lifecycle.parts.holder import PROGRAM, holder_spec, make_root
from nri.engine.lifecycle.parts.machinery import Machinery
from nri.engine.lifecycle.parts.pod_files import PodFiles
from nri.engine.lifecycle.parts.undo import Step
from nri.engine.network import PortMapping, find_network
from nri.engine.spec import Options, Pod, pod_spec, pod_sysctls
from nri.engine.spec.namespaces import FIELD, id_mappings
from nri.engine.spec.resources import cgroups_path
from nri.engine.state import PodRecord
from nri.engine.support.errors import EngineError
from nri.engine.support.files import private_folder, remove_tree
from nri.errors import RequestError

__all__ = ["PodSteps"]

_log = logging.getLogger(__name__)


class PodSteps:
    """Makes the parts of pods and takes them back; the end of what holds a pod is `ends`'s to tell."""

    def __init__(self, machinery: Machinery, ends: Ends) -> None:
        self._machinery, self._ends = machinery, ends
        self._places = machinery.places
        self.cgroups = Cgroups(v2=machinery.machine.cgroup_v2)

    def prepare(self, record: PodRecord, config: pb.PodSandboxConfig) -> None:
        """Decide what a pod is going to be, before anything is made. Raises RequestError."""
        options = config.linux.security_context.namespace_options
        if id_mappings(options):
            for field in ("network", "ipc", "pid"):
                if getattr(options, field) == pb.NODE:
                    raise RequestError(f"{FIELD}.{field}", "NODE", "cannot be shared by a pod whose ids are mapped")
        for field in ("network", "ipc", "pid"):
            if getattr(options, field) not in (pb.POD, pb.NODE, *((pb.CONTAINER,) if field == "pid" else ())):
                raise RequestError(f"{FIELD}.{field}", getattr(options, field), "is no mode of a pod")
        systemd = self._machinery.systemd_cgroup
        record.cgroup_parent = config.linux.cgroup_parent or self._machinery.pod_cgroup(record.id)
        cgroups_path(record.cgroup_parent, record.id, systemd=systemd)
        record.cgroup_path = record.cgroup_parent
        record.hostname = (
            self._machinery.machine.hostname
            if options.network == pb.NODE
            else config.hostname or self._machinery.machine.hostname
        )

    def of(self, life: PodLife, *, only_running: bool = False) -> list[Step]:
        """The steps of a pod, or those that are taken back when it stops."""
        steps = [
            Step("folders", lambda: self._make_folders(life), lambda: self._remove_folders(life)),
            Step("namespaces", lambda: self._make_namespaces(life), lambda: self._remove_namespaces(life)),
            Step("network", lambda: self._attach(life), lambda: self._detach(life)),
            Step("files", lambda: self.files(life).make(life.record.ips), lambda: self.files(life).release()),
            Step("holder", lambda: self._hold(life), lambda: self.stop_holder(life)),
        ]
        return steps[1:] if only_running else steps

    def files(self, life: PodLife) -> PodFiles:
        """The files that the pod's containers share."""
        return PodFiles(self._places.pod(life.id), life.config, life.record.hostname, dry=self._machinery.dry)

    def spec_pod(self, life: PodLife) -> Pod:
        """The pod as specs of its containers need it."""
        config = pb.PodSandboxConfig()
        config.CopyFrom(life.config)
        config.linux.cgroup_parent = life.record.cgroup_parent
        return Pod(life.id, config, life.record.namespace_paths, self.files(life).mounts())

    # --- folders ---

    def _make_folders(self, life: PodLife) -> None:
        private_folder(self._places.pod(life.id))
        if life.record.log_directory:
            Path(life.record.log_directory).mkdir(parents=True, exist_ok=True)

    def _remove_folders(self, life: PodLife) -> None:
        self.files(life).remove()
        if not self._machinery.systemd_cgroup and not life.config.linux.cgroup_parent:
            self.cgroups.remove(life.record.cgroup_parent)

    # --- namespaces ---

    def _make_namespaces(self, life: PodLife) -> None:
        options = life.config.linux.security_context.namespace_options
        kinds = {kind for kind in ("network", "ipc") if getattr(options, kind) == pb.POD}
        if "network" in kinds:
            kinds.add("uts")
        folder, record = self._places.pod(life.id), life.record
        record.namespace_paths = self._machinery.namespaces.make(
            life.id, folder, kinds, record.hostname, pod_sysctls(life.config), id_mappings(options)
        )

    def _remove_namespaces(self, life: PodLife) -> None:
        self._machinery.namespaces.remove(life.id, self._places.pod(life.id))

    # --- network ---

    def _attach(self, life: PodLife) -> None:
        record, config = life.record, life.config
        if "network" not in record.namespace_paths or self._machinery.dry:
            return
        folder = self._machinery.config.network.config_dir
        network, complaints = find_network(folder)
        if network is None:
            raise EngineError(f"there is no network for pods: {'; '.join(complaints)}")
        arguments = {
            "K8S_POD_NAMESPACE": record.namespace,
            "K8S_POD_NAME": config.metadata.name,
            "K8S_POD_INFRA_CONTAINER_ID": life.id,
            "K8S_POD_UID": record.uid,
        }
        attached = self._machinery.cni.add(
            network,
            life.id,
            Path(record.namespace_paths["network"]),
            arguments=arguments,
            ports=[_port(row) for row in config.port_mappings],
            **self._capabilities(life),
        )
        record.network, record.ips = attached.result, list(attached.addresses)

    def _capabilities(self, life: PodLife) -> dict[str, Any]:
        dns = {key: [*getattr(life.config.dns_config, key)] for key in ("servers", "searches", "options")}
        return {
            "dns": {key: value for key, value in dns.items() if value},
            "cgroup_path": life.record.cgroup_parent,
            "pod_annotations": dict(life.config.annotations),
        }

    def _detach(self, life: PodLife) -> None:
        self._machinery.cni.delete(life.id)

    # --- the process that holds it ---

    def _hold(self, life: PodLife) -> None:
        """Start a process in a new process namespace, if the pod's containers are to share one."""
        if life.config.linux.security_context.namespace_options.pid != pb.POD:
            return
        record = life.record
        bundle = private_folder(self._places.bundle(life.id))
        record.bundle = str(bundle)
        if mapped := id_mappings(life.config.linux.security_context.namespace_options):
            open_way(bundle, mapped["gidMappings"][0]["hostID"])
        machinery = self._machinery
        options = Options(
            life.id,
            str(make_root(bundle)),
            machine=machinery.machine_of(record.runtime_handler),
            localhost_seccomp=machinery.seccomp(life.config.linux.security_context),
            systemd_cgroup=machinery.systemd_cgroup,
        )
        spec = pod_spec(life.id, self.spec_pod(life).config, [PROGRAM], options).spec
        write_spec(bundle, holder_spec(spec, record.namespace_paths))
        runtime = machinery.runtime(record.runtime_handler)
        created = machinery.conmon.create(runtime, life.id, bundle, place=self.place(record.cgroup_parent, life.id))
        record.pid, record.conmon_pid = created
        runtime.start(life.id)
        pinned = machinery.namespaces.pin(self._places.pod(life.id), "pid", created.pid)
        record.namespace_paths = {**record.namespace_paths, "pid": pinned}
        record.cgroup_path = cgroups_path(record.cgroup_parent, life.id, systemd=machinery.systemd_cgroup)
        self._ends.watch(life)

    def stop_holder(self, life: PodLife) -> None:
        """End the process of a pod, if it has one, with its bundle. Raises EngineError."""
        bundle = self._places.bundle(life.id)
        if not bundle.exists():
            return
        self._ends.forget(life.id)
        self._machinery.conmon.remove(self._machinery.runtime(life.record.runtime_handler), life.id, bundle)
        self.unplace(life.record.cgroup_parent, life.id)
        remove_tree(bundle)

    # --- conmon's cgroup ---

    def place(self, parent: str, identity: str) -> Callable[[int], None] | None:
        """Return a function that puts a conmon into its cgroup; None where systemd does that."""
        path = self._conmon_cgroup(parent, identity)
        return self.cgroups.place(path) if path else None

    def unplace(self, parent: str, identity: str) -> None:
        """Take a conmon's cgroup away, after its end."""
        self.cgroups.remove(self._conmon_cgroup(parent, identity))

    def _conmon_cgroup(self, parent: str, identity: str) -> str:
        if self._machinery.systemd_cgroup:
            return ""
        where = self._machinery.config.cgroups.conmon
        return f"{parent if where == 'pod' else where}/conmon-{identity}"


def _port(row: pb.PortMapping) -> PortMapping:
    protocol = pb.Protocol.Name(row.protocol).lower()
    return PortMapping(row.host_port, row.container_port, protocol, row.host_ip)
