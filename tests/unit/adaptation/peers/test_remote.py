"""A plugin behind a socket: called by its own methods, or by StateChange if it is old."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nri.adaptation.peers.event_request import EventRequest
from nri.adaptation.peers.peer import EXTERNAL
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import Action, State
from nri.api import messages as m
from nri.api import naming
from nri.api.events import BY_METHOD, EventSpec
from nri.errors import ConnectionClosed, RpcError
from nri.mux import Trunk
from nri.testing import make_container, make_pod
from nri.ttrpc import Code, Endpoint, Request
from tests.support.endpoints import end, soon
from tests.support.waiting import wait_for

POD, CONTAINER = make_pod(), make_container()


class Owner:
    """Notes what a peer asks of those who own it."""

    def __init__(self) -> None:
        self.acts: list[Action] = []
        self.registered: list[bytes] = []
        self.old: list[str] = []

    def act(self, peer: Any, action: Action) -> None:
        self.acts.append(action)

    def register(self, peer: RemotePeer, payload: bytes) -> None:
        self.registered.append(payload)

    def update_containers(self, peer: RemotePeer, request: Request) -> bytes:
        return b"updated " + request.payload

    def deprecated(self, peer: RemotePeer, spec: EventSpec) -> None:
        self.old.append(spec.rpc)


class Sides:
    """A peer, and the plugin's end of its connection, which answers by a function."""

    def __init__(self, answer: Callable[[Request], bytes]) -> None:
        local, remote = socket.socketpair()
        self.owner = Owner()
        self.asked: list[str] = []

        def serve(request: Request) -> bytes:
            self.asked.append(request.method)
            return answer(request)

        self.peer = RemotePeer(self.owner, local, EXTERNAL)  # type: ignore[arg-type]
        plugin, runtime = naming.PLUGIN_SERVICE_CONN, naming.RUNTIME_SERVICE_CONN
        self.plugin = Endpoint(Trunk(remote, (plugin, runtime)), client_id=runtime, server_id=plugin, on_request=serve)
        self.thread = threading.Thread(target=self.plugin.serve, daemon=True)
        self.thread.start()

    def call(self, method: str, payload: bytes = b"", service: str = naming.RUNTIME_SERVICE) -> bytes:
        """Call the runtime, which reads meanwhile."""
        reading = threading.Thread(target=self.peer.endpoint.serve, daemon=True)
        reading.start()
        return self.plugin.call(service, method, payload, deadline=soon())

    def close(self) -> None:
        self.peer.close("done")
        self.thread.join(10)
        end(self.plugin)
        self.peer.release(soon(1))


@pytest.fixture
def sides() -> Iterator[Callable[..., Sides]]:
    created: list[Sides] = []

    def make(answer: Callable[[Request], bytes] = lambda request: request.payload) -> Sides:
        created.append(Sides(answer))
        return created[-1]

    yield make
    for resource in created:
        resource.close()


def old(request: Request) -> bytes:
    """A plugin of the first days."""
    if request.method != "StateChange":
        raise RpcError(Code.UNIMPLEMENTED, f"method {request.method}")
    return b""


def event(method: str = "start_container") -> EventRequest:
    return EventRequest(BY_METHOD[method], POD, CONTAINER)


def ask(created: Sides, requests: EventRequest, begun: bool) -> bytes:
    """Ask in one call, or in two halves."""
    if not begun:
        return created.peer.invoke(requests, soon())
    exchange = created.peer.begin(requests, soon())
    assert exchange is not None
    return created.peer.collect(requests, exchange, soon())


def test_an_event_calls_its_own_method(sides: Callable[..., Sides]) -> None:
    created = sides()
    reply = created.peer.invoke(event(), soon())
    assert m.StartContainerRequest.FromString(reply).container == CONTAINER
    assert (created.asked, created.peer.relay_only) == (["StartContainer"], False)


