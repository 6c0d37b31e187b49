"""CreateContainer: create the root file system, the OCI spec with plugin adjustments, and the waiting process.

Each step has its undo next to it. If a step fails, the earlier steps are undone. Plugins receive the complete spec and
the final id before the OCI runtime creates the container, and they are notified if the creation fails later.
"""

from __future__ import annotations

import copy
import functools
import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nri.adaptation import FieldOrder, UpdateResult
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call
from nri.engine.calls.pod_creation import PodSteps
from nri.engine.config import ContainerConfig
from nri.engine.config.defaults import parse_device, parse_mount
from nri.engine.images import Image
from nri.engine.images.mapping import IdMapping
from nri.engine.lifecycle.inventory import ContainerEntry, PodEntry, to_json
from nri.engine.lifecycle.parts import Parts
from nri.engine.lifecycle.places import make_bundle, remove_bundle
from nri.engine.lifecycle.processes import CLEARED
from nri.engine.lifecycle.resources import in_force, mark_unsupported, reasons_of, result_of
from nri.engine.lifecycle.undo import Undo
from nri.engine.machine import find_devices
from nri.engine.spec import (
    Account,
    Device,
    ImageConfig,
    Options,
    adjusted_signal,
    check_path,
    container_spec,
    find_account,
    image_volumes,
    joined_hooks,
    requested_user,
    stop_signal,
)
from nri.engine.spec.namespaces import FIELD, id_mappings
from nri.engine.spec.resources import cgroups_path
from nri.engine.state import ContainerRecord, ContainerState
from nri.engine.state.names import container_name, new_id
from nri.engine.state.tables import next_pod_state
from nri.engine.support.annotations import DEVICES, UMASK, WRITABLE_CGROUP, allowed_values, passed_annotations
from nri.engine.support.errors import CreateFailed, EngineError
from nri.errors import RequestError
from nri.host.root import open_below
from nri.oci import MountTable

_log = logging.getLogger(__name__)
#: The volumes of an image may have at most this many times the image's size. Usually they are a small part of it.
_VOLUMES_FACTOR = 2
_MAX_ANNOTATED_DEVICES = 64


