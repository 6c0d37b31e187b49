"""The steps that make a pod, each with its undo, in the order in which they are done.

Next: :mod:`nri.engine.calls.pod_creation`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.images.mapping import open_way
from nri.engine.lifecycle.bundles import remove_bundle
from nri.engine.lifecycle.exit_handler import ExitHandler
from nri.engine.lifecycle.holder import PROGRAM, holder_spec, make_root
from nri.engine.lifecycle.inventory import PodEntry, write_spec
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.pod_files import PodFiles
from nri.engine.lifecycle.processes import Processes
from nri.engine.lifecycle.undo import Step
from nri.engine.network import PortMapping, find_network
from nri.engine.process import send
from nri.engine.spec import Options, Pod, pod_spec, pod_sysctls
from nri.engine.spec.namespaces import FIELD, id_mappings
from nri.engine.spec.resources import cgroups_path
from nri.engine.state import PodRecord
from nri.engine.support.errors import EngineError
from nri.errors import RequestError
from nri.files import private_folder

__all__ = ["PodSteps"]

#: How long the kernel has for SIGKILL, in seconds, before the runtime is asked.
_END_S = 2.0
_log = logging.getLogger(__name__)


class PodSteps:
    """Makes the parts of pods and takes them back; the end of what holds a pod is `exit_handler`'s to tell."""

    def __init__(self, machinery: Machinery, processes: Processes, exit_handler: ExitHandler) -> None:
        self._machinery, self._processes, self._exit_handler = machinery, processes, exit_handler
        self._places = machinery.places

    def prepare(self, record: PodRecord, config: pb.PodSandboxConfig) -> None:
        """Decide what a pod is going to be, before anything is made. Raises RequestError."""
        options = config.linux.security_context.namespace_options
        if id_mappings(options):
            for field in ("network", "ipc", "pid"):
                if getattr(options, field) == pb.NODE:
                    raise RequestError(f"{FIELD}.{field}", "NODE", "cannot be shared by a pod whose ids are mapped")
        for field in ("network", "ipc", "pid"):
            if getattr(options, field) not in (pb.POD, pb.NODE, *((pb.CONTAINER,) if field == "pid" else ())):
                raise RequestError(f"{FIELD}.{field}", getattr(options, field), "is not a mode of a pod")
        record.cgroup_parent = config.linux.cgroup_parent or self._machinery.pod_cgroup(record.id)
        self._cgroup(record)
        record.cgroup_path = record.cgroup_parent
        record.hostname = (
            self._machinery.machine.hostname
            if options.network == pb.NODE
            else config.hostname or self._machinery.machine.hostname
        )

    def of(self, pod: PodEntry, *, only_running: bool = False) -> list[Step]:
        """The steps of a pod, or those that are taken back when it stops."""
        steps = [
            Step("folders", lambda: self._make_folders(pod), lambda: self._remove_folders(pod)),
            Step("namespaces", lambda: self._make_namespaces(pod), lambda: self._remove_namespaces(pod)),
            Step("network", lambda: self._attach(pod), lambda: self._detach(pod)),
            Step("files", lambda: self.files(pod).make(pod.record.ips), lambda: self.files(pod).release()),
            Step("holder", lambda: self._hold(pod), lambda: self.stop_holder(pod)),
        ]
        return steps[1:] if only_running else steps

    def files(self, pod: PodEntry) -> PodFiles:
        """The files that the pod's containers share."""
        return PodFiles(self._places.pod(pod.id), pod.config, pod.record.hostname, dry=self._machinery.dry)

    def spec_pod(self, pod: PodEntry) -> Pod:
        """The pod as specs of its containers need it."""
        config = pb.PodSandboxConfig()
        config.CopyFrom(pod.config)
        config.linux.cgroup_parent = pod.record.cgroup_parent
        return Pod(pod.id, config, pod.record.namespace_paths, self.files(pod).mounts())

    # --- folders ---

    def _make_folders(self, pod: PodEntry) -> None:
        private_folder(self._places.pod(pod.id))
        if pod.record.log_directory:
            Path(pod.record.log_directory).mkdir(parents=True, exist_ok=True)

    def _remove_folders(self, pod: PodEntry) -> None:
        self.files(pod).remove()
        if not self._machinery.systemd_cgroup and not pod.config.linux.cgroup_parent:
            self._processes.cgroups.remove(pod.record.cgroup_parent)

    # --- namespaces ---

    def _make_namespaces(self, pod: PodEntry) -> None:
        options = pod.config.linux.security_context.namespace_options
        kinds = {kind for kind in ("network", "ipc") if getattr(options, kind) == pb.POD}
        if "network" in kinds:
            kinds.add("uts")
        folder, record = self._places.pod(pod.id), pod.record
        record.namespace_paths = self._machinery.namespaces.make(
            pod.id, folder, kinds, record.hostname, pod_sysctls(pod.config), id_mappings(options)
        )

    def _remove_namespaces(self, pod: PodEntry) -> None:
        self._machinery.namespaces.remove(pod.id, self._places.pod(pod.id))

    # --- network ---

    def _attach(self, pod: PodEntry) -> None:
        record, config = pod.record, pod.config
        if "network" not in record.namespace_paths or self._machinery.dry:
            return
        folder = self._machinery.config.network.config_dir
        network, complaints = find_network(folder)
        if network is None:
            raise EngineError(f"there is no network for pods: {'; '.join(complaints)}")
        arguments = {
            "K8S_POD_NAMESPACE": record.namespace,
            "K8S_POD_NAME": config.metadata.name,
            "K8S_POD_INFRA_CONTAINER_ID": pod.id,
            "K8S_POD_UID": record.uid,
        }
        attached = self._machinery.cni.add(
            network,
            pod.id,
            Path(record.namespace_paths["network"]),
            arguments=arguments,
            ports=[_port(row) for row in config.port_mappings],
            **self._capabilities(pod),
        )
        record.network, record.ips = attached.result, list(attached.addresses)

    def _capabilities(self, pod: PodEntry) -> dict[str, Any]:
        dns = {key: [*getattr(pod.config.dns_config, key)] for key in ("servers", "searches", "options")}
        return {
            "dns": {key: value for key, value in dns.items() if value},
            "cgroup_path": pod.record.cgroup_parent,
            "pod_annotations": dict(pod.config.annotations),
        }

    def _detach(self, pod: PodEntry) -> None:
        self._machinery.cni.delete(pod.id)

    # --- the process that holds it ---

    def _hold(self, pod: PodEntry) -> None:
        """Start a process in a new process namespace, if the pod's containers are to share one."""
        if pod.config.linux.security_context.namespace_options.pid != pb.POD:
            return
        record = pod.record
        bundle = private_folder(self._places.bundle(pod.id))
        record.bundle = str(bundle)
        if mapped := id_mappings(pod.config.linux.security_context.namespace_options):
            open_way(bundle, mapped["gidMappings"][0]["hostID"])
        machinery = self._machinery
        options = Options(
            pod.id,
            str(make_root(bundle)),
            machine=machinery.machine_of(record.runtime_handler),
            localhost_seccomp=machinery.seccomp(pod.config.linux.security_context),
            systemd_cgroup=machinery.systemd_cgroup,
        )
        spec = pod_spec(pod.id, self.spec_pod(pod).config, [PROGRAM], options).spec
        write_spec(bundle, holder_spec(spec, record.namespace_paths))
        runtime = machinery.runtime(record.runtime_handler)
        created = machinery.conmon.create(
            runtime, pod.id, bundle, place=self._processes.place(record.cgroup_parent, pod.id)
        )
        record.pid, record.conmon_pid = created
        runtime.start(pod.id)
        pinned = machinery.namespaces.pin(self._places.pod(pod.id), "pid", created.pid)
        record.namespace_paths = {**record.namespace_paths, "pid": pinned}
        record.cgroup_path = self._cgroup(record)
        self._exit_handler.watch(pod)

    def stop_holder(self, pod: PodEntry) -> None:
        """End the process of a pod, if it has one, with its bundle. Raises EngineError."""
        bundle, record = self._places.bundle(pod.id), pod.record
        if not bundle.exists() and not record.bundle:
            return
        self._exit_handler.forget(pod.id)
        # A runtime that has to kill it looks whether it has ended ten times a second.
        send(bundle, pod.id, record.pid, "KILL", _END_S)
        self._processes.clear(pod.id, record.runtime_handler, record.cgroup_parent, self._cgroup(record))
        remove_bundle(bundle)
        record.bundle = ""

    def _cgroup(self, record: PodRecord) -> str:
        return cgroups_path(record.cgroup_parent, record.id, systemd=self._machinery.systemd_cgroup)


def _port(row: pb.PortMapping) -> PortMapping:
    protocol = pb.Protocol.Name(row.protocol).lower()
    return PortMapping(row.host_port, row.container_port, protocol, row.host_ip)