def test_an_old_plugin_is_called_only_by_state_change_after_the_first_try(
    sides: Callable[..., Sides],
) -> None:
    created = sides(old)
    for _ in range(2):
        created.peer.invoke(event(), soon())
    assert created.asked == ["StartContainer", "StateChange", "StateChange"]
    assert created.peer.begin(event(), soon()) is None, "its own method would be asked first"


def test_a_started_request_is_repeated_by_state_change(sides: Callable[..., Sides]) -> None:
    created = sides(old)
    exchange = created.peer.begin(event(), soon())
    assert exchange is not None
    assert created.peer.collect(event(), exchange, soon()) == b""
    assert created.asked == ["StartContainer", "StateChange"]


def test_the_owner_is_notified_once_for_each_event_of_an_old_plugin(sides: Callable[..., Sides]) -> None:
    created = sides(old)
    for method in ("start_container", "start_container", "post_start_container"):
        created.peer.invoke(event(method), soon())
    assert created.owner.old == ["StartContainer", "PostStartContainer"]


@pytest.mark.parametrize("begun", [True, False])
def test_an_event_with_an_answer_has_no_fallback_method(sides: Callable[..., Sides], begun: bool) -> None:
    created = sides(old)
    requests = event("stop_container")
    with pytest.raises(RpcError, match="method StopContainer"):
        ask(created, requests, begun)
    assert created.asked == ["StopContainer"]


@pytest.mark.parametrize("begun", [True, False])
def test_another_error_of_the_plugin_is_its_answer(sides: Callable[..., Sides], begun: bool) -> None:
    def fail(request: Request) -> bytes:
        raise RpcError(Code.NOT_FOUND, "gone")

    created = sides(fail)
    with pytest.raises(RpcError, match="gone"):
        ask(created, event(), begun)
    assert created.asked == ["StartContainer"]


def test_an_abandoned_reply_is_ignored(sides: Callable[..., Sides]) -> None:
    created = sides()
    exchange = created.peer.begin(event(), soon())
    assert exchange is not None
    created.peer.abandon(exchange)
    assert created.peer.command("Configure", b"x", soon()) == b"x"


def test_registration_and_update_requests_reach_the_owner(sides: Callable[..., Sides]) -> None:
    created = sides()
    assert created.call("RegisterPlugin", b"me") == b""
    assert created.owner.registered == [b"me"]
    assert created.plugin.call(naming.RUNTIME_SERVICE, "UpdateContainers", b"c", deadline=soon()) == b"updated c"


@pytest.mark.parametrize(
    ("service", "method", "text"),
    [("other.Service", "RegisterPlugin", "service other.Service"), (naming.RUNTIME_SERVICE, "Evict", "method Evict")],
)
def test_an_unknown_method_of_the_runtime_is_unimplemented(
    sides: Callable[..., Sides], service: str, method: str, text: str
) -> None:
    with pytest.raises(RpcError) as caught:
        sides().call(method, b"", service)
    assert (caught.value.code, caught.value.message) == (Code.UNIMPLEMENTED, text)


def test_a_closed_connection_disconnects_the_plugin(sides: Callable[..., Sides]) -> None:
    created = sides()
    created.plugin.close()
    with pytest.raises(ConnectionClosed):
        created.peer.invoke(event(), soon())
    wait_for(lambda: created.peer.state is State.GONE, "it is gone")
    assert created.owner.acts == [Action.CLOSE]
    assert created.peer.last_error


def test_the_state_of_the_runtime_is_sent_to_the_plugin(sides: Callable[..., Sides]) -> None:
    def answer(request: Request) -> bytes:
        state = m.SynchronizeRequest.FromString(request.payload)
        reply = m.SynchronizeResponse(update=[m.ContainerUpdate(container_id=c.id) for c in state.containers])
        return reply.SerializeToString()

    created = sides(answer)
    updates = created.peer.synchronize([POD], [CONTAINER], 10.0, timeout_per_part=True, max_entries=0)
    assert [update.container_id for update in updates] == [CONTAINER.id]
