"""Pods: made, stopped, removed.

A pod is pinned namespaces, files, and a place in a network; no image, and a process only where its containers share a
process namespace. Rules: each step stands in a table with its undo; every undo takes "not there" for done, so that a
failed creation, a stop, a removal and a restart all take back the same way. Next: :mod:`nri.engine.lifecycle.creation`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.bus import EventBus
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.lives import Lives, PodLife, to_json
from nri.engine.lifecycle.parts.machinery import Machinery
from nri.engine.lifecycle.parts.undo import Undo, take_back
from nri.engine.lifecycle.pod_steps import PodSteps
from nri.engine.network import Attached
from nri.engine.network.results import parse_result
from nri.engine.spec import pod_sysctls
from nri.engine.state import PodRecord, PodState
from nri.engine.state.names import new_id, pod_name
from nri.engine.support.errors import EngineError, NotThere
from nri.errors import RequestError

__all__ = ["Pods"]

_log = logging.getLogger(__name__)


class Pods:
    """The pods of an engine. `end_containers` stops or removes the containers of a pod: (pod's id, remove them too)."""

    def __init__(self, lives: Lives, machinery: Machinery, domain: Domain, bus: EventBus, steps: PodSteps) -> None:
        self._lives, self._machinery, self._domain, self._bus = lives, machinery, domain, bus
        self._steps = steps
        self.end_containers: Callable[[str, bool], object] = lambda _pod, _remove: None

    # --- asking ---

    def get(self, prefix: str) -> PodRecord:
        """The record of a pod, by its id or the beginning of it. Raises NotThere. Not to be changed."""
        return self._lives.pod(prefix).record

    def life(self, prefix: str) -> PodLife:
        """A pod with its configuration as a message, by its id or the beginning of it. Raises NotThere."""
        return self._lives.pod(prefix)

    def list(self) -> list[PodRecord]:
        """The records of all pods, the oldest first."""
        return [each.record for each in self._lives.pods()]

    def attached(self, prefix: str) -> Attached | None:
        """The pod's place in its network; None for a pod on the node's."""
        network = self._lives.pod(prefix).record.network
        return parse_result(network, "eth0") if network else None

    # --- the calls ---

    def run(self, config: pb.PodSandboxConfig, handler: str = "") -> str:
        """Make a pod and start it; returns its id. What fails is undone. Raises RequestError, NriError."""
        handler = self._machinery.handler(handler)
        life = self._new(config, handler)
        with life.life, Undo(f"pod {life.id}") as undo:
            undo.step("record", lambda: self._lives.add(life), lambda: self._lives.drop(life))
            for step in self._steps.of(life):
                undo.step(*step)
            with self._domain.block():
                undo.step("NRI", lambda: self._domain.run_pod(life), lambda: self._domain.remove_pod(life))
                done = [step.name for step in self._steps.of(life)]
                self._lives.move_pod(life, "finish creation", sync=True, done=done, created_at_ns=time.time_ns())
        self._bus.tell(life, pb.CONTAINER_CREATED_EVENT)
        self._bus.tell(life, pb.CONTAINER_STARTED_EVENT)
        return life.id

    def stop(self, prefix: str) -> None:
        """Stop a pod with all its containers, by force, and give its network back. Repeating it is no error."""
        try:
            life = self._lives.pod(prefix)
        except NotThere:
            return
        with life.life:
            self._stop(life)

    def _stop(self, life: PodLife) -> None:
        if life.record.state is PodState.STOPPED:
            return
        was_ready = life.record.state is PodState.READY
        self._lives.move_pod(life, "stop")
        self.end_containers(life.id, False)
        with self._domain.block(urgent=True):
            self._steps.stop_holder(life)
            self._domain.stop_pod(life)
        complaints = take_back(self._steps.of(life, only_running=True))
        if complaints:
            raise EngineError(f"pod {life.id} is not stopped: {'; '.join(complaints)}")
        self._lives.move_pod(life, "finish stop", stopped_at_ns=time.time_ns(), pid=0)
        if was_ready:
            self._bus.tell(life, pb.CONTAINER_STOPPED_EVENT)

    def remove(self, prefix: str) -> None:
        """Remove a pod with all its containers, stopped first by force. Repeating it is no error."""
        try:
            life = self._lives.pod(prefix)
        except NotThere:
            return
        with life.life:
            if life.record.state is not PodState.REMOVING:
                self._stop(life)
                self._lives.move_pod(life, "remove")
            self.end_containers(life.id, True)
            complaints = take_back(self._steps.of(life))
            if complaints:
                raise EngineError(f"pod {life.id} is not removed: {'; '.join(complaints)}")
            with self._domain.block(urgent=True):
                self._domain.remove_pod(life)
                self._lives.drop(life)
        self._bus.tell(life, pb.CONTAINER_DELETED_EVENT)

    def update_resources(
        self,
        prefix: str,
        overhead: pb.LinuxContainerResources | None,
        resources: pb.LinuxContainerResources | None,
    ) -> None:
        """Take over the overhead and resources of a pod, after plugins agreed. Its cgroup is the kubelet's own."""
        life = self._lives.pod(prefix)
        with life.life, self._domain.block():
            self._domain.update_pod(life, overhead, resources)
            kept = {"overhead": overhead, "resources": resources}
            self._lives.move_pod(
                life, "update", resources={name: to_json(each) for name, each in kept.items() if each is not None}
            )
            for name, each in kept.items():
                if each is not None:
                    getattr(life.config.linux, name).CopyFrom(each)
            self._domain.post_update_pod(life)

    # --- inside ---

    def _new(self, config: pb.PodSandboxConfig, handler: str) -> PodLife:
        """A record for a pod to be made. Raises RequestError for a configuration that cannot be."""
        metadata = config.metadata
        for field in ("name", "namespace", "uid"):
            if not getattr(metadata, field):
                raise RequestError(f"metadata.{field}", "", "is needed")
        if config.log_directory and not config.log_directory.startswith("/"):
            raise RequestError("log_directory", config.log_directory, "is no absolute path")
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
        return PodLife(record)
