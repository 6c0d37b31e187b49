"""Call registered hook servers for calls of the CRI, apply their answers, and handle their failures."""

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
from nri.user_agent import grpc_options

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from nri.proxy.hooks import Subject
    from nri.proxy.settings import ProxySettings


#: The number of open connections, as in Koordinator's proxy.
MAX_CONNECTIONS = 10
_OPTIONS = [*grpc_options(), ("grpc.use_local_subchannel_pool", 1)]


class HookServerError(NriError):
    """A hook server did not answer.

    Attributes:
        absent: no program listens on the server's socket.
    """

    def __init__(self, endpoint: str, reason: str, absent: bool) -> None:
        super().__init__(f"{endpoint}: {reason}")
        self.absent = absent


class Clients:
    """Connections by endpoint. The least recently used connection is closed first. Thread-safe."""

    def __init__(self, max_connections: int = MAX_CONNECTIONS) -> None:
        self._max_connections = max_connections
        self._lock = threading.Lock()
        self.channels: OrderedDict[str, grpc.Channel] = OrderedDict()

    def __len__(self) -> int:
        """The number of open connections."""
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
                self._forget_channel(endpoint, channel)
            late = code is grpc.StatusCode.DEADLINE_EXCEEDED
            reason = f"no answer to {method.name} within {timeout_s:.3g} s" if late else error.details() or code.name
            raise HookServerError(endpoint, plain(reason), absent) from None
        except ValueError as error:  # another thread has closed the channel
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
            old = self.channels.popitem(last=False)[1] if len(self.channels) > self._max_connections else None
        if old is not None:
            old.close()
        return channel

    def _forget_channel(self, endpoint: str, channel: grpc.Channel) -> None:
        with self._lock:
            if self.channels.get(endpoint) is channel:
                del self.channels[endpoint]
        channel.close()


#: The time that is kept for the runtime, and the minimum timeout of a hook server, in seconds.
_RUNTIME_SHARE_S, _MIN_TIMEOUT_S = 0.5, 0.01

_log = logging.getLogger("nri.proxy.hook_servers")

Fields = dict[str, Any]


class HookServersFailed(NriError):
    """A request is refused because a hook server with the failure policy "Fail" did not answer."""


class RegisteredServers:
    """All registered hook servers behind the proxy's interface `HookServers`. Thread-safe.

    The first server that lists the stage is called. If it fails, the request fails only under its failure policy
    "Fail"; under "Ignore", the next server is called if the server is absent.

    Args:
        folder: the folder of registrations.
        timeout_s: the timeout of a server, in seconds.
        every: call all servers that list a stage in order, each with the changes of the previous servers.
        skip: pods with this label are not passed to hook servers.
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
        """The hook servers of a proxy's settings. Returns None if they are disabled."""
        hook_settings = settings.hook_servers
        skip = (settings.skip_label_key, settings.skip_label_value)
        return (
            cls(hook_settings.folder, hook_settings.timeout, every=hook_settings.every, skip=skip)
            if hook_settings.enable
            else None
        )

    def start(self) -> None:
        """Read the registrations once, so that the log lists the servers and invalid files."""
        self.registrations.servers()

    def stop(self) -> None:
        """Close all connections. A later call opens new connections."""
        self._clients.close()

    def before(self, method: str, request: Message, subject: Subject, deadline: float | None) -> None:
        """Call hook servers before a request, and apply their answers to it. Raises HookServersFailed."""
        original = fields = self._notify(request, subject)
        if fields is None:
            return
        passed: list[str] = []
        while (response := self._next_answer(method, PRE, fields, deadline, passed)) is not None:
            fields = _MERGED[method](fields, response) if method in _MERGED else fields
            if not self._every:
                break
        if fields is not original:
            _CHANGE[method](request, original, fields)

    def after(self, method: str, request: Message, response: Message, subject: Subject, deadline: float | None) -> None:  # noqa: ARG002
        """Call hook servers after a successful response. Their answers are ignored. Never raises."""
        fields = self._notify(request, subject)
        if fields is None:
            return
        passed: list[str] = []
        while self._next_answer(method, POST, fields, deadline, passed) is not None and self._every:
            pass

    def _notify(self, request: Message, subject: Subject) -> Fields | None:
        """The fields of a request for hook servers. Returns None if its pod is unknown or has the skip label."""
        if isinstance(request, cri.RunPodSandboxRequest):
            fields = requests.pod_of_run(fields_of(request))
            return None if requests.skipped(fields.get("labels"), self._skip) else fields
        if subject.pod is None:
            _log.warning("hook servers are not called: unknown pod in %s", type(request).__name__)
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
            _log.warning("hook servers are not called: unknown container in %s", type(request).__name__)
            return None
        stored = _stored_request(subject, pod)
        if isinstance(request, cri.UpdateContainerResourcesRequest):
            return requests.container_of_update(fields_of(request), stored)
        return stored

    def _next_answer(
        self, method: str, moment: str, fields: Fields, deadline: float | None, passed: list[str]
    ) -> Fields | None:
        """The answer of the next hook server, or None. Servers that were called are added to `passed`."""
        servers = self.registrations.servers()
        while choice := chosen(servers, method, moment, passed):
            server, stage = choice
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
        remaining_s = self._timeout_s if deadline is None else deadline - monotonic() - _RUNTIME_SHARE_S
        return max(min(self._timeout_s, remaining_s), _MIN_TIMEOUT_S)


def _stored_request(subject: Subject, pod: Fields) -> Fields:
    """The hook request of an existing container."""
    assert subject.pod is not None and subject.container is not None  # noqa: PT018  checked by the caller
    record = subject.container
    request = {"config": fields_of(record.config), "sandbox_config": fields_of(subject.pod.config)}
    fields = requests.container_of_create(request, pod)
    in_force = fields_of(record.resources)
    return {
        **fields,
        "container_meta": {**fields["container_meta"], "id": record.runtime_id},
        "container_resources": in_force or fields["container_resources"],
    }


#: Functions that apply an answer to the hook request, by call. Answers for other calls are not applied.
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
