"""The runtime, for a plugin: its name and version, and updates that the plugin requests.

An update is sent at once, or after the reply if a handler requests it: old runtimes hold a lock during an event, and
would deadlock with a handler that waits for them.
"""

from __future__ import annotations

from time import monotonic

from nri import versions
from nri.api import messages as m
from nri.api import naming
from nri.api.builders.update import Update
from nri.errors import ConnectionClosed, NriError, RpcError
from nri.stub.support import context
from nri.stub.support.pending import UPDATE_TIMEOUT_S, Pending
from nri.text import plain
from nri.ttrpc.codes import Code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    from nri.stub.support.runtime_profile import RuntimeProfile
    from nri.ttrpc.endpoint import Endpoint
    from nri.ttrpc.envelope import Response

    AnUpdate: TypeAlias = Update | m.ContainerUpdate

#: Runtimes that ignore evictions without an error, because they use the Go library.
RUNTIMES_WITHOUT_EVICTION = ("containerd", "cri-o")
#: The profile of each runtime that supports only a part of NRI, by the name in its Configure request.
_PROFILE_NAMES = {"docker": "docker", "v2": "isulad", "isulad": "isulad"}
#: At most this many updates wait for an answer.
MAX_PENDING = 256
# An answer contains the updates that failed. It is refused if it is longer than this multiple of the request's size,
# plus these additional bytes.
_MAX_ANSWER_RATIO, _MAX_EXTRA_BYTES = 2, 16_384


def _message(update: Any) -> m.ContainerUpdate:
    """The message of an update. Raises TypeError or NriError, with the fix, for any other value."""
    message = getattr(update, "message", update)
    if not isinstance(message, m.ContainerUpdate):
        hint = ""
        if isinstance(update, str):
            hint = f": write nri.Update({update!r}).set_cpu_shares(512)"
        elif isinstance(message, m.ContainerEviction):
            hint = ": request it with runtime.evict()"
        raise TypeError(f"runtime.update() takes nri.Update objects, not {type(update).__name__}{hint}")
    if not message.container_id:
        raise NriError("the update has no container id: nri.Update(container_id)")
    return message


