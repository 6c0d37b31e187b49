"""What the answers of calls work with, in one place, and the questions that all of them ask.

Rules: a pod or container that is not known is asked for at the runtime; one that the runtime does not know either is
None, and the call is passed on, so that the runtime says so. Next: `nri.proxy.events.pods`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri.errors import NriError
from nri.proxy.events.adoption import Adoption
from nri.proxy.events.domain import Domain
from nri.proxy.events.inquiry import ContainerFacts, Inquiry
from nri.proxy.events.updates import Updates
from nri.proxy.hooks import HookServers, Subject
from nri.proxy.passing import Backend
from nri.proxy.settings import ProxySettings
from nri.proxy.state import Book, ContainerRecord, PodRecord

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["Parts"]

_log = logging.getLogger("nri.proxy")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one proxy."""

    settings: ProxySettings
    book: Book
    backend: Backend
    inquiry: Inquiry
    domain: Domain
    updates: Updates
    adoption: Adoption
    hook_servers: HookServers | None

    def pod(self, pod_id: str) -> PodRecord | None:
        """A pod by the runtime's id."""
        found = self.book.pod(pod_id)
        if found is None and pod_id:
            try:
                found = self.adoption.pod(pod_id)
            except NriError as error:
                _log.debug("pod %s: %s", pod_id, error)
        return found

    def container(self, runtime_id: str) -> tuple[ContainerRecord | None, PodRecord | None]:
        """A container by the runtime's id, and its pod; both None if plugins are told nothing of it."""
        found = self.book.container(runtime_id)
        if found is None and runtime_id:
            try:
                found = self.adoption.container(runtime_id)
            except NriError as error:
                _log.debug("container %s: %s", runtime_id, error)
        pod = self.pod(found.pod_id) if found is not None else None
        return (None, None) if pod is None or pod.skipped else (found, pod)

    def facts(self, record: ContainerRecord) -> ContainerFacts | None:
        """A container as the runtime has it; None if that cannot be asked."""
        try:
            return self.inquiry.container(record.runtime_id)
        except NriError as error:
            _log.debug("container %s: %s", record.runtime_id, error)
            return None

    def before(self, method: str, data: bytes, request: Message, subject: Subject, deadline: float | None) -> bytes:
        """Ask hook servers about a request; returns the bytes to pass on. Raises what the call fails with."""
        if self.hook_servers is None:
            return data
        self.hook_servers.before(method, request, subject, deadline)
        return request.SerializeToString()

    def after(self, method: str, request: Message, response: Message, subject: Subject, deadline: float | None) -> None:
        """Tell hook servers of an answer."""
        if self.hook_servers is not None:
            self.hook_servers.after(method, request, response, subject, deadline)
