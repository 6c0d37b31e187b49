"""The making of a container: root file system, OCI spec, what plugins change of it, process that waits for its start.

Rules: each step has its undo beside it; plugins are asked on the whole spec, with the final id, before anything of the
OCI runtime exists; those that were asked are told if the container is not made after all. Next:
:mod:`nri.engine.lifecycle.containers`.
"""

from __future__ import annotations

import logging
import posixpath
import time
from pathlib import Path
from typing import Any

from nri.adaptation import UpdateResult
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.engine.images import Image
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.ends import CLEARED, Ends
from nri.engine.lifecycle.inputs import Inputs, image_config
from nri.engine.lifecycle.lives import ContainerLife, Lives, PodLife, to_json, write_spec
from nri.engine.lifecycle.parts.machinery import Machinery
from nri.engine.lifecycle.parts.undo import Undo
from nri.engine.lifecycle.pod_steps import PodSteps
from nri.engine.lifecycle.resources import in_force, mark_unsupported, reasons_of, result_of
from nri.engine.lifecycle.status import log_path
from nri.engine.spec import container_spec, stop_signal
from nri.engine.spec.resources import cgroups_path
from nri.engine.state import ContainerRecord
from nri.engine.state.names import container_name, new_id
from nri.engine.state.tables import next_pod_state
from nri.engine.support.errors import NotThere
from nri.engine.support.files import private_folder, remove_tree
from nri.errors import RequestError

__all__ = ["Creation"]

_log = logging.getLogger(__name__)


class Creation:
    """Makes containers, and takes away what they are made of."""

    def __init__(self, lives: Lives, machinery: Machinery, domain: Domain, pod_steps: PodSteps, ends: Ends) -> None:
        self._lives, self._machinery, self._domain = lives, machinery, domain
        self._pod_steps, self._ends = pod_steps, ends
        self._inputs = Inputs(lives, machinery)

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
                folders = undo.step(
                    "root", lambda: self._inputs.mount(pod, life, image), lambda: self._inputs.unmount(life)
                )
                life.spec = self._spec(pod, life, image, folders)
                with self._domain.block():
                    self._make(pod, life, undo)
        self._ends.watch(life)
        return life

    def _make(self, pod: PodLife, life: ContainerLife, undo: Undo) -> None:
        """The part during which no plugin may join: from the plugins' answer to the container's being there."""
        reply = undo.step("NRI", lambda: self._domain.create(pod, life), lambda: self._domain.undo_create(life))
        left_out: list[str] = []
        if reply is not None:
            # What it wants of others is only done once the container is there, so there is nothing to restore.
            undo.step("answer", lambda: None, lambda: reply.abort(lambda _: None))
            life.spec = self._machinery.generator(life.spec, left_out.append).adjust(reply.adjust)
        record = life.record
        record.cgroup_path = life.spec["linux"]["cgroupsPath"]
        record.resources = in_force(life.spec, record.resources)
        undo.step("process", lambda: self._process(pod, life), lambda: self.end_process(life))
        self._lives.move_container(life, "finish creation", sync=True, created_at_ns=time.time_ns())
        if reply is not None:
            self._domain.follow(reply, _told(life, reply.adjust.linux.resources, left_out))
        self._domain.post_create(life)

    # --- the record and the spec ---

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
            bundle=str(self._machinery.places.bundle(identity)),
            cgroup_path=cgroups_path(pod.record.cgroup_parent, identity, systemd=self._machinery.systemd_cgroup),
            log_path=log_path(pod, config),
            stop_signal=str(stop_signal(config, image_config(image))),
            resources=to_json(config.linux.resources),
        )
        return ContainerLife(record, {})

    def _spec(self, pod: PodLife, life: ContainerLife, image: Image, folders: dict[int, str]) -> dict[str, Any]:
        """The OCI spec before plugins. Raises RequestError, InvalidRequest, SpecError."""
        record = life.record
        config, options = self._inputs.options(pod, life, image, folders)
        made = container_spec(self._pod_steps.spec_pod(pod), config, image_config(image), options)
        for note in made.notes:
            _log.info("container %s: %s", life.id, note)
        user = made.spec["process"]["user"]
        record.user = {"uid": str(user["uid"]), "gid": str(user["gid"]),
                       "supplemental_groups": [str(each) for each in user["additionalGids"]]}  # fmt: skip
        return self._machinery.with_devices(made.spec, [device.name for device in config.CDI_devices])

    # --- the process ---

    def _process(self, pod: PodLife, life: ContainerLife) -> None:
        """Write the bundle and have conmon and the OCI runtime create the container."""
        record, config = life.record, life.config
        bundle = Path(record.bundle)
        write_spec(bundle, life.spec)
        log = Path(record.log_path or "/dev/null")
        if record.log_path:
            log.parent.mkdir(parents=True, exist_ok=True)
        record.pid, record.conmon_pid = self._machinery.conmon.create(
            self._machinery.runtime(record.runtime_handler),
            life.id,
            bundle,
            log_path=log,
            stdin=config.stdin,
            stdin_once=config.stdin_once,
            tty=config.tty,
            place=self._pod_steps.place(pod.record.cgroup_parent, life.id),
        )

    def end_process(self, life: ContainerLife) -> None:
        """Take away what OCI runtime and conmon have of a container, as far as it is there. Raises EngineError."""
        record = life.record
        runtime = self._machinery.runtime(record.runtime_handler)
        try:
            self._machinery.conmon.remove(runtime, life.id, Path(record.bundle))
        finally:  # also where the runtime's program is missing, so that nothing can have been made by it
            if not self._machinery.systemd_cgroup:
                self._pod_steps.unplace(self._pod_cgroup(record), life.id)
                self._pod_steps.cgroups.remove(record.cgroup_path)  # a runtime that was killed has left it

    def _pod_cgroup(self, record: ContainerRecord) -> str:
        """The cgroup of a container's pod; plugins may have given the container itself another one."""
        try:
            return self._lives.pod(record.pod_id).record.cgroup_parent
        except NotThere:
            return posixpath.dirname(record.cgroup_path)

    def dismantle(self, life: ContainerLife) -> None:
        """Take away all that a container is made of, as far as it is there. Raises EngineError, OSError."""
        if CLEARED not in life.record.done:
            self.end_process(life)
        self._inputs.unmount(life)
        remove_tree(Path(life.record.bundle))


def _told(life: ContainerLife, wanted: m.LinuxResources, left_out: list[str]) -> list[UpdateResult]:
    """Tell in the log what of an adjustment this machine cannot do, and keep it for those who ask later."""
    if not left_out:
        return []
    for line in left_out:
        _log.info("container %s: a plugin's adjustment is left out: %s", life.id, line)
    result = result_of(life.id, wanted)
    mark_unsupported(result, reasons_of(left_out))
    return [result]
