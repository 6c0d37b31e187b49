"""A WebAssembly plugin in the runtime: subscription, timeout and end."""

from __future__ import annotations

from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from nri.adaptation.peers.event_request import EventRequest
from nri.adaptation.peers.peer import Peer
from nri.adaptation.peers.state import Action, State
from nri.adaptation.peers.wasm import WasmPeer, function_name
from nri.api import messages as m
from nri.api.events import BY_RPC, EVENTS, EventMask
from nri.errors import ConnectionClosed, DeadlineExceeded, NriError, RemoteProtocolError, RpcError

ALL_NAMES = frozenset(("plugin_configure", "plugin_synchronize", *(f"plugin_{spec.method}" for spec in EVENTS)))


class Functions:
    """Functions with a configured answer."""

    def __init__(self, names: frozenset[str] = ALL_NAMES) -> None:
        self.names = names
        self.answer: bytes | NriError = b""
        self.calls: list[tuple[str, bytes, float]] = []
        self.ended: list[str] = []

    def call(self, function: str, payload: bytes, deadline: float) -> bytes:
        self.calls.append((function, payload, deadline))
        if isinstance(self.answer, NriError):
            raise self.answer
        return self.answer

    def end(self, reason: str) -> None:
        self.ended.append(reason)


class Nobody:
    """An owner that only notes."""

    def __init__(self) -> None:
        self.actions: list[Action] = []

    def act(self, peer: Peer, action: Action) -> None:
        self.actions.append(action)


def peer(functions: Functions, *, timeout_s: float = 2.0) -> WasmPeer:
    peer = WasmPeer(Nobody(), "10", "a", functions, "its: configuration", 0)
    policy: Any = SimpleNamespace(timeout_s=timeout_s)
    peer.event_policies = (policy,) * 16
    return peer


def test_functions_are_named_after_methods() -> None:
    assert [function_name(name) for name in ("Configure", "RunPodSandbox")] == [
        "plugin_configure",
        "plugin_run_pod_sandbox",
    ]


def test_a_wasm_plugin_has_the_references_label() -> None:
    assert peer(Functions()).qualified == "pre-connected-wasm:10-a"


@pytest.mark.pure  # its policy is not a real one
def test_an_event_has_the_same_bytes_as_for_other_plugins() -> None:
    functions = Functions()
    request = EventRequest(BY_RPC["StartContainer"], m.PodSandbox(id="p"), m.Container(id="c"))
    assert peer(functions).invoke(request, monotonic() + 2) == b""
    ((function, payload, _),) = functions.calls
    assert (function, payload) == ("plugin_start_container", request.encoded())


@pytest.mark.pure
def test_a_short_deadline_of_the_caller_does_not_kill_the_plugin() -> None:
    functions = Functions()
    request = EventRequest(BY_RPC["StartContainer"], m.PodSandbox(), m.Container())
    began = monotonic()
    peer(functions, timeout_s=9.0).invoke(request, began + 0.1)
    assert functions.calls[0][2] >= began + 9.0
    with pytest.raises(DeadlineExceeded):
        peer(functions).invoke(request, began - 1)


def test_all_events_means_the_events_with_functions() -> None:
    functions = Functions(frozenset(("plugin_configure", "plugin_create_container", "plugin_stop_container")))
    reply = m.ConfigureResponse.FromString(peer(functions).command("Configure", b"", 0.0))
    assert EventMask(reply.events) == EventMask.of("CreateContainer", "StopContainer")
    encoded = m.ConfigureResponse.FromString(peer(Functions()).command("Configure", b"", 0.0))
    assert encoded.events == 0


def test_subscribing_to_an_event_without_a_function_is_an_error_with_its_name() -> None:
    functions = Functions(frozenset(("plugin_configure",)))
    functions.answer = m.ConfigureResponse(events=EventMask.of("UpdatePodSandbox")).SerializeToString()
    with pytest.raises(RemoteProtocolError, match="to UpdatePodSandbox, but does not export plugin_update_pod_sandbox"):
        peer(functions).command("Configure", b"", 0.0)


def test_an_invalid_reply_to_configure_is_an_error_of_the_plugin() -> None:
    functions = Functions()
    functions.answer = b"\xff"
    with pytest.raises(RemoteProtocolError, match="its reply is invalid"):
        peer(functions).command("Configure", b"", 0.0)


def test_the_state_is_sent_in_one_message_of_any_size() -> None:
    functions = Functions()
    functions.answer = m.SynchronizeResponse(update=[m.ContainerUpdate(container_id="c7")]).SerializeToString()
    containers = [m.Container(id=f"c{number}", args=["x" * 100_000]) for number in range(60)]
    pods = [m.PodSandbox(id="p")]
    updates = peer(functions).synchronize(pods, containers, 1.0, timeout_per_part=True, max_entries=10)
    assert [update.container_id for update in updates] == ["c7"]
    ((_, payload, _),) = functions.calls
    assert len(m.SynchronizeRequest.FromString(payload).containers) == 60
    functions.answer = m.SynchronizeResponse(update=[m.ContainerUpdate(container_id="c")] * 100).SerializeToString()
    with pytest.raises(RemoteProtocolError, match="the reply to Synchronize"):
        peer(functions).synchronize([], [], 1.0, timeout_per_part=True, max_entries=10)


def test_a_missing_optional_function_is_not_called() -> None:
    functions = Functions(frozenset())
    assert peer(functions).command("Shutdown", b"", 0.0) == b""
    assert peer(functions).synchronize([], [], 1.0, timeout_per_part=True, max_entries=10) == []
    assert functions.calls == []


@pytest.mark.parametrize(
    ("failure", "lives"),
    [(RpcError(2, "no"), True), (DeadlineExceeded("x"), False), (ConnectionClosed("trapped"), False)],
    ids=["error", "late", "trap"],
)
def test_a_returned_error_keeps_the_plugin_and_other_failures_end_it(failure: NriError, lives: bool) -> None:
    functions = Functions()
    functions.answer = failure
    created = peer(functions)
    with pytest.raises(type(failure)):
        created.command("Synchronize", b"", 0.0)
    assert (created.state is not State.GONE, functions.ended == []) == (lives, lives)