class ContainerCreation:
    """Creates containers, and dismantles them."""

    def __init__(self, parts: Parts, pod_steps: PodSteps) -> None:
        self._inventory, self._machinery, self._processes = parts.inventory, parts.machinery, parts.processes
        self._domain, self._exit_handler, self._events = parts.domain, parts.exit_handler, parts.events
        self._pod_steps = pod_steps

    def create_container(self, request: pb.CreateContainerRequest, call: Call) -> pb.CreateContainerResponse:
        """Create a container in a pod, and return the container's id."""
        config = request.config
        for field, text in (("metadata.name", config.metadata.name), ("image.image", config.image.image)):
            if not text:
                raise RequestError(f"config.{field}", "", "is required")
        return pb.CreateContainerResponse(container_id=self.create(request.pod_sandbox_id, config))

    def create(self, pod_id: str, config: pb.ContainerConfig) -> str:
        """Create a container in a ready pod, and return the container's id.

        Raises RequestError if the request is invalid, and NriError if a step fails or a plugin rejects the container.
        """
        pod = self._inventory.pod(pod_id)
        with pod.request_lock:
            next_pod_state(pod.id, pod.record.state, "create a container")
            self._machinery.handler(pod.record.runtime_handler)
            image = self._machinery.images.get(config.image.image)
            settings = image_config(image)
            account = find_account(requested_user(config, settings), *self._machinery.images.accounts(image))
            container = self._new_entry(pod, config, image, settings)
            self._pod_steps.share_processes(pod, config)
            with Undo(f"container {container.id}") as undo:
                undo.step("record", lambda: self._inventory.add(container), lambda: self._inventory.drop(container))
                bundle = Path(container.record.bundle)
                dry = self._machinery.dry
                undo.step("bundle", lambda: make_bundle(bundle, dry=dry), lambda: remove_bundle(bundle))
                folders = undo.step(
                    "root", lambda: self.mount_root(pod, container, image), lambda: self.unmount_root(container)
                )
                volumes = self._make_volumes(pod, container, image, account)
                container.spec = self._spec(pod, container, settings, account, folders, volumes)
                with self._domain.block():  # no plugin may join between the plugins' answer and the new container
                    self._create_process(pod, container, undo)
        self._exit_handler.watch(container)
        self._events.publish(container, pb.CONTAINER_CREATED_EVENT)
        return container.id

    def _create_process(self, pod: PodEntry, container: ContainerEntry, undo: Undo) -> None:
        """Let plugins adjust the spec, then create the container's process with conmon and the OCI runtime."""
        messages = self._domain.messages(pod, container)
        reply = undo.step(
            "NRI", lambda: self._domain.create(container, messages), lambda: self._domain.undo_create(container)
        )
        devices = [device.name for device in container.config.CDI_devices]
        if reply is not None:
            devices += [device.name for device in reply.adjust.CDI_devices]
        self._machinery.check_required_plugins(devices, () if reply is None else reply.plugins)
        left_out: list[str] = []
        if reply is not None:
            undo.step("answer", lambda: None, lambda: reply.abort(reason=undo.reason))
            container.spec = self._machinery.generator(container.spec, left_out.append).adjust(reply.adjust)
        record = container.record
        if reply is not None:
            annotations = reply.adjust.annotations
            record.stop_signal = adjusted_signal(container.config, annotations, record.stop_signal)
        record.cgroup_path = container.spec["linux"]["cgroupsPath"]
        record.resources = in_force(container.spec, record.resources)
        undo.step("process", lambda: self._try_to_create(pod, container), lambda: self._processes.remove(container))
        self._inventory.move_container(container, "finish creation", sync=True, created_at_ns=time.time_ns())
        if record.start_failure:
            if reply is not None:
                reply.abort(reason=record.start_failure)
            return
        if reply is not None:
            with container.record_lock:
                container.order = FieldOrder(reply.adjust.linux.resources, reply.numbers)
            self._domain.follow(reply, _note_left_out(container, reply.adjust.linux.resources, left_out))
        self._domain.post_create(container, messages)

    def _try_to_create(self, pod: PodEntry, container: ContainerEntry) -> None:
        """Create the process. If the OCI runtime refuses, the creation succeeds and the start fails with the reason.

        This is because a kubelet repeats a failed creation forever, but applies the pod's restart policy to a failed
        start.
        """
        try:
            self._processes.create(pod, container)
        except CreateFailed as error:
            _log.warning("%s: its start will fail: %s", container, error)
            container.record.start_failure = str(error)

    def dismantle(self, container: ContainerEntry) -> None:
        """Remove the process, root file system and bundle of a container, as far as they exist.

        Raises EngineError or OSError if something cannot be removed.
        """
        if CLEARED not in container.record.done:
            self._processes.remove(container)
        self.unmount_root(container)
        remove_bundle(self._machinery.places.bundle(container.id))

    # --- the record and the spec ---

    def _new_entry(
        self, pod: PodEntry, config: pb.ContainerConfig, image: Image, settings: ImageConfig
    ) -> ContainerEntry:
        """Return the entry of a new container. Raises RequestError if the configuration is invalid."""
        if not config.metadata.name:
            raise RequestError("metadata.name", "", "is required")
        if config.log_path.startswith("/") or ".." in config.log_path.split("/"):
            raise RequestError("log_path", config.log_path, "must be inside the pod's log folder")
        path = log_path(pod, config)
        check_path("log_path", path)
        identity = new_id()
        record = ContainerRecord(
            id=identity,
            name=container_name(config.metadata.name, config.metadata.attempt, pod.record.name),
            attempt=config.metadata.attempt,
            labels=dict(config.labels),
            annotations=dict(config.annotations),
            config=to_json(config),
            created_at_ns=time.time_ns(),
            pod_id=pod.id,
            image=image.reported_name(config.image.user_specified_image, config.image.image),
            image_id=image.id,
            image_ref=image.repo_digests[0] if image.repo_digests else image.id,
            runtime_handler=pod.record.runtime_handler,
            bundle=str(self._machinery.places.bundle(identity)),
            cgroup_path=cgroups_path(pod.record.cgroup_parent, identity, systemd=self._machinery.systemd_cgroup),
            log_path=path,
            stop_signal=str(stop_signal(config, settings)),
            resources=to_json(config.linux.resources),
        )
        return ContainerEntry(record, {})

    def _spec(
        self, pod: PodEntry, container: ContainerEntry, image: ImageConfig, account: Account, folders: dict[int, str],
        volumes: dict[str, str],
    ) -> dict[str, Any]:  # fmt: skip
        """Return the OCI spec before plugins adjust it.

        Raises RequestError or InvalidRequest if the request is invalid, and SpecError if a CDI device is unknown.
        """
        record = container.record
        config, options = self.spec_options(pod, container, account, folders, volumes)
        result = container_spec(self._pod_steps.spec_pod(pod), config, image, options)
        for note in result.notes:
            _log.info("container %s: %s", container.id, note)
        user = result.spec["process"]["user"]
        record.user = {"uid": str(user["uid"]), "gid": str(user["gid"]),
                       "supplemental_groups": [str(group) for group in user["additionalGids"]]}  # fmt: skip
        annotations = {**container.config.annotations, **pod.config.annotations}
        self._machinery.set_classes(
            result.spec, (config.metadata.name, container.config.annotations, pod.config.annotations)
        )
        args, has_mounts = result.spec["process"]["args"], bool(container.config.mounts)
        if hooks := self._machinery.hooks.of(args, annotations, has_mounts=has_mounts):
            result.spec["hooks"] = joined_hooks(result.spec.get("hooks", {}), hooks)
        return self._machinery.with_devices(result.spec, [device.name for device in config.CDI_devices])

    def spec_options(
        self, pod: PodEntry, container: ContainerEntry, account: Account, folders: dict[int, str],
        volumes: dict[str, str],
    ) -> tuple[pb.ContainerConfig, Options]:  # fmt: skip
        """Return the request with resolved paths, and the other inputs of the spec.

        Raises RequestError or InvalidRequest if the request is invalid.
        """
        config, record = copy.deepcopy(container.config), container.record
        settings, runtime = self._machinery.config.containers, self._machinery.config.runtimes[record.runtime_handler]
        allowed = allowed_values(runtime.allowed_annotations, config.annotations, pod.config.annotations)
        _add_defaults(config, settings)
        _add_annotated_devices(config, allowed.get(DEVICES, ""), settings.allowed_devices)
        _resolve_mounts(config)
        return config, Options(
            container.id,
            record.rootfs,
            account=account,
            machine=self._machinery.machine_of(record.runtime_handler),
            devices=_devices(config),
            image_folders=folders,
            volumes=volumes,
            target_pid_namespace=self._target_pid_namespace(pod, config),
            localhost_seccomp=self._machinery.seccomp(config.linux.security_context),
            default_seccomp=self._machinery.default_seccomp(record.runtime_handler),
            annotations={
                **passed_annotations(pod.config.annotations, runtime.pod_annotations),
                **passed_annotations(config.annotations, runtime.container_annotations),
            },
            writable_cgroup=runtime.cgroup_writable or self._asks_for_cgroup(allowed),
            umask=_umask(allowed),
            host_devices=not runtime.privileged_without_host_devices,
            all_devices_allowed=not runtime.privileged_without_host_devices
            or runtime.privileged_without_host_devices_all_devices_allowed,
            owned_devices=settings.device_ownership_from_security_context,
            propagation=_host_propagation(),
            systemd_cgroup=self._machinery.systemd_cgroup,
            pids_limit=settings.pids_limit,
            apparmor_default=settings.apparmor_profile,
            base=self._machinery.base(record.runtime_handler),
        )

    def _asks_for_cgroup(self, allowed: dict[str, str]) -> bool:
        """Whether an allowed annotation makes the cgroup writable. RequestError on cgroup v1."""
        value = allowed.get(WRITABLE_CGROUP, "false")
        if value not in ("true", "false"):
            raise RequestError(f'annotations["{WRITABLE_CGROUP}"]', value, "must be true or false")
        if value == "true" and not self._machinery.machine.cgroup_v2:
            raise RequestError(f'annotations["{WRITABLE_CGROUP}"]', value, "requires cgroup v2; this node has v1")
        return value == "true"

    def _target_pid_namespace(self, pod: PodEntry, config: pb.ContainerConfig) -> str:
        """Return the path of the process namespace of the target container, or "" if it does not run in this pod."""
        security = config.linux.security_context
        options = security.namespace_options if security.HasField("namespace_options") else None
        if options is None or options.pid != pb.TARGET or not options.target_id:
            return ""
        target = self._inventory.container(options.target_id).record
        is_running = target.state is ContainerState.RUNNING and target.pod_id == pod.id
        return f"/proc/{target.pid}/ns/pid" if is_running else ""

    # --- root file systems ---

    def mount_root(self, pod: PodEntry, container: ContainerEntry, image: Image) -> dict[int, str]:
        """Mount the container's root and its image mounts, and enter both in the container's record.

        Returns the folder of each mounted image by the index of its mount in the request. Raises NotFound if an image
        does not exist, RequestError if the request is invalid, and EngineError if a mount fails.
        """
        images, mapping = self._machinery.images, self._mapping(pod, container.config)
        container.record.rootfs = str(images.mount(image, container.id, mapping))
        container.record.mounts = [to_json(mount) for mount in container.config.mounts]
        folders = {}
        for index, name, mount in _image_mounts(container.config):
            mounted_image = images.get(name)
            container.record.mounts[index]["image"]["image_ref"] = mounted_image.id
            root = images.mount(mounted_image, _image_mount_name(container.id, index), mapping)
            folders[index] = _sub_path(root, mount, index)
        return folders

    def _mapping(self, pod: PodEntry, config: pb.ContainerConfig) -> IdMapping | None:
        """Return the ID mapping of a container, or None if its pod has no user namespace.

        Raises RequestError if the container's mapping differs from the pod's.
        """
        security, pods = config.linux.security_context, pod.config.linux.security_context
        options = (security if security.HasField("namespace_options") else pods).namespace_options
        mappings = id_mappings(options)
        if mappings != id_mappings(pods.namespace_options):
            raise RequestError(f"{FIELD}.userns_options", str(options.userns_options).strip(), "differs from the pod's")
        if not mappings:
            return None
        (uids,), (gids,) = mappings["uidMappings"], mappings["gidMappings"]
        namespace = Path(pod.record.namespace_paths["user"])
        engine_folders = self._machinery.places.outermost
        return IdMapping(namespace, uids["hostID"], gids["hostID"], uids["size"], gids["size"], engine_folders)

    def _make_volumes(self, pod: PodEntry, container: ContainerEntry, image: Image, account: Account) -> dict[str, str]:
        """Create the folders for the volumes of the image, and return the folders to mount by their mount points.

        Unmounting the root file system removes these folders. Raises EngineError if a folder cannot be created.
        """
        kind = self._machinery.config.images.image_volumes
        if kind == "ignore" or not image.volumes or self._machinery.dry:
            return {}
        config = copy.deepcopy(container.config)
        _add_defaults(config, self._machinery.config.containers)
        base = self._machinery.base(container.record.runtime_handler)
        paths = image_volumes(config, self._pod_steps.spec_pod(pod), image_config(image), base)
        if not paths:
            return {}
        snapshots, mapping = self._machinery.images.snapshots, self._mapping(pod, container.config)
        if kind == "bind":
            return snapshots.copy_volumes(container.id, paths, _VOLUMES_FACTOR * image.size_bytes, mapping)
        uid, gid = (account.uid, account.gid) if mapping is None else mapping.owner(account.uid, account.gid)
        snapshots.make_volumes(container.id, paths, uid, gid)
        return {}

    def unmount_root(self, container: ContainerEntry) -> None:
        """Unmount the root and the mounted images, as far as they are mounted.

        Raises OSError or EngineError if that fails.
        """
        for index, _, _ in _image_mounts(container.config):
            self._machinery.images.unmount(_image_mount_name(container.id, index))
        self._machinery.images.unmount(container.id)


