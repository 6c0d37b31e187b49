"""RunPodSandbox: pinned namespaces, shared files, a network, and a process if containers share a process namespace.

Each step of :class:`PodSteps` has an undo, which also succeeds if the step was not run. So a failed creation, a stop, a
removal and a restart of the engine use the same undos.
"""

from __future__ import annotations

import logging
import os
import platform
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call
from nri.engine.images.mapping import allow_traversal
from nri.engine.lifecycle.inventory import PodEntry, to_json, write_spec
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.parts import Parts
from nri.engine.lifecycle.places import remove_bundle
from nri.engine.lifecycle.undo import Step, Undo
from nri.engine.network import PortMapping, bandwidth_limits, find_networks
from nri.engine.process import send
from nri.engine.spec import Options, Pod, check_pod, pod_spec, pod_sysctls
from nri.engine.spec.namespaces import FIELD, check_modes, id_mappings
from nri.engine.spec.resources import cgroups_path
from nri.engine.state import PodRecord
from nri.engine.state.names import new_id, pod_name
from nri.engine.support.annotations import passed_annotations
from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import is_mount_point, mount, unmount
from nri.engine.support.sysctls import Sysctl
from nri.errors import RequestError
from nri.files import private_folder, remove_tree

_log = logging.getLogger(__name__)

#: How long a killed pause process may take to end before the OCI runtime is called.
_KILL_S = 2.0
#: The size of a pod's shared memory.
_SHM_BYTES = 64 << 20
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
#: The files that the engine writes for each pod: path in the container, name in the pod's folder.
_POD_FILES = {"/etc/hosts": "hosts", "/etc/hostname": "hostname", "/etc/resolv.conf": "resolv.conf"}
_SHM = "/dev/shm"  # noqa: S108  its path in every container


class PodCreation:
    """Creates pods."""

    def __init__(self, parts: Parts, steps: PodSteps) -> None:
        self._inventory, self._machinery = parts.inventory, parts.machinery
        self._domain, self._events, self._steps = parts.domain, parts.events, steps

    def run_pod_sandbox(self, request: pb.RunPodSandboxRequest, call: Call) -> pb.RunPodSandboxResponse:
        """Create a pod, and return its id."""
        return pb.RunPodSandboxResponse(pod_sandbox_id=self.run(request.config, request.runtime_handler))

    def run(self, config: pb.PodSandboxConfig, handler: str = "") -> str:
        """Create and start a pod, and return its id. If a step fails, all steps are undone.

        Raises RequestError if the request is invalid, and NriError if a step fails or a plugin rejects the pod.
        """
        pod = self._new_entry(config, handler)
        with pod.request_lock, Undo(f"pod {pod.id}") as undo:
            undo.step("record", lambda: self._inventory.add(pod), lambda: self._inventory.drop(pod))
            for step in self._steps.of(pod):
                undo.step(*step)
            with self._domain.block():
                undo.step("NRI", lambda: self._domain.run_pod(pod), lambda: self._domain.remove_pod(pod))
                steps = [step.name for step in self._steps.of(pod)]
                self._inventory.move_pod(pod, "finish creation", sync=True, done=steps, created_at_ns=time.time_ns())
        self._events.publish(pod, pb.CONTAINER_CREATED_EVENT)
        self._events.publish(pod, pb.CONTAINER_STARTED_EVENT)
        return pod.id

    def _new_entry(self, config: pb.PodSandboxConfig, handler: str) -> PodEntry:
        """Return the entry of a new pod. Raises RequestError if the configuration is invalid."""
        metadata, runtime_handler = config.metadata, self._machinery.handler(handler)
        check_pod(config)
        pod_sysctls(config)
        record = PodRecord(
            id=new_id(),
            name=pod_name(metadata.name, metadata.namespace, metadata.uid, metadata.attempt),
            attempt=metadata.attempt,
            labels=dict(config.labels),
            annotations=dict(config.annotations),
            config=to_json(config),
            created_at_ns=time.time_ns(),
            namespace=metadata.namespace,
            uid=metadata.uid,
            runtime_handler=runtime_handler,
            requested_handler=handler,
            log_directory=config.log_directory,
        )
        self._steps.prepare(record, config)
        return PodEntry(record)


