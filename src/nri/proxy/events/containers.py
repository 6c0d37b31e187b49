"""The calls on containers: plugins are asked, the request is changed, the runtime does it, plugins are told.

Rules: a container has no id before the runtime has made it, so plugins know it by a name that is made here, for all of
its life. What is asked is written down before the runtime is asked: a proxy that is killed in between finds the
container by its name in the pod. A creation that fails is taken back at the plugins. Next: `nri.proxy.adjust`.
"""

from __future__ import annotations

import logging
import secrets

import grpc

from nri.adaptation import CreateReply, UpdateReply, UpdateResult
from nri.adaptation.audit.reporting import ANSWERS
from nri.api import messages as m
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError
from nri.proxy.adjust import Owners, Unsaid, adjust
from nri.proxy.events.adoption import container_key, start_key
from nri.proxy.events.parts import Parts
from nri.proxy.events.updates import in_force, merged
from nri.proxy.events.views import asked_for, made
from nri.proxy.hooks import Subject
from nri.proxy.passing import Call, RuntimeFailed
from nri.proxy.state import CREATED, CREATING, ContainerRecord, PodRecord

__all__ = ["ContainerCalls"]

_log = logging.getLogger("nri.proxy")
#: Statuses after which the runtime may have done what it was asked for, or may still do it.
_UNCLEAR = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
#: Lines of the log about one creation; an adjustment may have thousands of entries.
_MOST_TOLD = 20


