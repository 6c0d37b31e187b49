"""The registered hook servers at the calls of the CRI: whom to ask, what their answers change, what a failure means.

Rules: the first server that lists the stage is asked, and no other, unless all are wanted. A server without an answer
costs the request only under its failure policy "Fail"; one under "Ignore" that is not there leaves its turn to the
next. After a call only its success is reported, and what is answered then changes nothing. Pods with the skip label are
never shown. Next: `nri.proxy.hook_servers`, the decisions.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import grpc

from nri.cri.pb import api_pb2 as cri
from nri.errors import NriError
from nri.proxy.hook_servers import merge, requests
from nri.proxy.hook_servers.dispatch import POST, PRE, chosen
from nri.proxy.hook_servers.messages import METHODS, SERVICE, change_container, change_pod, change_update, fields_of
from nri.proxy.hook_servers.registrations import FOLDER, Registrations
from nri.text import plain

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from nri.proxy.hooks import Subject
    from nri.proxy.settings import ProxySettings

__all__ = ["Clients", "HookServerError", "HookServersFailed", "RegisteredServers"]


#: Connections that are kept, as with the original.
MOST = 10
_OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
]


class HookServerError(NriError):
    """A hook server gave no answer.

    Attributes:
        absent: it could not be asked at all: no program listens at its socket.
    """

    def __init__(self, endpoint: str, reason: str, absent: bool) -> None:
        super().__init__(f"{endpoint}: {reason}")
        self.absent = absent


class Clients:
    """Connections by endpoint, the least used one closed first. Any thread may ask."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self.channels: OrderedDict[str, grpc.Channel] = OrderedDict()

    def __len__(self) -> int:
        """The number of connections that are kept."""
        return len(self.channels)

    def ask(self, endpoint: str, stage: str, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Call the stage's method, and return the response as a dict. Raises HookServerError."""
        method = METHODS[stage]
        channel = self._channel(endpoint)
        call = channel.unary_unary(
            f"/{SERVICE}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        try:
            return fields_of(call(method.request(**request), timeout=timeout_s))
        except grpc.RpcError as error:
            code = error.code()
            absent = code is grpc.StatusCode.UNAVAILABLE
            if absent:
                self._forget(endpoint, channel)
            late = code is grpc.StatusCode.DEADLINE_EXCEEDED
            reason = f"no answer to {method.name} in {timeout_s:.3g} s" if late else error.details() or code.name
            raise HookServerError(endpoint, plain(reason), absent) from None
        except ValueError as error:  # the channel was closed by another thread: evicted, or forgotten
            raise HookServerError(endpoint, plain(str(error)), absent=True) from None

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            channels = [*self.channels.values()]
            self.channels.clear()
        for channel in channels:
            channel.close()

    def _channel(self, endpoint: str) -> grpc.Channel:
        with self._lock:
            channel = self.channels.pop(endpoint, None)
            if channel is None:
                channel = grpc.insecure_channel(f"unix://{endpoint}", options=_OPTIONS)
            self.channels[endpoint] = channel
            old = self.channels.popitem(last=False)[1] if len(self.channels) > self._most else None
        if old is not None:
            old.close()
        return channel

    def _forget(self, endpoint: str, channel: grpc.Channel) -> None:
        with self._lock:
            if self.channels.get(endpoint) is channel:
                del self.channels[endpoint]
        channel.close()


#: So much of the caller's own time is left for the runtime, and no server has less than the other, in seconds.
_LEFT_S, _SHORTEST_S = 0.5, 0.01

_log = logging.getLogger("nri.proxy.hook_servers")

Fields = dict[str, Any]


class HookServersFailed(NriError):
    """A request is refused because a hook server under the failure policy "Fail" gave no answer."""


class RegisteredServers:
    """All registered hook servers as one: the proxy's `HookServers`. Any thread may call.

    Args:
        folder: where they register.
        timeout_s: how long one has to answer, in seconds.
        every: ask all that list a stage, one after the other, each with what those before it have changed.
        skip: pods with this label are not shown.
    """

    def __init__(
        self,
        folder: Path = FOLDER,
        timeout_s: float = 2.0,
        *,
        every: bool = False,
        skip: tuple[str, str] = requests.SKIP_LABEL,
    ) -> None:
        self.registrations = Registrations(folder)
        self._clients = Clients()
        self._timeout_s, self._every, self._skip = timeout_s, every, skip

    @classmethod
    def of(cls, settings: ProxySettings) -> RegisteredServers | None:
        """Those that a proxy's settings want; None for none."""
        own = settings.hook_servers
        skip = (settings.skip_label_key, settings.skip_label_value)
        return cls(own.folder, own.timeout, every=own.every, skip=skip) if own.enable else None

    def start(self) -> None:
        """Look for hook servers once, so that the log names them and what is wrong with files."""
        self.registrations.servers()

    def stop(self) -> None:
        """End all connections; a call that comes later makes new ones."""
        self._clients.close()

    def before(self, method: str, request: Message, subject: Subject, deadline: float | None) -> None:
        """Ask about a call before it is passed on, and change the request by the answers. Raises HookServersFailed."""
        asked = fields = self._notify(request, subject)
        if fields is None:
            return
        passed: list[str] = []
        while (response := self._answer(method, PRE, fields, deadline, passed)) is not None:
            fields = _MERGED[method](fields, response) if method in _MERGED else fields
            if not self._every:
                break
        if fields is not asked:
            _CHANGE[method](request, asked, fields)

    def after(self, method: str, request: Message, response: Message, subject: Subject, deadline: float | None) -> None:  # noqa: ARG002
        """Tell of a call that the runtime has answered. Raises nothing."""
        fields = self._notify(request, subject)
        if fields is None:
            return
        passed: list[str] = []
        while self._answer(method, POST, fields, deadline, passed) is not None and self._every:
            pass

    def _notify(self, request: Message, subject: Subject) -> Fields | None:
        """The fields of a request for hook servers; None for nothing: its pod is not known, or not to be shown."""
        if isinstance(request, cri.RunPodSandboxRequest):
            fields = requests.pod_of_run(fields_of(request))
            return None if requests.skipped(fields.get("labels"), self._skip) else fields
        if subject.pod is None:
            _log.warning("hook servers are not asked about a pod that is not known: %s", type(request).__name__)
            return None
        pod = requests.pod_of_run(
            {"config": fields_of(subject.pod.config), "runtime_handler": subject.pod.runtime_handler}
        )
        if requests.skipped(pod.get("labels"), self._skip):
            return None
        if isinstance(request, cri.StopPodSandboxRequest):
            return pod
        if isinstance(request, cri.CreateContainerRequest):
            return requests.container_of_create(fields_of(request), pod)
        if subject.container is None:
            _log.warning("hook servers are not asked about a container that is not known: %s", type(request).__name__)
            return None
        stored = _stored(subject, pod)
        if isinstance(request, cri.UpdateContainerResourcesRequest):
            return requests.container_of_update(fields_of(request), stored)
        return stored

    def _answer(
        self, method: str, moment: str, fields: Fields, deadline: float | None, passed: list[str]
    ) -> Fields | None:
        """The next answer to be had, None if there is no further one; `passed` are the servers that had their turn."""
        servers = self.registrations.servers()
        while found := chosen(servers, method, moment, passed):
            server, stage = found
            passed.append(server.endpoint)
            try:
                return self._clients.ask(server.endpoint, stage, fields, self._time(deadline))
            except HookServerError as error:
                meta = fields.get("pod_meta") or {}
                name = plain(f"{meta.get('namespace', '')}/{meta.get('name', '')}", 300)
                _log.warning("hook server %s; %s of pod %s", error, stage, name)
                if moment == PRE and server.failure_policy == "Fail":
                    raise HookServersFailed(f"hook server err: {error}") from None
                if not (error.absent or self._every):
                    return None
        return None

    def _time(self, deadline: float | None) -> float:
        left = self._timeout_s if deadline is None else deadline - monotonic() - _LEFT_S
        return max(min(self._timeout_s, left), _SHORTEST_S)


def _stored(subject: Subject, pod: Fields) -> Fields:
    """The hook request of a container that is there."""
    assert subject.pod is not None and subject.container is not None  # noqa: PT018  the caller has looked
    record = subject.container
    request = {"config": fields_of(record.config), "sandbox_config": fields_of(subject.pod.config)}
    fields = requests.container_of_create(request, pod)
    in_force = fields_of(record.resources)
    return {
        **fields,
        "container_meta": {**fields["container_meta"], "id": record.runtime_id},
        "container_resources": in_force or fields["container_resources"],
    }


#: The changes by an answer, by call: first of the hook protocol's request, then of the CRI's. Others change nothing.
_MERGED: Final[Mapping[str, Callable[[Fields, Mapping[str, Any]], Fields]]] = {
    "RunPodSandbox": merge.pod_after_response,
    "CreateContainer": merge.container_after_response,
    "UpdateContainerResources": merge.container_after_response,
}
_CHANGE: Final[Mapping[str, Callable[..., None]]] = {
    "RunPodSandbox": change_pod,
    "CreateContainer": change_container,
    "UpdateContainerResources": change_update,
}