class PodSteps:
    """The steps that create a pod, in order, each with its undo."""

    def __init__(self, parts: Parts) -> None:
        self._processes, self._exit_handler = parts.processes, parts.exit_handler
        self._inventory = parts.inventory
        self._machinery: Machinery = parts.machinery
        self._places = parts.machinery.places

    def prepare(self, record: PodRecord, config: pb.PodSandboxConfig) -> None:
        """Set the cgroups and the host name in a record. Raises RequestError if the request is invalid."""
        options = config.linux.security_context.namespace_options
        if id_mappings(options):
            for field in ("ipc", "pid"):
                if getattr(options, field) == pb.NODE:
                    raise RequestError(
                        f"{FIELD}.{field}", "NODE", "must not be shared with the node by a pod with ID mappings"
                    )
        check_modes(options)
        record.cgroup_parent = config.linux.cgroup_parent or self._machinery.pod_cgroup(record.id)
        self._cgroup(record)
        record.cgroup_path = record.cgroup_parent
        record.hostname = (
            self._machinery.machine.hostname
            if options.network == pb.NODE
            else config.hostname or self._machinery.machine.hostname
        )

    def of(self, pod: PodEntry, *, only_running: bool = False) -> list[Step]:
        """Return the steps of a pod. With `only_running`, return only the steps that a stop of the pod undoes."""
        steps = [
            Step("folders", lambda: self._make_folders(pod), lambda: self._remove_folders(pod)),
            Step("namespaces", lambda: self._make_namespaces(pod), lambda: self._remove_namespaces(pod)),
            Step("network", lambda: self._attach(pod), lambda: self._detach(pod)),
            Step("files", lambda: self.files(pod).write(pod.record.ips), lambda: self.files(pod).release()),
            Step("holder", lambda: self._hold_processes(pod), lambda: self.stop_pause_process(pod)),
        ]
        return steps[1:] if only_running else steps

    def files(self, pod: PodEntry) -> PodFiles:
        """Return the files that the pod's containers share."""
        return PodFiles(self._places.pod(pod.id), pod.config, pod.record.hostname, dry=self._machinery.dry)

    def spec_pod(self, pod: PodEntry) -> Pod:
        """Return the values of a pod that its containers' specs use."""
        config = pb.PodSandboxConfig()
        config.CopyFrom(pod.config)
        config.linux.cgroup_parent = pod.record.cgroup_parent
        config.hostname = pod.record.hostname
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
        kinds = {kind for kind in ("network", "ipc") if getattr(options, kind) != pb.NODE}
        if "network" in kinds:
            kinds.add("uts")
        folder, record = self._places.pod(pod.id), pod.record
        record.namespace_paths = self._machinery.namespaces.make(
            pod.id, folder, kinds, record.hostname, self._sysctls(pod.config), id_mappings(options)
        )

    def _sysctls(self, config: pb.PodSandboxConfig) -> list[Sysctl]:
        return pod_sysctls(config, self._machinery.config.containers.sysctls())

    def _remove_namespaces(self, pod: PodEntry) -> None:
        self._machinery.namespaces.remove(pod.id, self._places.pod(pod.id))

    # --- network ---

    def _attach(self, pod: PodEntry) -> None:
        record, config = pod.record, pod.config
        if "network" not in record.namespace_paths or self._machinery.dry:
            return
        settings = self._machinery.config.network
        networks, complaints = find_networks(settings.config_dir, settings.max_conf_num)
        if not networks:
            raise EngineError(f"no network for pods is configured: {'; '.join(complaints)}")
        arguments = {
            "K8S_POD_NAMESPACE": record.namespace,
            "K8S_POD_NAME": config.metadata.name,
            "K8S_POD_INFRA_CONTAINER_ID": pod.id,
            "K8S_POD_UID": record.uid,
        }
        attached = self._machinery.cni.add(
            networks,
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
            "bandwidth": bandwidth_limits(pod.config.annotations),
        }

    def _detach(self, pod: PodEntry) -> None:
        self._machinery.cni.delete(pod.id)

    # --- the pause process, which keeps the pod's process namespace alive ---

    def _hold_processes(self, pod: PodEntry) -> None:
        """Start the pause process if the pod requests one process namespace for all containers."""
        if pod.config.linux.security_context.namespace_options.pid == pb.POD:
            self._start_pause_process(pod)

    def share_processes(self, pod: PodEntry, config: pb.ContainerConfig) -> None:
        """Start the pause process if a container requests the pod's process namespace and it does not exist yet."""
        modes = [message.linux.security_context.namespace_options.pid for message in (config, pod.config)]
        asks = config.linux.security_context.HasField("namespace_options") and modes[0] == pb.POD
        if not asks or modes[1] == pb.NODE or "pid" in pod.record.namespace_paths:
            return
        with Undo(f"pod {pod.id}") as undo:
            undo.step("holder", lambda: self._start_pause_process(pod), lambda: self.stop_pause_process(pod))
            self._inventory.put(pod)

    def _start_pause_process(self, pod: PodEntry) -> None:
        """Start the pause process in a new process namespace, and pin the namespace."""
        record = pod.record
        bundle = private_folder(self._places.bundle(pod.id))
        record.bundle = str(bundle)
        if mappings := id_mappings(pod.config.linux.security_context.namespace_options):
            allow_traversal(bundle, mappings["gidMappings"][0]["hostID"], self._places.outermost)
        machinery = self._machinery
        options = Options(
            pod.id,
            str(pause_root(bundle)),
            machine=machinery.machine_of(record.runtime_handler),
            localhost_seccomp=machinery.seccomp(pod.config.linux.security_context),
            default_seccomp=machinery.default_seccomp(record.runtime_handler),
            annotations=passed_annotations(
                pod.config.annotations, machinery.config.runtimes[record.runtime_handler].pod_annotations
            ),
            systemd_cgroup=machinery.systemd_cgroup,
        )
        spec = pod_spec(pod.id, self.spec_pod(pod).config, [PAUSE_PROGRAM], options).spec
        write_spec(bundle, pause_spec(spec, record.namespace_paths))
        runtime = machinery.runtime(record.runtime_handler)
        created = machinery.conmon.create(
            runtime, pod.id, bundle, move_to_cgroup=self._processes.place(record.cgroup_parent, pod.id)
        )
        record.pid, record.conmon_pid = created
        runtime.start(pod.id)
        pinned = machinery.namespaces.pin(self._places.pod(pod.id), "pid", created.pid)
        record.namespace_paths = {**record.namespace_paths, "pid": pinned}
        record.cgroup_path = self._cgroup(record)
        self._exit_handler.watch(pod)

    def stop_pause_process(self, pod: PodEntry) -> None:
        """Kill the pod's pause process if it exists, and remove its bundle. Raises EngineError if that fails."""
        bundle, record = self._places.bundle(pod.id), pod.record
        if not bundle.exists() and not record.bundle:
            return
        self._exit_handler.forget(pod.id)
        # This is faster than the OCI runtime, which checks only ten times a second whether a process has ended.
        send(bundle, pod.id, record.pid, "KILL", _KILL_S)
        self._processes.clear(pod.id, record.runtime_handler, record.cgroup_parent, self._cgroup(record))
        remove_bundle(bundle)
        record.bundle = ""

    def _cgroup(self, record: PodRecord) -> str:
        return cgroups_path(record.cgroup_parent, record.id, systemd=self._machinery.systemd_cgroup)


