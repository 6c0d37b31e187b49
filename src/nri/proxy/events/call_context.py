"""Everything that answers of calls work with, in one place, and the questions that all of them ask.

Rules: a pod or container that is not known is asked for at the runtime; one that the runtime does not know either is
None, and the call is passed on, so that the runtime says so. Where the runtime cannot be asked, a call that makes or
changes something fails, because it would pass by plugins; one that ends something is passed on. Next:
`nri.proxy.events.pods`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from nri.errors import NriError, RpcError
from nri.proxy.events.adoption import NOT_FOUND, Adoption
from nri.proxy.events.domain import Domain
from nri.proxy.events.runtime_queries import ContainerFacts, RuntimeQueries
from nri.proxy.hooks import HookServers, Subject
from nri.proxy.passing import Backend
from nri.proxy.passing.backend import CALL_TIMEOUT_S
from nri.proxy.settings import ProxySettings
from nri.proxy.state import ContainerRecord, PodRecord, Store
from nri.text import plain

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["CallContext", "time_for"]

R = TypeVar("R")
#: So much of the caller's time is left for the answer to reach it, in seconds.
_ANSWER_S = 0.1

_log = logging.getLogger("nri.proxy")


def time_for(deadline: float | None) -> float | None:
    """Seconds that a question to the runtime may take inside a call with this deadline; None for as usual."""
    if deadline is None:
        return None
    return min(max(deadline - monotonic() - _ANSWER_S, 0.001), CALL_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class CallContext:
    """Everything of one proxy that a call may need."""

    settings: ProxySettings
    store: Store
    backend: Backend
    queries: RuntimeQueries
    domain: Domain
    adoption: Adoption
    hook_servers: HookServers | None

    def pod(self, pod_id: str, *, ends: bool = False) -> PodRecord | None:
        """A pod by the runtime's id; `ends` is for calls that end something. Raises what the runtime says."""
        found = self.store.pod(pod_id)
        return self._asked(self.adoption.pod, pod_id, ends) if found is None and pod_id else found

    def container(self, runtime_id: str, *, ends: bool = False) -> tuple[ContainerRecord | None, PodRecord | None]:
        """A container by the runtime's id, and its pod, as `pod`; both None if plugins hear nothing of it."""
        found = self.store.container(runtime_id)
        if found is None and runtime_id:
            found = self._asked(self.adoption.container, runtime_id, ends)
        pod = self.pod(found.pod_id, ends=ends) if found is not None else None
        return (None, None) if pod is None or pod.skipped else (found, pod)

    def _asked(self, ask: Callable[[str], R], name: str, ends: bool) -> R | None:
        try:
            return ask(name)
        except Exception as error:
            if isinstance(error, RpcError) and error.code == NOT_FOUND:
                return None
            if not ends:
                raise
            known = isinstance(error, NriError)
            _log.warning("the end of %s passes by plugins: %s", plain(name), error, exc_info=not known)
            return None

    def facts(self, record: ContainerRecord, deadline: float | None = None) -> ContainerFacts | None:
        """A container as the runtime has it; None if that cannot be asked, or not by the caller's deadline."""
        try:
            return self.queries.container(record.runtime_id, time_for(deadline))
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
