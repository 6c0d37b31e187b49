"""The making of a container: root file system, OCI spec, what plugins change of it, process that waits for its start.

Rules: each step has its undo beside it; plugins are asked on the whole spec, with the final id, before anything of the
OCI runtime exists; those that were asked hear of it if the container is not made after all. Next:
:mod:`nri.engine.calls.container_removal`.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from nri.adaptation import FieldOrder, UpdateResult
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.inputs import Inputs, image_config
from nri.engine.calls.pod_steps import PodSteps
from nri.engine.images import Image
from nri.engine.lifecycle.bundles import make_bundle, remove_bundle
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.exit_handler import ExitHandler
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry, to_json
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.processes import CLEARED, Processes
from nri.engine.lifecycle.resources import in_force, mark_unsupported, reasons_of, result_of
from nri.engine.lifecycle.status import log_path
from nri.engine.lifecycle.undo import Undo
from nri.engine.spec import Account, check_path, container_spec, stop_signal
from nri.engine.spec.resources import cgroups_path
from nri.engine.state import ContainerRecord
from nri.engine.state.names import container_name, new_id
from nri.engine.state.tables import next_pod_state
from nri.errors import RequestError

__all__ = ["Creation"]

_log = logging.getLogger(__name__)


class Creation:
    """Makes containers, and takes away what they are made of."""

    def __init__(
        self,
        inventory: Inventory,
        machinery: Machinery,
        domain: Domain,
        processes: Processes,
        pod_steps: PodSteps,
        exit_handler: ExitHandler,
    ) -> None:
        self._inventory, self._machinery, self._domain = inventory, machinery, domain
        self._processes, self._pod_steps, self._exit_handler = processes, pod_steps, exit_handler
        self._inputs = Inputs(inventory, machinery)

    def create(self, pod: PodEntry, config: pb.ContainerConfig) -> ContainerEntry:
        """Make a container in a pod. A step that fails is undone. Raises RequestError, NriError."""
        with pod.request_lock:
            next_pod_state(pod.id, pod.record.state, "create a container")
            self._machinery.handler(pod.record.runtime_handler)
            image = self._machinery.images.get(config.image.image)
            account = self._inputs.account(config, image)
            container = self._new(pod, config, image)
            with Undo(f"container {container.id}") as undo:
                undo.step("record", lambda: self._inventory.add(container), lambda: self._inventory.drop(container))
                bundle = Path(container.record.bundle)
                dry = self._machinery.dry
                undo.step("bundle", lambda: make_bundle(bundle, dry=dry), lambda: remove_bundle(bundle))
                folders = undo.step(
                    "root", lambda: self._inputs.mount(pod, container, image), lambda: self._inputs.unmount(container)
                )
                container.spec = self._spec(pod, container, image, account, folders)
                with self._domain.block():
                    self._make(pod, container, undo)
        self._exit_handler.watch(container)
        return container

    def _make(self, pod: PodEntry, container: ContainerEntry, undo: Undo) -> None:
        """The part during which no plugin may join: from the plugins' answer to the container's being there."""
        reply = undo.step(
            "NRI", lambda: self._domain.create(pod, container), lambda: self._domain.undo_create(container)
        )
        left_out: list[str] = []
        if reply is not None:
            undo.step("answer", lambda: None, lambda: reply.abort(reason=undo.reason))
            container.spec = self._machinery.generator(container.spec, left_out.append).adjust(reply.adjust)
        record = container.record
        record.cgroup_path = container.spec["linux"]["cgroupsPath"]
        record.resources = in_force(container.spec, record.resources)
        undo.step("process", lambda: self._processes.create(pod, container), lambda: self._processes.remove(container))
        self._inventory.move_container(container, "finish creation", sync=True, created_at_ns=time.time_ns())
        if reply is not None:
            with container.record_lock:
                container.order = FieldOrder(reply.adjust.linux.resources, reply.numbers)
            self._domain.follow(reply, _note_left_out(container, reply.adjust.linux.resources, left_out))
        self._domain.post_create(container)

    # --- the record and the spec ---

    def _new(self, pod: PodEntry, config: pb.ContainerConfig, image: Image) -> ContainerEntry:
        """A record for a container to be made. Raises RequestError for a configuration that cannot be."""
        if not config.metadata.name:
            raise RequestError("metadata.name", "", "is needed")
        if config.log_path.startswith("/") or ".." in config.log_path.split("/"):
            raise RequestError("log_path", config.log_path, "leads out of the pod's log folder")
        check_path("log_path", log_path(pod, config))
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
        return ContainerEntry(record, {})

    def _spec(
        self, pod: PodEntry, container: ContainerEntry, image: Image, account: Account, folders: dict[int, str]
    ) -> dict[str, Any]:
        """The OCI spec before plugins. Raises RequestError, InvalidRequest, SpecError."""
        record = container.record
        config, options = self._inputs.options(pod, container, account, folders)
        made = container_spec(self._pod_steps.spec_pod(pod), config, image_config(image), options)
        for note in made.notes:
            _log.info("container %s: %s", container.id, note)
        user = made.spec["process"]["user"]
        record.user = {"uid": str(user["uid"]), "gid": str(user["gid"]),
                       "supplemental_groups": [str(each) for each in user["additionalGids"]]}  # fmt: skip
        return self._machinery.with_devices(made.spec, [device.name for device in config.CDI_devices])

    def dismantle(self, container: ContainerEntry) -> None:
        """Take away all that a container is made of, as far as it is there. Raises EngineError, OSError."""
        if CLEARED not in container.record.done:
            self._processes.remove(container)
        self._inputs.unmount(container)
        remove_bundle(self._machinery.places.bundle(container.id))


def _note_left_out(container: ContainerEntry, wanted: m.LinuxResources, left_out: list[str]) -> list[UpdateResult]:
    """Tell in the log what of an adjustment this machine cannot do, and keep it for those who ask later."""
    if not left_out:
        return []
    for line in left_out:
        _log.info("container %s: a plugin's adjustment is left out: %s", container.id, line)
    result = result_of(container.id, wanted)
    mark_unsupported(result, reasons_of(left_out))
    return [result]