def image_config(image: Image) -> ImageConfig:
    """Return the image's settings that an OCI spec uses."""
    return ImageConfig(image.entrypoint, image.cmd, image.env, image.working_dir, image.user, image.stop_signal,
                       image.volumes)  # fmt: skip


def log_path(pod: PodEntry, config: pb.ContainerConfig) -> str:
    """Return the path of a container's log, or "" if the container has no log."""
    folder = pod.config.log_directory
    return os.path.join(folder, config.log_path) if folder and config.log_path else ""


def _note_left_out(container: ContainerEntry, requested: m.LinuxResources, left_out: list[str]) -> list[UpdateResult]:
    """Log the fields of an adjustment that this machine does not support, and return the result for `nri why`."""
    if not left_out:
        return []
    for line in left_out:
        _log.info("container %s: a part of a plugin's adjustment is left out: %s", container.id, line)
    result = result_of(container.id, requested)
    mark_unsupported(result, reasons_of(left_out))
    return [result]


def _image_mounts(config: pb.ContainerConfig) -> list[tuple[int, str, pb.Mount]]:
    """Return the mounts of a request that have an image as their source: index, image name and mount."""
    rows = [(index, mount) for index, mount in enumerate(config.mounts) if mount.HasField("image")]
    mounts = [(index, mount.image.image_ref or mount.image.image, mount) for index, mount in rows]
    return [row for row in mounts if row[1]]


