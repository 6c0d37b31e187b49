"""The proxy's objects that handlers of CRI calls use, and look-ups of pods and containers.

An unknown pod or container is looked up at the runtime. If the runtime does not know it either, the call is passed on.
If the runtime cannot be queried, a call that creates or changes something fails, because it would bypass plugins; a
call that ends something is passed on.
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


R = TypeVar("R")
#: This much of the caller's time is kept for returning the answer, in seconds.
_ANSWER_S = 0.1

_log = logging.getLogger("nri.proxy")


def time_for(deadline: float | None) -> float | None:
    """The timeout of a query to the runtime inside a call with this deadline. Returns None for the default timeout."""
    if deadline is None:
        return None
    return min(max(deadline - monotonic() - _ANSWER_S, 0.001), CALL_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class CallContext:
    """The proxy's objects that handlers of CRI calls use."""

    settings: ProxySettings
    store: Store
    backend: Backend
    queries: RuntimeQueries
    domain: Domain
    adoption: Adoption
    hook_servers: HookServers | None

    def pod(self, pod_id: str, *, for_end: bool = False) -> PodRecord | None:
        """A pod by its id in the runtime. Raises the runtime's error.

        Args:
            for_end: whether the call ends the pod or container; then an error of the runtime is only logged.
        """
        record = self.store.pod(pod_id)
        return self._look_up(self.adoption.pod, pod_id, for_end) if record is None and pod_id else record

    def container(self, runtime_id: str, *, for_end: bool = False) -> tuple[ContainerRecord | None, PodRecord | None]:
        """A container by its id in the runtime, and its pod.

        Both are None if plugins are not notified of the container. Errors and `for_end` are as for `pod`.
        """
        record = self.store.container(runtime_id)
        if record is None and runtime_id:
            record = self._look_up(self.adoption.container, runtime_id, for_end)
        pod = self.pod(record.pod_id, for_end=for_end) if record is not None else None
        return (None, None) if pod is None or pod.skipped else (record, pod)

    def _look_up(self, ask: Callable[[str], R], identity: str, for_end: bool) -> R | None:
        try:
            return ask(identity)
        except Exception as error:
            if isinstance(error, RpcError) and error.code == NOT_FOUND:
                return None
            if not for_end:
                raise
            is_expected = isinstance(error, NriError)
            _log.warning(
                "the end of %s is not reported to plugins: %s", plain(identity), error, exc_info=not is_expected
            )
            return None

    def facts(self, record: ContainerRecord, deadline: float | None = None) -> ContainerFacts | None:
        """The runtime's information about a container.

        Returns None if it cannot be queried by the caller's deadline.
        """
        try:
            return self.queries.container(record.runtime_id, time_for(deadline))
        except NriError as error:
            _log.debug("container %s: %s", record.runtime_id, error)
            return None

    def call_hooks_before(
        self, method: str, data: bytes, request: Message, subject: Subject, deadline: float | None
    ) -> bytes:
        """Call hook servers before a request. Returns the bytes to pass on. Raises the error for the client."""
        if self.hook_servers is None:
            return data
        self.hook_servers.before(method, request, subject, deadline)
        return request.SerializeToString()

    def call_hooks_after(
        self, method: str, request: Message, response: Message, subject: Subject, deadline: float | None
    ) -> None:
        """Call hook servers after a response."""
        if self.hook_servers is not None:
            self.hook_servers.after(method, request, response, subject, deadline)