class ContainerCalls:
    """Answers of the calls on containers; each gets the request's bytes and the call."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def create_container(self, data: bytes, call: Call) -> bytes:
        """Make a container as plugins want it."""
        parts = self._parts
        request = pb.CreateContainerRequest.FromString(data)
        pod = parts.pod(request.pod_sandbox_id)
        if pod is None or pod.skipped:
            return call.forward(data)
        data = parts.before("CreateContainer", data, request, Subject(pod), call.deadline)
        record = ContainerRecord(id=secrets.token_hex(32), pod_id=pod.id, config=request.config, told=CREATING)
        with parts.book.being_made(*container_key(pod.id, request.config.metadata)):
            answer = self._create(data, request, pod, record, call)
        response = pb.CreateContainerResponse.FromString(answer)
        parts.after("CreateContainer", request, response, Subject(pod, record), call.deadline)
        return answer

    def _create(
        self, data: bytes, request: pb.CreateContainerRequest, pod: PodRecord, record: ContainerRecord, call: Call
    ) -> bytes:
        parts = self._parts
        record.shown = asked_for(record)
        record.asked.CopyFrom(request.config.linux.resources)
        with parts.domain.block(deadline=call.deadline):
            reply = parts.domain.create(pod, record, call.deadline)
            try:
                data = self._adjusted(data, request, record, reply)
                record.resources.CopyFrom(request.config.linux.resources)
                parts.book.put(record)
                answer = call.forward(data)
            except BaseException:
                # What it wants of others is only done once the container is there, so there is nothing to restore.
                reply.abort(lambda _: None)
                parts.domain.undo_create(record, call.deadline)
                raise
            record.runtime_id = pb.CreateContainerResponse.FromString(answer).container_id
            _log.info("container %s is %s to plugins", record.runtime_id, record.id)
            record.shown = made(record, parts.facts(record, call.deadline))
            parts.book.note(record, told=CREATED)
            parts.updates.follow(reply, call.deadline)
            parts.domain.post_create(record)
        return answer

    def _adjusted(
        self, data: bytes, request: pb.CreateContainerRequest, record: ContainerRecord, reply: CreateReply
    ) -> bytes:
        """The request with what plugins want in it. Raises RequestError if it is to hold all of that, and cannot."""
        if not reply.adjust.ByteSize():
            return data
        unsaid = adjust(request.config, reply.adjust, Owners(reply.owners, record.id))
        _report(self._parts.settings.unsayable == "refuse", request, unsaid)
        return request.SerializeToString()

    def start_container(self, data: bytes, call: Call) -> bytes:
        """Start a container."""
        parts = self._parts
        request = pb.StartContainerRequest.FromString(data)
        record, pod = parts.container(request.container_id)
        if record is None:
            return call.forward(data)
        data = parts.before("StartContainer", data, request, Subject(pod, record), call.deadline)
        with parts.domain.block(deadline=call.deadline), parts.book.being_made(*start_key(record)):
            parts.domain.start(record, call.deadline)
            try:
                answer = call.forward(data)
            except BaseException as error:
                self._not_started(record, error, call.deadline)
                raise
            parts.book.note(record, shown=made(record, parts.facts(record, call.deadline)))
            parts.domain.post_start(record)
        response = pb.StartContainerResponse.FromString(answer)
        parts.after("StartContainer", request, response, Subject(pod, record), call.deadline)
        return answer

    def _not_started(self, record: ContainerRecord, error: BaseException, deadline: float | None) -> None:
        """Tell plugins what has become of a container whose start has failed, or has not been answered."""
        if not (isinstance(error, RuntimeFailed) and error.code in _UNCLEAR):
            self._parts.domain.stop(record, deadline)
            return
        facts = self._parts.facts(record)
        state = facts.status.state if facts is not None else pb.CONTAINER_UNKNOWN
        _log.warning("whether container %s has started was not answered: %s", record.runtime_id, error)
        if state == pb.CONTAINER_RUNNING:
            self._parts.book.note(record, shown=made(record, facts))
            self._parts.domain.post_start(record)
        elif state == pb.CONTAINER_EXITED:
            self.ended(record, deadline)
        # Else it may still start; its end is told when it is found, or when it is removed.

    def update_container_resources(self, data: bytes, call: Call) -> bytes:
        """Give a container other resources, as plugins want them."""
        parts = self._parts
        request = pb.UpdateContainerResourcesRequest.FromString(data)
        record, pod = parts.container(request.container_id)
        if record is None or not request.HasField("linux"):
            return call.forward(data)
        subject = Subject(pod, record)
        data = parts.before("UpdateContainerResources", data, request, subject, call.deadline)
        wanted = convert.to_nri(request.linux, "linux").value
        with parts.domain.block(deadline=call.deadline):
            reply = parts.domain.update(record, wanted, call.deadline)
            answer = self._update(data, request, record, reply, call)
            parts.updates.follow(reply, call.deadline)
            parts.domain.post_update(record)
        response = pb.UpdateContainerResourcesResponse.FromString(answer)
        parts.after("UpdateContainerResources", request, response, subject, call.deadline)
        return answer

    def _update(
        self,
        data: bytes,
        request: pb.UpdateContainerResourcesRequest,
        record: ContainerRecord,
        reply: UpdateReply,
        call: Call,
    ) -> bytes:
        parts, done = self._parts, False
        asked = merged(record.asked, request.linux)
        try:
            with parts.updates.turn(record, call.deadline) as answers:
                if reply.changed:
                    data = self._changed(request, reply.resources, record)
                answer = call.forward(data)
                done = True
                if record.asked.ByteSize():
                    parts.book.note(record, asked=asked)
                in_force(parts.book, record, request.linux, reply.resources)
                own = m.ContainerUpdate(container_id=record.id)
                own.linux.resources.CopyFrom(reply.resources)
                # What comes from the kubelet alone is a later word than all answers so far.
                number = reply.order_of(own) if reply.changed else next(ANSWERS)
                answers.update((row.field, number) for row in UpdateResult(own).fields)
        except BaseException:
            if not done:
                reply.abort(lambda _: None)
            raise
        return answer

    def _changed(
        self, request: pb.UpdateContainerResourcesRequest, wanted: m.LinuxResources, record: ContainerRecord
    ) -> bytes:
        """The request with the resources that plugins want in it."""
        found = convert.to_cri(wanted, request.linux)
        request.linux.CopyFrom(found.value)
        for each in found.dropped:
            _log.warning("update of container %s: a plugin's change is left out: %s", record.runtime_id, each)
        return request.SerializeToString()

    def stop_container(self, data: bytes, call: Call) -> bytes:
        """Stop a container, and tell plugins of it."""
        parts = self._parts
        request = pb.StopContainerRequest.FromString(data)
        record, pod = parts.container(request.container_id, ends=True)
        if record is None:
            return call.forward(data)
        data = parts.before("StopContainer", data, request, Subject(pod, record), call.deadline)
        answer = call.forward(data)
        with parts.domain.block(urgent=True):
            self.ended(record, call.deadline)
        response = pb.StopContainerResponse.FromString(answer)
        parts.after("StopContainer", request, response, Subject(pod, record), call.deadline)
        return answer

    def remove_container(self, data: bytes, call: Call) -> bytes:
        """Remove a container, and tell plugins of it."""
        parts = self._parts
        runtime_id = pb.RemoveContainerRequest.FromString(data).container_id
        record = parts.book.container(runtime_id)
        answer = call.forward(data)
        if record is not None:
            with parts.domain.block(urgent=True):
                parts.domain.remove(record, call.deadline)
        return answer

    def ended(self, record: ContainerRecord, deadline: float | None = None) -> None:
        """Tell plugins of a container that has ended, with its exit code."""
        if record.told == CREATED:
            shown = made(record, self._parts.facts(record, deadline))
            self._parts.book.note(record, shown=shown)
            self._parts.domain.stop(record, deadline)


def _report(refuse: bool, request: pb.CreateContainerRequest, unsaid: list[Unsaid]) -> None:
    """Tell what of an adjustment is left out. Raises RequestError if nothing is to be."""
    if not unsaid:
        return
    if refuse:
        raise RequestError(unsaid[0].field, unsaid[0].value, f"cannot be said in the CRI: {unsaid[0]}")
    name = request.config.metadata.name
    for each in unsaid[:_MOST_TOLD]:
        _log.warning("container %s of pod %s: an adjustment is left out: %s", name, request.pod_sandbox_id, each)
    if len(unsaid) > _MOST_TOLD:
        more = len(unsaid) - _MOST_TOLD
        _log.warning("container %s of pod %s: and %d more are left out", name, request.pod_sandbox_id, more)