def _image_mount_name(container_id: str, index: int) -> str:
    return f"{container_id}-image{index}"


def _sub_path(root: Path, mount: pb.Mount, index: int) -> str:
    """Return the requested folder of a mounted image. Symbolic links cannot lead out of the image."""
    if not mount.image_sub_path:
        return str(root)
    field = f"mounts[{index}].image_sub_path"
    if mount.image_sub_path.startswith("/") or ".." in mount.image_sub_path.split("/"):
        raise RequestError(field, mount.image_sub_path, "must be inside the image")
    try:
        descriptor = open_below(root, mount.image_sub_path, os.O_PATH)
    except OSError as error:
        raise RequestError(field, mount.image_sub_path, f"is not in the image: {error.strerror}") from error
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _add_defaults(config: pb.ContainerConfig, settings: ContainerConfig) -> None:
    """Add the configured default mounts and devices to a request, unless it has another mount or device at the path.

    Raises EngineError if a configured path does not exist on this node.
    """
    present = {os.path.normpath(f"/{mount.container_path}").replace("//", "/") for mount in config.mounts}
    for text in settings.default_mounts:
        mount = parse_mount(text)
        if not os.path.exists(mount.host_path):
            raise EngineError(f'containers.default_mounts "{text}": {mount.host_path} does not exist on this node')
        if os.path.normpath(mount.container_path) not in present:
            config.mounts.add(host_path=mount.host_path, container_path=mount.container_path, readonly=mount.readonly)
    present = {device.container_path or device.host_path for device in config.devices}
    for text in settings.additional_devices:
        device = parse_device(text)
        if not find_devices(device.host_path):
            raise EngineError(f'containers.additional_devices "{text}": this node has no device {device.host_path}')
        if device.container_path not in present:
            config.devices.add(**device._asdict())


