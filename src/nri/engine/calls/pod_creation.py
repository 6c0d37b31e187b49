"""Pods: made, stopped, removed.

A pod is pinned namespaces, files, and a place in a network; no image, and a process only where its containers share a
process namespace. Rules: each step is in a table with its undo; every undo takes "not there" for done, so that a
failed creation, a stop, a removal and a restart all take back the same way.
"""

from __future__ import annotations

import logging
import time

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.container_removal import Containers
from nri.engine.calls.pod_steps import PodSteps
from nri.engine.lifecycle.bus import EventBus
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.inventory import Inventory, PodEntry, to_json
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.undo import Undo, take_back
from nri.engine.network import Attached
from nri.engine.network.results import parse_result
from nri.engine.spec import check_pod, pod_sysctls
from nri.engine.state import PodRecord, PodState
from nri.engine.state.names import new_id, pod_name
from nri.engine.support.errors import EngineError, NotFound

__all__ = ["Pods"]

_log = logging.getLogger(__name__)


class Pods:
    """The pods of an engine."""

    def __init__(
        self,
        inventory: Inventory,
        machinery: Machinery,
        domain: Domain,
        bus: EventBus,
        steps: PodSteps,
        containers: Containers,
    ) -> None:
        self._inventory, self._machinery, self._domain, self._bus = inventory, machinery, domain, bus
        self._steps, self._containers = steps, containers

    # --- asking ---

    def get(self, prefix: str) -> PodRecord:
        """The record of a pod, by its id or the beginning of it. Raises NotFound. Not to be changed."""
        return self._inventory.pod(prefix).record

    def entry(self, prefix: str) -> PodEntry:
        """A pod with its configuration as a message, by its id or the beginning of it. Raises NotFound."""
        return self._inventory.pod(prefix)

    def list(self) -> list[PodRecord]:
        """The records of all pods, the oldest first."""
        return [each.record for each in self._inventory.pods()]

    def attached(self, prefix: str) -> Attached | None:
        """The pod's place in its network; None for a pod on the node's."""
        network = self._inventory.pod(prefix).record.network
        return parse_result(network, "eth0") if network else None

    # --- the calls ---

    def run(self, config: pb.PodSandboxConfig, handler: str = "") -> str:
        """Make a pod and start it; returns its id. A step that fails is undone. Raises RequestError, NriError."""
        handler = self._machinery.handler(handler)
        pod = self._new(config, handler)
        with pod.request_lock, Undo(f"pod {pod.id}") as undo:
            undo.step("record", lambda: self._inventory.add(pod), lambda: self._inventory.drop(pod))
            for step in self._steps.of(pod):
                undo.step(*step)
            with self._domain.block():
                undo.step("NRI", lambda: self._domain.run_pod(pod), lambda: self._domain.remove_pod(pod))
                done = [step.name for step in self._steps.of(pod)]
                self._inventory.move_pod(pod, "finish creation", sync=True, done=done, created_at_ns=time.time_ns())
        self._bus.publish(pod, pb.CONTAINER_CREATED_EVENT)
        self._bus.publish(pod, pb.CONTAINER_STARTED_EVENT)
        return pod.id

    def stop(self, prefix: str) -> None:
        """Stop a pod with all its containers, by force, and give its network back. Repeating it is no error."""
        try:
            pod = self._inventory.pod(prefix)
        except NotFound:
            return
        with pod.request_lock:
            self._stop(pod)

    def _stop(self, pod: PodEntry) -> None:
        if pod.record.state in (PodState.STOPPED, PodState.REMOVING):  # kubelets stop before each try of a removal
            return
        was_ready = pod.record.state is PodState.READY
        self._inventory.move_pod(pod, "stop")
        self._containers.end_all(pod.id, remove=False)
        with self._domain.block(urgent=True):
            self._steps.stop_holder(pod)
            self._domain.stop_pod(pod)
        complaints = take_back(self._steps.of(pod, only_running=True))
        if complaints:
            raise EngineError(f"pod {pod.id} is not stopped: {'; '.join(complaints)}")
        self._inventory.move_pod(pod, "finish stop", stopped_at_ns=time.time_ns(), pid=0)
        if was_ready:
            self._bus.publish(pod, pb.CONTAINER_STOPPED_EVENT)

    def remove(self, prefix: str) -> None:
        """Remove a pod with all its containers, stopped first by force. Repeating it is no error."""
        try:
            pod = self._inventory.pod(prefix)
        except NotFound:
            return
        with pod.request_lock:
            if pod.record.state is not PodState.REMOVING:
                self._stop(pod)
                self._inventory.move_pod(pod, "remove")
            self._containers.end_all(pod.id, remove=True)
            complaints = take_back(self._steps.of(pod))
            if complaints:
                raise EngineError(f"pod {pod.id} is not removed: {'; '.join(complaints)}")
            with self._domain.block(urgent=True):
                self._domain.remove_pod(pod)
                self._inventory.drop(pod)
        self._bus.publish(pod, pb.CONTAINER_DELETED_EVENT)

    def update_resources(
        self,
        prefix: str,
        overhead: pb.LinuxContainerResources | None,
        resources: pb.LinuxContainerResources | None,
    ) -> None:
        """Take over the overhead and resources of a pod, after plugins agreed. Its cgroup is the kubelet's own."""
        pod = self._inventory.pod(prefix)
        with pod.request_lock, self._domain.block():
            self._domain.update_pod(pod, overhead, resources)
            kept = {"overhead": overhead, "resources": resources}
            self._inventory.move_pod(
                pod, "update", resources={name: to_json(each) for name, each in kept.items() if each is not None}
            )
            for name, each in kept.items():
                if each is not None:
                    getattr(pod.config.linux, name).CopyFrom(each)
            self._domain.post_update_pod(pod)

    # --- inside ---

    def _new(self, config: pb.PodSandboxConfig, handler: str) -> PodEntry:
        """A record for a pod to be made. Raises RequestError for a configuration that cannot be."""
        metadata = config.metadata
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
            runtime_handler=handler,
            log_directory=config.log_directory,
        )
        self._steps.prepare(record, config)
        return PodEntry(record)
