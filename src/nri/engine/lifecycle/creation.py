"""The making of a container: root file system, OCI spec, what plugins change of it, process that waits for its start.

Rules: each step has its undo beside it; plugins are asked on the whole spec, with the final id, before anything of the
OCI runtime exists; those that were asked are told if the container is not made after all. Next:
:mod:`nri.engine.lifecycle.containers`.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.images import Image, resolve_user
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.ends import Ends
from nri.engine.lifecycle.lives import ContainerLife, Lives, PodLife, to_json, write_spec
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.pod_steps import PodSteps
from nri.engine.lifecycle.resources import in_force
from nri.engine.lifecycle.status import log_path
from nri.engine.lifecycle.undo import Undo
from nri.engine.machine import find_devices
from nri.engine.spec import (
    Account,
    Device,
    ImageConfig,
    Options,
    container_spec,
    localhost_profile,
    stop_signal,
    wanted_user,
)
from nri.engine.spec.namespaces import options_of
from nri.engine.state import ContainerRecord, ContainerState
from nri.engine.state.names import container_name, new_id
from nri.engine.state.tables import next_pod_state
from nri.engine.support.files import private_folder, remove_tree
from nri.errors import RequestError
from nri.oci import MountTable

__all__ = ["Creation"]

_PROFILE_BYTES = 4 << 20
_log = logging.getLogger(__name__)


class Creation:
    """Makes containers, and takes away what they are made of."""

    def __init__(self, lives: Lives, machinery: Machinery, domain: Domain, pod_steps: PodSteps, ends: Ends) -> None:
        self._lives, self._machinery, self._domain = lives, machinery, domain
        self._pod_steps, self._ends = pod_steps, ends
        self._places = machinery.places

    def create(self, pod: PodLife, config: pb.ContainerConfig) -> ContainerLife:
        """Make a container in a pod. What fails is undone. Raises RequestError, NriError."""
        with pod.life:
            next_pod_state(pod.id, pod.record.state, "create a container")
            image = self._machinery.images.get(config.image.image)
            life = self._new(pod, config, image)
            with Undo(f"container {life.id}") as undo:
                undo.step("record", lambda: self._lives.add(life), lambda: self._lives.drop(life))
                bundle = Path(life.record.bundle)
                undo.step("bundle", lambda: private_folder(bundle), lambda: remove_tree(bundle))
                images = self._machinery.images
                rootfs = undo.step("root", lambda: images.mount(image, life.id), lambda: images.unmount(life.id))
                life.record.rootfs = str(rootfs)
                life.spec = undo.step("spec", lambda: self._spec(pod, life, image), lambda: None)
                with self._domain.block():
                    self._make(pod, life, undo)
        self._ends.watch(life)
        return life

    def _make(self, pod: PodLife, life: ContainerLife, undo: Undo) -> None:
        """The part during which no plugin may join: from the plugins' answer to the container's being there."""
        reply = undo.step("NRI", lambda: self._domain.create(pod, life), lambda: self._domain.undo_create(life))
        if reply is not None:
            # What it wants of others is only done once the container is there, so there is nothing to restore.
            undo.step("answer", lambda: None, lambda: reply.abort(lambda _: None))
            life.spec = self._machinery.generator(life.spec).adjust(reply.adjust)
        record = life.record
        record.resources = in_force(life.spec, record.resources)
        undo.step("process", lambda: self._process(pod, life), lambda: self._no_process(pod, life))
        self._lives.move_container(life, "finish creation", created_at_ns=time.time_ns(), done=["process"])
        if reply is not None:
            self._domain.follow(reply)
        self._domain.post_create(life)

    def dismantle(self, life: ContainerLife) -> None:
        """Take away all that a container is made of, as far as it is there. Raises EngineError, OSError."""
        record = life.record
        bundle = self._places.bundle(life.id)
        if bundle.exists() or "process" in record.done:
            self._machinery.conmon.remove(self._machinery.runtime(record.runtime_handler), life.id, bundle)
        self._machinery.images.unmount(life.id)
        remove_tree(bundle)

    # --- the record ---

    def _new(self, pod: PodLife, config: pb.ContainerConfig, image: Image) -> ContainerLife:
        """A record for a container to be made. Raises RequestError for a configuration that cannot be."""
        if not config.metadata.name:
            raise RequestError("metadata.name", "", "is needed")
        if config.log_path.startswith("/") or ".." in config.log_path.split("/"):
            raise RequestError("log_path", config.log_path, "leads out of the pod's log folder")
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
            image=config.image.image,
            image_id=image.id,
            image_ref=image.repo_digests[0] if image.repo_digests else image.id,
            runtime_handler=pod.record.runtime_handler,
            bundle=str(self._places.bundle(identity)),
            log_path=log_path(pod, config),
            stop_signal=str(stop_signal(config, _image_config(image))),
            resources=to_json(config.linux.resources),
        )
        return ContainerLife(record, {})

    # --- the spec ---

    def _spec(self, pod: PodLife, life: ContainerLife, image: Image) -> dict[str, Any]:
        """The OCI spec before plugins. Raises RequestError, InvalidRequest, SpecError."""
        config, record = copy.deepcopy(life.config), life.record
        _resolve_mounts(config)
        settings = self._machinery.config.containers
        account = self._account(life, image)
        options = Options(
            life.id,
            record.rootfs,
            account=account,
            machine=self._machinery.machine_of(record.runtime_handler),
            devices=_devices(config),
            image_folders=self._image_folders(life, config),
            target_pid_namespace=self._target(pod, config),
            localhost_seccomp=self._seccomp(config),
            propagation=MountTable.of_host().propagation,
            systemd_cgroup=self._machinery.systemd_cgroup,
            pids_limit=settings.pids_limit,
            apparmor_default=settings.apparmor_profile,
        )
        made = container_spec(self._pod_steps.spec_pod(pod), config, _image_config(image), options)
        for note in made.notes:
            _log.info("container %s: %s", life.id, note)
        record.cgroup_path = made.spec["linux"]["cgroupsPath"]
        user = made.spec["process"]["user"]
        record.user = {"uid": str(user["uid"]), "gid": str(user["gid"]),
                       "supplemental_groups": [str(each) for each in user["additionalGids"]]}  # fmt: skip
        record.mounts = [to_json(mount) for mount in life.config.mounts]
        return self._machinery.with_devices(made.spec, [device.name for device in config.CDI_devices])

    def _account(self, life: ContainerLife, image: Image) -> Account:
        wish = wanted_user(life.config, _image_config(image))
        rootfs = Path(life.record.rootfs)
        found = resolve_user(rootfs, wish.user)
        gid = resolve_user(rootfs, f"{wish.user}:{wish.group}").gid if wish.group else found.gid
        return Account(found.uid, gid, found.groups)

    def _image_folders(self, life: ContainerLife, config: pb.ContainerConfig) -> dict[int, str]:
        """The images that are mounted, by the place of their mounts."""
        for index, mount in enumerate(config.mounts):
            if mount.HasField("image") and (mount.image.image or mount.image.image_ref):
                raise RequestError(f"mounts[{index}].image", mount.image.image, "this engine mounts no images")
        return {}

    def _target(self, pod: PodLife, config: pb.ContainerConfig) -> str:
        """The process namespace of the container that is named to share one with; it has to run in this pod."""
        options = options_of(config, self._pod_steps.spec_pod(pod))
        if options.pid != pb.TARGET or not options.target_id:
            return ""
        found = self._lives.container(options.target_id)
        running = found.record.state is ContainerState.RUNNING and found.record.pod_id == pod.id
        return f"/proc/{found.record.pid}/ns/pid" if running else ""

    def _seccomp(self, config: pb.ContainerConfig) -> dict[str, Any] | None:
        """The profile of the node that is asked for, read from the operator's folder."""
        path = localhost_profile(config.linux.security_context)
        if not path:
            return None
        root = self._machinery.config.containers.seccomp_root
        field = "linux.security_context.seccomp.localhost_ref"
        real = os.path.realpath(path)
        if not real.startswith(f"{os.path.realpath(root)}/"):
            raise RequestError(field, path, f"is not below {root}")
        try:
            with open(real, "rb") as file:
                found = json.loads(file.read(_PROFILE_BYTES))
        except (OSError, ValueError) as error:
            raise RequestError(field, path, f"cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise RequestError(field, path, "is no profile")
        return found

    # --- the process ---

    def _process(self, pod: PodLife, life: ContainerLife) -> None:
        """Write the bundle and have conmon and the OCI runtime create the container."""
        record, config = life.record, life.config
        bundle = Path(record.bundle)
        write_spec(bundle, life.spec)
        log = Path(record.log_path or "/dev/null")
        if record.log_path:
            log.parent.mkdir(parents=True, exist_ok=True)
        created = self._machinery.conmon.create(
            self._machinery.runtime(record.runtime_handler),
            life.id,
            bundle,
            log_path=log,
            stdin=config.stdin,
            stdin_once=config.stdin_once,
            tty=config.tty,
            place=self._pod_steps.place(pod.record.cgroup_parent, life.id),
        )
        record.pid, record.conmon_pid = created

    def _no_process(self, pod: PodLife, life: ContainerLife) -> None:
        record = life.record
        self._machinery.conmon.remove(self._machinery.runtime(record.runtime_handler), life.id, Path(record.bundle))
        self._pod_steps.unplace(pod.record.cgroup_parent, life.id)


def _image_config(image: Image) -> ImageConfig:
    return ImageConfig(image.entrypoint, image.cmd, image.env, image.working_dir, image.user, image.stop_signal)


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