def _add_annotated_devices(config: pb.ContainerConfig, text: str, allowed_devices: Sequence[str]) -> None:
    """Add the devices that an annotation lists, separated by commas, to a request. Raises RequestError."""
    field = f'annotations["{DEVICES}"]'
    rows = [row.strip() for row in text.split(",", _MAX_ANNOTATED_DEVICES) if row.strip()]
    if len(rows) > _MAX_ANNOTATED_DEVICES:
        raise RequestError(field, text, f"has more than {_MAX_ANNOTATED_DEVICES} devices")
    for row in rows:
        try:
            device = parse_device(row)
        except ValueError as error:
            raise RequestError(field, row, str(error)) from None
        if device.host_path not in allowed_devices:
            device_list = ", ".join(allowed_devices) or "none"
            raise RequestError(field, row, f"is not allowed; containers.allowed_devices has {device_list}")
        config.devices.add(**device._asdict())


def _umask(allowed: dict[str, str]) -> int | None:
    """The umask of an allowed annotation, an octal number; None without one. Raises RequestError."""
    text = allowed.get(UMASK)
    if text is None:
        return None
    if not re.fullmatch(r"0?[0-7]{1,3}", text):
        raise RequestError(f'annotations["{UMASK}"]', text, "must be an octal number, for example 027")
    return int(text, 8)


def _resolve_mounts(config: pb.ContainerConfig) -> None:
    """Resolve symbolic links in the host paths of mounts, and create missing folders, as other CRI runtimes do."""
    for index, mount in enumerate(config.mounts):
        if not mount.host_path.startswith("/"):
            continue  # validating the spec rejects it
        try:
            if not os.path.exists(mount.host_path):
                os.makedirs(mount.host_path, exist_ok=True)
        except OSError as error:
            raise RequestError(f"mounts[{index}].host_path", mount.host_path, f"cannot be created: {error}") from error
        mount.host_path = os.path.realpath(mount.host_path)


def _host_propagation() -> Callable[[str], str | None]:
    """Return a function that reports the propagation of the mount at a host path.

    Only the first call reads the mount table. The table grows with the number of pods on the node, and most containers
    have no mount that depends on the propagation.
    """
    table = functools.cache(MountTable.of_host)
    return lambda path: table().propagation(path)


def _devices(config: pb.ContainerConfig) -> dict[str, list[Device]]:
    paths = {device.host_path for device in config.devices}
    if config.linux.security_context.privileged:
        paths.add("/dev")
    return {path: find_devices(path) for path in paths}