def _port(row: pb.PortMapping) -> PortMapping:
    protocol = pb.Protocol.Name(row.protocol).lower()
    return PortMapping(row.host_port, row.container_port, protocol, row.host_ip)


class PodFiles:
    """The files that all containers of one pod share: hosts, hostname, resolv.conf, and shared memory.

    A pod on the node's network gets a copy of the node's /etc/hosts. A pod without DNS settings gets a copy of the
    node's /etc/resolv.conf. The shared memory is a separate file system, unless the pod shares the node's IPC
    namespace. With `dry`, shared memory is not mounted.
    """

    def __init__(self, folder: Path, config: pb.PodSandboxConfig, hostname: str, *, dry: bool = False) -> None:
        self._folder, self._config, self._hostname, self._dry = folder, config, hostname, dry
        self._options = config.linux.security_context.namespace_options
        mappings = id_mappings(self._options)
        #: The IDs of the pod's root user and root group on the node.
        self._owner = (
            (mappings["uidMappings"][0]["hostID"], mappings["gidMappings"][0]["hostID"]) if mappings else (-1, -1)
        )

    def write(self, ips: Sequence[str]) -> None:
        """Write the files with the pod's addresses, and mount the shared memory. Raises OSError if that fails."""
        on_node = self._options.network == pb.NODE
        texts = {
            "hosts": _read("/etc/hosts") if on_node else hosts_text(self._hostname, ips),
            "hostname": f"{self._hostname}\n",
            "resolv.conf": resolv_text(self._config.dns_config) or _read("/etc/resolv.conf"),
        }
        for name, text in texts.items():
            path = self._folder / name
            path.write_bytes(text.encode(errors="surrogateescape"))  # the node's file may have another encoding
            path.chmod(0o644)
            os.chown(path, *self._owner)
        shm = self._folder / "shm"
        if self._options.ipc != pb.NODE and not self._dry and not is_mount_point(shm):
            shm.mkdir(exist_ok=True)
            flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
            uid, gid = (max(number, 0) for number in self._owner)
            mount("shm", shm, "tmpfs", flags, f"mode=1777,size={_SHM_BYTES},uid={uid},gid={gid}")

    def mounts(self) -> dict[str, str]:
        """Return the host path of each file by its path in the container."""
        sources = {inside: str(self._folder / name) for inside, name in _POD_FILES.items()}
        sources[_SHM] = _SHM if self._options.ipc == pb.NODE else str(self._folder / "shm")
        return sources

    def release(self) -> None:
        """Unmount the shared memory. Raises OSError if that fails."""
        while not self._dry and unmount(self._folder / "shm", lazily=True):
            pass

    def remove(self) -> None:
        """Remove the folder. Raises OSError if that fails, for example because of a mount in it."""
        self.release()
        remove_tree(self._folder)


