"""The calls on pods: pass them on, and report them to hook servers and plugins.

Plugins receive a pod after the runtime has created it, because it has no id before. If plugins refuse the pod, it is
stopped and removed again.
"""

from __future__ import annotations

import logging

from nri.cri.client import decode_answer
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.proxy.events.adoption import is_skipped, pod_key
from nri.proxy.events.call_context import CallContext, time_for
from nri.proxy.events.views import pod_shown
from nri.proxy.hooks import Subject
from nri.proxy.passing import Call
from nri.proxy.state import PodRecord

_UNDO_S = 60.0
_log = logging.getLogger("nri.proxy")


class PodCalls:
    """Handlers of the calls on pods. Each receives the request's bytes and the call."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

    def run_pod_sandbox(self, data: bytes, call: Call) -> bytes:
        """Create a pod, and report it to plugins."""
        context = self._context
        request = pb.RunPodSandboxRequest.FromString(data)
        if is_skipped(context.settings, request.config):
            answer = call.forward(data)
            skipped = PodRecord(id=decode_answer(pb.RunPodSandboxResponse, answer).pod_sandbox_id, skipped=True)
            skipped.config, skipped.runtime_handler = request.config, request.runtime_handler
            context.store.put(skipped)
            return answer
        data = context.call_hooks_before("RunPodSandbox", data, request, Subject(), call.deadline)
        with context.store.creation_in_progress(*pod_key(request.config.metadata)):
            answer = call.forward(data)
            response = decode_answer(pb.RunPodSandboxResponse, answer)
            record = PodRecord(response.pod_sandbox_id, request.config, request.runtime_handler)
            self._report(record, call)
        context.call_hooks_after("RunPodSandbox", request, response, Subject(record), call.deadline)
        return answer

    def _report(self, record: PodRecord, call: Call) -> None:
        """Report a pod to plugins. If they refuse the pod, remove it and raise their error."""
        context = self._context
        try:
            facts = context.queries.pod(record.id, time_for(call.deadline))
            record.plugin_view = pod_shown(facts, record.config)
            with context.domain.block(deadline=call.deadline):
                context.store.put(record)
                context.domain.run_pod(record, call.deadline)
        except BaseException:
            self._undo(record)
            raise

    def _undo(self, record: PodRecord) -> None:
        context = self._context
        try:
            context.backend.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=record.id), _UNDO_S)
            context.backend.call("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=record.id), _UNDO_S)
        except NriError as error:
            _log.warning("cannot remove pod %s, which plugins refused: %s", record.id, error)
        context.domain.remove_pod(record)

    def stop_pod_sandbox(self, data: bytes, call: Call) -> bytes:
        """Stop a pod, and report its end and the end of its containers to plugins."""
        context = self._context
        request = pb.StopPodSandboxRequest.FromString(data)
        pod = context.pod(request.pod_sandbox_id, for_end=True)
        if pod is None or pod.skipped:
            return call.forward(data)
        data = context.call_hooks_before("StopPodSandbox", data, request, Subject(pod), call.deadline)
        answer = call.forward(data)
        with context.domain.block(urgent=True):
            context.domain.stop_pod(pod, call.deadline)
        context.call_hooks_after(
            "StopPodSandbox", request, decode_answer(pb.StopPodSandboxResponse, answer), Subject(pod), call.deadline
        )
        return answer

    def remove_pod_sandbox(self, data: bytes, call: Call) -> bytes:
        """Remove a pod, and report its removal and the removal of its containers to plugins."""
        context = self._context
        pod = context.pod(pb.RemovePodSandboxRequest.FromString(data).pod_sandbox_id, for_end=True)
        answer = call.forward(data)
        if pod is not None and pod.skipped:
            context.store.drop(pod)
        elif pod is not None:
            with context.domain.block(urgent=True):
                context.domain.remove_pod(pod, call.deadline)
        return answer

    def update_pod_sandbox_resources(self, data: bytes, call: Call) -> bytes:
        """Report new resources of a pod to plugins, before and after the change."""
        context = self._context
        request = pb.UpdatePodSandboxResourcesRequest.FromString(data)
        pod = context.pod(request.pod_sandbox_id)
        if pod is None or pod.skipped:
            return call.forward(data)
        with context.domain.block(deadline=call.deadline):
            context.domain.update_pod(pod, request, call.deadline)
            answer = call.forward(data)
            context.domain.post_update_pod(pod, request)
        return answer
