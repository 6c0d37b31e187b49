"""The findings that a container's spec is made of, beside the request: its user, devices, images, profiles, paths.

Rules: what is named by a request is looked up here and nowhere else; paths of images and containers are opened below
their root, profiles of the node below the operator's folder. Next: :mod:`nri.engine.calls.container_creation`.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path

from nri.cri.pb import api_pb2 as pb
from nri.engine.images import Image
from nri.engine.images.mapping import Mapping
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry, to_json
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.machine import find_devices
from nri.engine.spec import Account, Device, ImageConfig, Options, find_account, wanted_user
from nri.engine.spec.namespaces import FIELD, id_mappings
from nri.engine.state import ContainerState
from nri.errors import RequestError
from nri.host.root import open_below
from nri.oci import MountTable

__all__ = ["Inputs", "image_config"]


class Inputs:
    """Finds out what specs of containers need to know."""

    def __init__(self, inventory: Inventory, machinery: Machinery) -> None:
        self._inventory, self._machinery = inventory, machinery

    def options(
        self, pod: PodEntry, container: ContainerEntry, account: Account, folders: dict[int, str]
    ) -> tuple[pb.ContainerConfig, Options]:
        """The request with its paths resolved, and the findings for it. Raises RequestError, InvalidRequest."""
        config, record = copy.deepcopy(container.config), container.record
        _resolve_mounts(config)
        settings = self._machinery.config.containers
        return config, Options(
            container.id,
            record.rootfs,
            account=account,
            machine=self._machinery.machine_of(record.runtime_handler),
            devices=_devices(config),
            image_folders=folders,
            target_pid_namespace=self._target(pod, config),
            localhost_seccomp=self._machinery.seccomp(config.linux.security_context),
            propagation=MountTable.of_host().propagation,
            systemd_cgroup=self._machinery.systemd_cgroup,
            pids_limit=settings.pids_limit,
            apparmor_default=settings.apparmor_profile,
        )

    def account(self, config: pb.ContainerConfig, image: Image) -> Account:
        """The user in numbers, as the image's own files have it. Raises RequestError, NotFound, EngineError."""
        return find_account(wanted_user(config, image_config(image)), *self._machinery.images.accounts(image))

    # --- root file systems ---

    def mount(self, pod: PodEntry, container: ContainerEntry, image: Image) -> dict[int, str]:
        """Mount the container's root and the images that it mounts, all noted in its record; these by their place.

        Raises NotFound, EngineError, RequestError.
        """
        images, mapping = self._machinery.images, _mapping(pod, container.config)
        container.record.rootfs = str(images.mount(image, container.id, mapping))
        container.record.mounts = [to_json(mount) for mount in container.config.mounts]
        folders = {}
        for index, name, mount in _mounted(container.config):
            found = images.get(name)
            container.record.mounts[index]["image"]["image_ref"] = found.id
            folders[index] = _below(images.mount(found, _of_mount(container.id, index), mapping), mount, index)
        return folders

    def unmount(self, container: ContainerEntry) -> None:
        """Take all of it away; what is not there is no error. Raises OSError, EngineError."""
        for index, _, _ in _mounted(container.config):
            self._machinery.images.unmount(_of_mount(container.id, index))
        self._machinery.images.unmount(container.id)

    # --- names that a request looks up ---

    def _target(self, pod: PodEntry, config: pb.ContainerConfig) -> str:
        """The process namespace of the container that is named to share one with; it has to run in this pod."""
        security = config.linux.security_context
        options = security.namespace_options if security.HasField("namespace_options") else None
        if options is None or options.pid != pb.TARGET or not options.target_id:
            return ""
        found = self._inventory.container(options.target_id)
        running = found.record.state is ContainerState.RUNNING and found.record.pod_id == pod.id
        return f"/proc/{found.record.pid}/ns/pid" if running else ""


def image_config(image: Image) -> ImageConfig:
    """The image's settings as specs take them."""
    return ImageConfig(image.entrypoint, image.cmd, image.env, image.working_dir, image.user, image.stop_signal)


def _mapping(pod: PodEntry, config: pb.ContainerConfig) -> Mapping | None:
    """The mapping of a container's ids, if they are mapped: that of its pod. Raises RequestError."""
    asked = config.linux.security_context
    options = (asked if asked.HasField("namespace_options") else pod.config.linux.security_context).namespace_options
    mapped = id_mappings(options)
    if mapped != id_mappings(pod.config.linux.security_context.namespace_options):
        raise RequestError(f"{FIELD}.userns_options", str(options.userns_options).strip(), "is not as the pod's")
    if not mapped:
        return None
    (uids,), (gids,) = mapped["uidMappings"], mapped["gidMappings"]
    namespace = Path(pod.record.namespace_paths["user"])
    return Mapping(namespace, uids["hostID"], gids["hostID"], uids["size"], gids["size"])


def _mounted(config: pb.ContainerConfig) -> list[tuple[int, str, pb.Mount]]:
    """The mounts of a request whose source is an image: place, the image's name, the mount."""
    rows = [(index, mount) for index, mount in enumerate(config.mounts) if mount.HasField("image")]
    named = [(index, mount.image.image_ref or mount.image.image, mount) for index, mount in rows]
    return [row for row in named if row[1]]


def _of_mount(container_id: str, index: int) -> str:
    return f"{container_id}-image{index}"


def _below(root: Path, mount: pb.Mount, index: int) -> str:
    """The part of a mounted image that is asked for; links in the image do not lead out of it."""
    if not mount.image_sub_path:
        return str(root)
    field = f"mounts[{index}].image_sub_path"
    if mount.image_sub_path.startswith("/") or ".." in mount.image_sub_path.split("/"):
        raise RequestError(field, mount.image_sub_path, "leads out of the image")
    try:
        descriptor = open_below(root, mount.image_sub_path, os.O_PATH)
    except OSError as error:
        raise RequestError(field, mount.image_sub_path, f"is not in the image: {error.strerror}") from error
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _resolve_mounts(config: pb.ContainerConfig) -> None:
    """Follow links of the host's paths, and make folders for those that are not there, as every runtime does."""
    for index, mount in enumerate(config.mounts):
        if not mount.host_path.startswith("/"):
            continue  # refused by the spec's own check
        try:
            if not os.path.exists(mount.host_path):
                os.makedirs(mount.host_path, exist_ok=True)
        except OSError as error:
            raise RequestError(f"mounts[{index}].host_path", mount.host_path, f"cannot be made: {error}") from error
        mount.host_path = os.path.realpath(mount.host_path)


def _devices(config: pb.ContainerConfig) -> dict[str, list[Device]]:
    paths = {device.host_path for device in config.devices}
    if config.linux.security_context.privileged:
        paths.add("/dev")
    return {path: find_devices(path) for path in paths}
