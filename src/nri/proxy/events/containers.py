"""The calls on containers: ask plugins, change the request, pass it to the runtime, and report the result.

The runtime assigns a container's id, so plugins know the container by an id that the proxy generates. The record is
saved before the runtime is called: a proxy that was killed in between finds the container by its name in the pod.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

import grpc

from nri.adaptation import CreateReply, UpdateReply, UpdateResult
from nri.api import messages as m
from nri.cri import convert
from nri.cri.client import decode_answer
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError, describe
from nri.proxy.adjust import ZERO, Owners, UnsupportedEntry, adjust, wishes, zeros
from nri.proxy.events.adoption import container_key, start_key
from nri.proxy.events.call_context import CallContext
from nri.proxy.events.updates import in_force, merged
from nri.proxy.events.views import created_container, requested_container
from nri.proxy.hooks import Subject
from nri.proxy.passing import Call, RuntimeFailed
from nri.proxy.state import CREATED, CREATING, ContainerRecord, PodRecord

_log = logging.getLogger("nri.proxy")
#: Statuses after which the runtime may have executed the request, or may still do so.
_UNCLEAR = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
#: A creation writes at most this many lines to the log; an adjustment may have thousands of entries.
MAX_LOGGED_ENTRIES = 20


class ContainerCalls:
    """Handlers of the calls on containers; each receives the request's bytes and the call."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

    def create_container(self, data: bytes, call: Call) -> bytes:
        """Create a container with the adjustments of plugins."""
        context = self._context
        request = pb.CreateContainerRequest.FromString(data)
        pod = context.pod(request.pod_sandbox_id)
        if pod is None or pod.skipped:
            return call.forward(data)
        data = context.call_hooks_before("CreateContainer", data, request, Subject(pod), call.deadline)
        record = ContainerRecord(id=secrets.token_hex(32), pod_id=pod.id, config=request.config, reported_step=CREATING)
        with context.store.creation_in_progress(*container_key(pod.id, request.config.metadata)):
            answer = self._create(data, request, pod, record, call)
        response = decode_answer(pb.CreateContainerResponse, answer)
        context.call_hooks_after("CreateContainer", request, response, Subject(pod, record), call.deadline)
        return answer

    def _create(
        self, data: bytes, request: pb.CreateContainerRequest, pod: PodRecord, record: ContainerRecord, call: Call
    ) -> bytes:
        context = self._context
        record.plugin_view = requested_container(record)
        record.requested_resources.CopyFrom(request.config.linux.resources)
        with context.domain.block(deadline=call.deadline):
            reply = context.domain.create(pod, record, call.deadline)
            try:
                data = self._adjusted_request(data, request, record, reply)
                record.resources.CopyFrom(request.config.linux.resources)
                context.store.put(record)
                answer = call.forward(data)
            except BaseException as error:
                reply.abort(reason=describe(error))
                context.domain.undo_create(record, call.deadline)
                raise
            record.runtime_id = decode_answer(pb.CreateContainerResponse, answer).container_id
            _log.info("plugins know container %s by the id %s", record.runtime_id, record.id)
            record.plugin_view = created_container(record, context.facts(record, call.deadline))
            context.store.note(record, reported_step=CREATED)
            update = m.ContainerUpdate(container_id=record.id)
            update.linux.resources.CopyFrom(reply.adjust.linux.resources)
            with context.domain.updates.turn(record) as order:
                order.note(UpdateResult(update), reply.numbers)
            context.domain.follow(reply, call.deadline)
            context.domain.post_create(record)
        return answer

    def _adjusted_request(
        self, data: bytes, request: pb.CreateContainerRequest, record: ContainerRecord, reply: CreateReply
    ) -> bytes:
        """The request with adjustments. Raises RequestError for unsupported adjustments if the settings refuse them."""
        if not wishes(reply.adjust):
            return data
        unsaid = adjust(request.config, reply.adjust, Owners(reply.owners, record.id))
        _report(self._context.settings.unsayable == "refuse", request, unsaid)
        return request.SerializeToString()

    def start_container(self, data: bytes, call: Call) -> bytes:
        """Start a container."""
        context = self._context
        request = pb.StartContainerRequest.FromString(data)
        record, pod = context.container(request.container_id)
        if record is None:
            return call.forward(data)
        data = context.call_hooks_before("StartContainer", data, request, Subject(pod, record), call.deadline)
        with context.domain.block(deadline=call.deadline), context.store.creation_in_progress(*start_key(record)):
            context.domain.start(record, call.deadline)
            try:
                answer = call.forward(data)
            except BaseException as error:
                self._report_failed_start(record, error, call.deadline)
                raise
            context.store.note(record, plugin_view=created_container(record, context.facts(record, call.deadline)))
            context.domain.post_start(record)
        response = decode_answer(pb.StartContainerResponse, answer)
        context.call_hooks_after("StartContainer", request, response, Subject(pod, record), call.deadline)
        return answer

    def _report_failed_start(self, record: ContainerRecord, error: BaseException, deadline: float | None) -> None:
        """Report the state of a container to plugins whose start has failed or was not answered."""
        if not (isinstance(error, RuntimeFailed) and error.code in _UNCLEAR):
            self._context.domain.stop(record, deadline)
            return
        facts = self._context.facts(record)
        state = facts.status.state if facts is not None else pb.CONTAINER_UNKNOWN
        _log.warning("the runtime has not answered the start of container %s: %s", record.runtime_id, error)
        if state == pb.CONTAINER_RUNNING:
            self._context.store.note(record, plugin_view=created_container(record, facts))
            self._context.domain.post_start(record)
        elif state == pb.CONTAINER_EXITED:
            self.ended(record, deadline)
        # Otherwise the container may still start. Its end is reported when it is found in a list, or when it is
        # removed.

    def update_container_resources(self, data: bytes, call: Call) -> bytes:
        """Update the resources of a container with the changes of plugins."""
        context = self._context
        request = pb.UpdateContainerResourcesRequest.FromString(data)
        record, pod = context.container(request.container_id)
        if record is None or not request.HasField("linux"):
            return call.forward(data)
        subject = Subject(pod, record)
        data = context.call_hooks_before("UpdateContainerResources", data, request, subject, call.deadline)
        resources = convert.to_nri(request.linux, "linux").value
        with context.domain.block(deadline=call.deadline):
            reply = context.domain.update(record, resources, call.deadline)
            answer = self._update(data, request, record, reply, call)
            context.domain.follow(reply, call.deadline)
            context.domain.post_update(record)
        response = decode_answer(pb.UpdateContainerResourcesResponse, answer)
        context.call_hooks_after("UpdateContainerResources", request, response, subject, call.deadline)
        return answer

    def _update(
        self,
        data: bytes,
        request: pb.UpdateContainerResourcesRequest,
        record: ContainerRecord,
        reply: UpdateReply,
        call: Call,
    ) -> bytes:
        context, is_sent = self._context, False
        requested = merged(record.requested_resources, request.linux)
        try:
            with context.domain.updates.turn(record, call.deadline) as order:
                update = m.ContainerUpdate(container_id=record.id)
                update.linux.resources.CopyFrom(reply.resources)
                result, numbers = UpdateResult(update), reply.numbers
                newest = order.newest(reply.resources, numbers, result)
                if reply.changed or newest is not reply.resources:
                    data = self._changed_request(request, reply.resources, newest, record)
                answer = call.forward(data)
                is_sent = True
                if record.requested_resources.ByteSize():
                    context.store.note(record, requested_resources=requested)
                in_force(context.store, record, request.linux, newest)
                for field in zeros(newest):
                    result.mark_unsupported(field, ZERO)
                order.note(result, numbers)
        except BaseException:
            if not is_sent:
                reply.abort()
            raise
        return answer

    def _changed_request(
        self,
        request: pb.UpdateContainerResourcesRequest,
        complete: m.LinuxResources,
        newest: m.LinuxResources,
        record: ContainerRecord,
    ) -> bytes:
        """The request with all resources that plugins set, except those that a later answer has set."""
        if newest is not complete:
            cri_newest = convert.to_cri(newest).value
            linux: Any = request.linux
            for field, value in convert.to_cri(complete).value.ListFields():
                if getattr(cri_newest, field.name) != value:
                    linux.ClearField(field.name)
        converted = convert.to_cri(newest, request.linux)
        request.linux.CopyFrom(converted.value)
        for drop in converted.dropped:
            _log.warning("update of container %s: a plugin's change is left out: %s", record.runtime_id, drop)
        return request.SerializeToString()

    def stop_container(self, data: bytes, call: Call) -> bytes:
        """Stop a container, and report it to plugins."""
        context = self._context
        request = pb.StopContainerRequest.FromString(data)
        record, pod = context.container(request.container_id, for_end=True)
        if record is None:
            return call.forward(data)
        data = context.call_hooks_before("StopContainer", data, request, Subject(pod, record), call.deadline)
        answer = call.forward(data)
        with context.domain.block(urgent=True):
            self.ended(record, call.deadline)
        response = decode_answer(pb.StopContainerResponse, answer)
        context.call_hooks_after("StopContainer", request, response, Subject(pod, record), call.deadline)
        return answer

    def remove_container(self, data: bytes, call: Call) -> bytes:
        """Remove a container, and report it to plugins."""
        context = self._context
        runtime_id = pb.RemoveContainerRequest.FromString(data).container_id
        record = context.store.container(runtime_id)
        answer = call.forward(data)
        if record is not None:
            with context.domain.block(urgent=True):
                context.domain.remove(record, call.deadline)
        return answer

    def ended(self, record: ContainerRecord, deadline: float | None = None) -> None:
        """Report a container that has ended to plugins, with its exit code."""
        if record.reported_step == CREATED:
            shown = created_container(record, self._context.facts(record, deadline))
            self._context.store.note(record, plugin_view=shown)
            self._context.domain.stop(record, deadline)


def _report(refuse: bool, request: pb.CreateContainerRequest, unsaid: list[UnsupportedEntry]) -> None:
    """Log values of an adjustment that the CRI cannot express. Raises RequestError if `refuse` is true."""
    if not unsaid:
        return
    if refuse:
        raise RequestError(unsaid[0].field, unsaid[0].value, f"cannot be expressed in the CRI: {unsaid[0]}")
    name = request.config.metadata.name
    for entry in unsaid[:MAX_LOGGED_ENTRIES]:
        _log.warning("container %s of pod %s: an adjustment is left out: %s", name, request.pod_sandbox_id, entry)
    if len(unsaid) > MAX_LOGGED_ENTRIES:
        more = len(unsaid) - MAX_LOGGED_ENTRIES
        _log.warning("container %s of pod %s: %d more are left out", name, request.pod_sandbox_id, more)