class RuntimeHandle:
    """The runtime to which the plugin is connected. Before the first connection, names are empty and updates fail.

    Attributes:
        name, version: as reported by the runtime, for example "containerd" and "v2.2.0".
        nri_version: the NRI release that the runtime uses, as reported or inferred from its version; "" if unknown.
        registration_timeout_s, request_timeout_s: its timeouts, in seconds; the defaults if not reported.
        connected: whether updates can be sent at present.
        profile: for the session: shapes answers for a runtime with a part of NRI (`nri.stub.support.runtime_profile`);
            None for other runtimes.
        sets_check: for the session: checks requests (`nri.stub.support.sets_check`); None without a check.
    """

    __slots__ = (
        "_endpoint",
        "_is_empty_reported",
        "_is_strict",
        "_label",
        "_outstanding",
        "_warned",
        "connected",
        "name",
        "nri_version",
        "profile",
        "registration_timeout_s",
        "request_timeout_s",
        "sets_check",
        "version",
    )

    def __init__(
        self,
        endpoint: Endpoint | None = None,
        sets_check: Any = None,
        label: str = "",
        refuse_unsupported: bool = False,
    ) -> None:
        self._endpoint, self.sets_check = endpoint, sets_check
        self._label, self._is_strict = label, refuse_unsupported
        self.profile: RuntimeProfile | None = None
        self._outstanding: set[Pending] = set()
        self._warned = self._is_empty_reported = False
        self.connected = False
        self.name = self.version = self.nri_version = ""
        self.registration_timeout_s = naming.REGISTRATION_TIMEOUT_S
        self.request_timeout_s = naming.REQUEST_TIMEOUT_S

    @property
    def outstanding(self) -> int:
        """The number of updates and evictions that wait to be answered, or to be sent after a handler's reply."""
        return len(self._outstanding)

    def introduce(self, request: m.ConfigureRequest) -> None:
        """Store what the runtime reports about itself in Configure. For the session."""
        self.name, self.version = plain(request.runtime_name, 128), plain(request.runtime_version, 128)
        self.nri_version = versions.infer_nri_version(self.name, self.version, request.NRI_version)
        profile_name = _PROFILE_NAMES.get(self.name.lower())
        if profile_name is not None:
            from nri.stub.support.runtime_profile import RuntimeProfile

            self.profile = RuntimeProfile(profile_name, self._label, is_strict=self._is_strict)
        if request.registration_timeout:
            self.registration_timeout_s = request.registration_timeout / 1000
        if request.request_timeout:
            self.request_timeout_s = request.request_timeout / 1000
        self.connected = True

    def update(self, *updates: AnUpdate | Iterable[AnUpdate]) -> Pending:
        """Request one update of a container, several, or a list. In a handler, they are sent after its reply.

        Raises:
            ConnectionClosed: there is no connection.
            NriError: an update has no container id, or too many updates wait for an answer.
            TypeError: an argument is not an update.
        """
        request = m.UpdateContainersRequest()
        for argument in updates:
            items: Any = argument if hasattr(argument, "__iter__") and not isinstance(argument, str) else (argument,)
            messages = [_message(update) for update in items]
            request.update.extend(messages)
            for message in messages:
                self.warn_if_empty(message)
        if not request.update:
            pending = Pending(False)
            pending.finish([])
            return pending
        if self.profile is not None:
            self.profile.leave_out("a requested update of a container", may_refuse=False)
            pending = Pending(False)
            pending.finish([], RpcError(Code.UNIMPLEMENTED, f"{self.profile.title} does not support updates"))
            return pending
        return self._ask(request)

    def evict(self, container: str | m.Container, reason: str = "") -> Pending:
        """Request the eviction of a container. The reason is logged.

        If the runtime is known to ignore evictions, as containerd and CRI-O do, the outcome is an RpcError
        ("unsupported"), and a warning is logged once.

        Raises:
            ConnectionClosed: there is no connection.
            NriError: the id is empty, or too many updates wait for an answer.
            TypeError: `container` is neither an id nor a container, or the reason is not text.
        """
        container_id = container.id if isinstance(container, m.Container) else container
        if not isinstance(container_id, str):
            type_name = type(container).__name__
            raise TypeError(
                f"runtime.evict() takes a container or its id, not {type_name}: write evict(container, reason)"
            )
        if not isinstance(reason, str):
            raise TypeError(f"runtime.evict() takes the reason as text, not {type(reason).__name__}")
        if not container_id:
            raise NriError("the eviction has no container id: evict(container, reason)")
        if self.connected and self.ignores_evictions():
            pending = Pending(False)
            pending.finish([], RpcError(Code.UNIMPLEMENTED, self._unsupported()), reported=True)
            return pending
        request = m.UpdateContainersRequest()
        request.evict.add(container_id=container_id, reason=reason)
        return self._ask(request)

    def warn_if_empty(self, update: m.ContainerUpdate) -> None:
        """Log, once per connection, an update without values, which has no effect."""
        if self._is_empty_reported or update.linux.resources.ByteSize():
            return
        self._is_empty_reported = True
        from nri.stub.support import logs

        logs.adapter("stub").warning(
            "plugin %s requests an update of container %s without values, which has no effect: call a setter, for"
            " example nri.Update(container).set_cpu_shares(512), or leave the update out",
            self._label or "without a name", plain(update.container_id, 128),
        )  # fmt: skip

    def ignores_evictions(self) -> bool:
        """Whether the runtime is known to ignore or refuse evictions. The first time, a warning is logged."""
        ignores = self.profile is not None or self.name in RUNTIMES_WITHOUT_EVICTION
        if ignores and not self._warned:
            self._warned = True
            from nri.stub.support import logs

            logs.adapter("stub").warning("%s: the container keeps running", self._unsupported())
        return ignores

    def _unsupported(self) -> str:
        return f"evictions are unsupported: {self.name} {self.version} ignores them"

    def _ask(self, request: m.UpdateContainersRequest) -> Pending:
        if not self.connected:
            raise ConnectionClosed("no connection to a runtime")
        if len(self._outstanding) >= MAX_PENDING:
            raise NriError(f"too many requests: {MAX_PENDING} updates wait for the runtime's answer")
        if self.sets_check is not None:
            self.sets_check.check_request(request)
        call = context.current.get()
        in_handler = call is not None and not call.finished
        containers = [update.container_id for update in request.update]
        pending = Pending(in_handler, containers or [eviction.container_id for eviction in request.evict])
        self._outstanding.add(pending)
        payload = request.SerializeToString()
        if call is None or not in_handler:
            self.send(pending, payload)
            return pending
        if call.queued is None:
            call.queued = []
        call.queued.append((pending, payload))
        if call.finished:  # in another thread in the meantime, which may have sent the queue before this entry
            self.send_queued(call)
        return pending

    def send_queued(self, call: context.Call) -> None:
        """Send the requests of a handler, after its reply. For the session."""
        while call.queued:
            try:
                pending, payload = call.queued.pop(0)
            except IndexError:
                return  # another thread has sent the last one
            self.send(pending, payload)

    def send(self, pending: Pending, payload: bytes) -> None:
        """Send a request. For the session."""
        endpoint = self._endpoint

        def arrived(response: Response | None) -> None:
            self._outstanding.discard(pending)
            if response is None:
                pending.finish([], ConnectionClosed((endpoint and endpoint.closed) or "closed"))
            elif response.code:
                pending.finish([], RpcError(response.code, plain(response.message)))
            elif len(response.payload) > _MAX_ANSWER_RATIO * len(payload) + _MAX_EXTRA_BYTES:
                pending.finish([], NriError(f"the runtime's answer is too long: {len(response.payload)} bytes"))
            else:
                try:
                    failed = m.UpdateContainersResponse.FromString(response.payload).failed
                    pending.finish([Update.of(update) for update in failed])
                except Exception as error:  # noqa: BLE001 - protobuf's error classes have no public base
                    pending.finish([], NriError(f"the runtime's answer cannot be read: {error}"))

        try:
            if endpoint is None:
                raise ConnectionClosed("no connection to a runtime")
            endpoint.start(naming.RUNTIME_SERVICE, "UpdateContainers", payload, monotonic() + UPDATE_TIMEOUT_S, arrived)
        except NriError as error:
            self._outstanding.discard(pending)
            pending.finish([], error)
