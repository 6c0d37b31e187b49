"""StopPodSandbox and RemovePodSandbox, which undo the steps of `PodSteps`. Neither fails for a missing pod."""

from __future__ import annotations

import time

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call
from nri.engine.calls.container_removal import ContainerRemoval
from nri.engine.calls.pod_creation import PodSteps
from nri.engine.lifecycle.inventory import PodEntry
from nri.engine.lifecycle.parts import Parts
from nri.engine.lifecycle.undo import take_back
from nri.engine.state import PodState
from nri.engine.support.errors import EngineError, NotFound


class PodRemoval:
    """Stops and removes pods."""

    def __init__(self, parts: Parts, steps: PodSteps, containers: ContainerRemoval) -> None:
        self._inventory, self._domain, self._events = parts.inventory, parts.domain, parts.events
        self._steps, self._containers = steps, containers

    def stop_pod_sandbox(self, request: pb.StopPodSandboxRequest, call: Call) -> pb.StopPodSandboxResponse:
        """Stop a pod with its containers. No effect if the pod is already stopped."""
        self.stop(request.pod_sandbox_id)
        return pb.StopPodSandboxResponse()

    def remove_pod_sandbox(self, request: pb.RemovePodSandboxRequest, call: Call) -> pb.RemovePodSandboxResponse:
        """Remove a pod with its containers, which are killed first."""
        self.remove(request.pod_sandbox_id)
        return pb.RemovePodSandboxResponse()

    def stop(self, prefix: str) -> None:
        """Kill all containers of a pod, and release its network. Calling it again has no effect."""
        try:
            pod = self._inventory.pod(prefix)
        except NotFound:
            return
        with pod.request_lock:
            self._stop(pod)

    def _stop(self, pod: PodEntry) -> None:
        if pod.record.state in (PodState.STOPPED, PodState.REMOVING):  # kubelets stop a pod before they remove it
            return
        was_ready = pod.record.state is PodState.READY
        self._inventory.move_pod(pod, "stop")
        self._containers.end_all(pod.id, remove=False)
        with self._domain.block(urgent=True):
            self._steps.stop_pause_process(pod)
            self._domain.stop_pod(pod)
        complaints = take_back(self._steps.of(pod, only_running=True))
        if complaints:
            raise EngineError(f"pod {pod.id} is not stopped: {'; '.join(complaints)}")
        self._inventory.move_pod(pod, "finish stop", stopped_at_ns=time.time_ns(), pid=0)
        if was_ready:
            self._events.publish(pod, pb.CONTAINER_STOPPED_EVENT)

    def remove(self, prefix: str) -> None:
        """Kill and remove all containers of a pod, then remove the pod. Calling it again has no effect."""
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
        self._events.publish(pod, pb.CONTAINER_DELETED_EVENT)