def hosts_text(hostname: str, ips: Sequence[str]) -> str:
    """Return the /etc/hosts of a pod with its own network."""
    rows = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    if hostname:
        rows += [f"{ip}\t{hostname}" for ip in ips]
    return "\n".join(rows) + "\n"


def resolv_text(dns: pb.DNSConfig) -> str:
    """Return the /etc/resolv.conf of a pod, or "" if the pod has no DNS settings."""
    rows = [f"nameserver {server}" for server in dns.servers]
    if dns.searches:
        rows.insert(0, f"search {' '.join(dns.searches)}")
    if dns.options:
        rows.append(f"options {' '.join(dns.options)}")
    return "\n".join(rows) + "\n" if rows else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="surrogateescape")
    except OSError:
        return ""  # the node has no such file


# --- the pause process ---
# A program of about 190 bytes that only waits, so that a pod needs no pause image. The OCI runtime runs it like a
# container, in the pod's namespaces. The program ignores SIGCHLD, so that the kernel reaps orphaned processes of the
# pod. Only SIGKILL ends the program.

PAUSE_PROGRAM = "/pause"
_BASE, _HEADERS = 0x400000, 64 + 56
#: ELF's number of each machine, and the code: rt_sigaction(SIGCHLD, action, NULL, 8), then wait forever. The action
#: follows the code: SIG_IGN with SA_NOCLDWAIT.
_CODE = {
    "x86_64": (62, bytes.fromhex(
        "b80d000000 bf11000000 488d3513000000 31d2 41ba08000000 0f05"  # rt_sigaction is 13, SIGCHLD 17
        "b822000000 0f05 ebf7"  # pause is 34; loop
    )),
    "aarch64": (183, struct.pack(
        "<13I",
        0xD2800220, 0x10000181, 0xD2800002, 0xD2800103, 0xD28010C8, 0xD4000001,  # rt_sigaction is 134
        0xD2800000, 0xD2800001, 0xD2800002, 0xD2800003, 0xD2800928, 0xD4000001,  # ppoll of nothing, 73
        0x17FFFFFA,  # loop
    )),
}  # fmt: skip
_ACTION = struct.pack("<4Q", 1, 2, 0, 0)


def pause_program(architecture: str = "") -> bytes:
    """Return the pause program as an ELF file. Raises EngineError if the architecture is not supported."""
    architecture = architecture or platform.machine()
    if architecture not in _CODE:
        raise EngineError(f"pods cannot share a process namespace on {architecture}: there is no pause program for it")
    machine, code = _CODE[architecture]
    size = _HEADERS + len(code) + len(_ACTION)
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + code + _ACTION


def pause_root(bundle: Path) -> Path:
    """Create the root file system of a pause process in its bundle."""
    root = bundle / "rootfs"
    for name in ("proc", "dev", "sys"):
        (root / name).mkdir(parents=True, exist_ok=True)
    program = root / PAUSE_PROGRAM.lstrip("/")
    program.write_bytes(pause_program())
    program.chmod(0o555)
    root.chmod(0o755)
    return root


def pause_spec(spec: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """Return the spec of a pause process in the pod's pinned namespaces.

    Sysctls and host name are left out, because they were set when the namespaces were created.
    """
    result = {**spec, "linux": {**spec["linux"]}}
    result.pop("hostname", None)
    result["linux"].pop("sysctl", None)
    result["linux"]["namespaces"] = [
        {**row, "path": paths[row["type"]]} if row["type"] in paths else row for row in spec["linux"]["namespaces"]
    ]
    return result
