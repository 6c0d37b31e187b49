"""The target for a runtime with a plugin that sends anything: a real adaptation, on real sockets.

What is held: nothing but documented errors, no traceback in a log, texts of one line, and a healthy plugin beside the
odd one gets every event.
"""

from __future__ import annotations

import socket
import threading
from functools import cache
from typing import Any

from hypothesis import strategies as st

import nri
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.api import naming
from nri.errors import NriError, ProtocolError
from nri.mux import Demux
from nri.mux.frames import cut
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import frames
from nri.ttrpc.envelope import decode_request, encode_request, encode_response, request_prefix
from nri.wire import bytes_field, iter_fields, varint_field
from tests.fuzz import inputs
from tests.fuzz.engine import Target
from tests.fuzz.plugin_side import TAKEN
from tests.fuzz.quiet import quiet
from tests.support.waiting import wait_for

__all__ = ["TARGETS"]

PATIENCE_S = 10.0
_PLUGIN, _RUNTIME = naming.PLUGIN_SERVICE_CONN, naming.RUNTIME_SERVICE_CONN

_POD, _CONTAINER = make_pod(name="web"), make_container(name="app")
_REPLIES = {
    "Configure": m.ConfigureResponse, "Synchronize": m.SynchronizeResponse,
    "CreateContainer": m.CreateContainerResponse, "UpdateContainer": m.UpdateContainerResponse,
    "StopContainer": m.StopContainerResponse,
    "ValidateContainerAdjustment": m.ValidateContainerAdjustmentResponse,
}  # fmt: skip
#: Fields of an input: the bytes of RegisterPlugin, then of one thing per request of the runtime that comes in.
_REGISTER, _REPLY, _RAW, _STATUS, _ASK = 1, 2, 3, 4, 5


@st.composite
def _answers(draw: st.DrawFn) -> bytes:
    """What a plugin does on one connection; as a rule it registers and takes part, then answers anything."""
    register = m.RegisterPluginRequest(
        plugin_name="odd",
        plugin_idx="10",
        NRI_version=draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
    )
    first = register.SerializeToString() if draw(st.integers(0, 4)) else draw(inputs.messages(m.RegisterPluginRequest))
    data = bytes_field(_REGISTER, first)
    usual: list[Any] = [m.ConfigureResponse(), m.SynchronizeResponse()]
    for place in range(draw(st.integers(0, 6))):
        what = draw(st.sampled_from([_REPLY] * 6 + [_RAW, _STATUS, _ASK]))
        if place < 2 and draw(st.integers(0, 3)):
            data += bytes_field(_REPLY, usual[place].SerializeToString())
        elif what == _REPLY:
            kind = draw(st.sampled_from(list(_REPLIES.values())))
            data += bytes_field(_REPLY, draw(inputs.messages(kind) | inputs.fields))
        elif what == _STATUS:
            code, text = draw(st.integers(1, 20)), draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
            data += bytes_field(_STATUS, varint_field(1, code) + bytes_field(2, text.encode()))
        elif what == _ASK:
            data += bytes_field(_ASK, draw(inputs.messages(m.UpdateContainersRequest) | inputs.fields))
        else:
            data += bytes_field(_RAW, draw(st.binary(max_size=30) | inputs.spoiled([TAKEN])))
    return data


class _Healthy(nri.Plugin):
    """The plugin beside the odd one; counts what it gets."""

    name = "healthy"
    count = 0

    def create_container(self, pod: Any, container: Any) -> Any:
        self.count += 1

    def start_container(self, pod: Any, container: Any) -> None:
        self.count += 1


class _Odd(threading.Thread):
    """The plugin at the other end: one thing from the input for each request that comes, then it hangs up."""

    def __init__(self, sock: socket.socket, data: bytes) -> None:
        super().__init__(daemon=True)
        self._sock = sock
        try:
            self._steps = [(number, value) for number, _, value in iter_fields(data) if isinstance(value, bytes)]
        except ProtocolError:
            self._steps = [(_REGISTER, data)]
        self._stream = 1
        self._demux, self._reader = Demux((_PLUGIN, _RUNTIME)), frames.FrameReader()

    def run(self) -> None:
        try:
            self._sock.settimeout(1.0)
            while self._steps:
                number, value = self._steps.pop(0)
                if number == _REGISTER:
                    self._ask("RegisterPlugin", value)
                elif number == _ASK:
                    self._ask("UpdateContainers", value)
                elif number == _RAW:
                    self._sock.sendall(value)
                else:
                    frame = frames.pack(self._request(), frames.RESPONSE, _response(number, value))
                    self._sock.sendall(cut(_PLUGIN, frame))
        except (OSError, ProtocolError):
            pass
        finally:
            self._sock.close()

    def _ask(self, method: str, payload: bytes) -> None:
        data = encode_request(request_prefix(naming.RUNTIME_SERVICE, method), payload)
        self._sock.sendall(cut(_RUNTIME, frames.pack(self._stream, frames.REQUEST, data)))
        self._stream += 2

    def _request(self) -> int:
        """Wait for a request, and return its stream."""
        while True:
            data = self._sock.recv(1 << 16)
            if not data:
                raise OSError("closed")
            for conn, chunk in self._demux.receive(data):
                for stream, kind, _, body, _ in self._reader.receive(chunk) if conn == _PLUGIN else ():
                    assert kind == frames.REQUEST
                    assert decode_request(body or b"").method
                    return stream


def _response(number: int, value: bytes) -> bytes:
    return encode_response(value) if number == _REPLY else bytes_field(1, value)


@cache
def _runtime(compat: Any) -> tuple[FakeRuntime, _Healthy]:
    healthy = _Healthy()
    policy = '["90-healthy"]\ntimeout = 60\n'  # a machine that stands still for a second costs it nothing
    runtime = FakeRuntime(compat=compat, request_timeout_s=1.0, registration_timeout_s=1.0, policy=policy)
    return runtime.add(healthy, idx="90"), healthy


def _adaptation(data: bytes) -> None:
    runtime, healthy = _runtime("reference" if len(data) % 4 == 0 else "default")
    local, remote = socket.socketpair()
    odd = _Odd(remote, data)
    with quiet():
        before = healthy.count
        runtime.connect(local)
        odd.start()
        _settled(runtime)
        refused = 0
        for event in (runtime.create_container, runtime.start_container):
            try:
                event(_POD, _CONTAINER)
            except NriError as error:
                refused += 1
                str(error).encode()
        odd.join(PATIENCE_S)
        assert not odd.is_alive(), "it never got its request, nor the end of the connection"
        _gone(runtime)
        for health in runtime.plugins:
            for text in (health.last_error, health.nri_version, health.plugin):
                assert text.isprintable(), text
                assert len(text) <= 4096, len(text)
        assert healthy.count - before >= 2 - refused, "the plugin beside it missed an event"
        before = healthy.count
        runtime.start_container(_POD, _CONTAINER)
        assert healthy.count == before + 1


def _settled(runtime: FakeRuntime) -> None:
    """Wait until the odd plugin takes part or is gone."""
    for peer in parts_of(runtime.adaptation).registry.unsettled():
        assert peer.handshake_over.wait(PATIENCE_S), peer.state


def _gone(runtime: FakeRuntime) -> None:
    """Wait until the connection has ended on this side, too."""
    wait_for(
        lambda: all(row.state == "gone" for row in runtime.plugins if row.plugin != "90-healthy"),
        lambda: str(runtime.plugins),
    )


TARGETS = (Target("adaptation", _answers(), _adaptation, share=0.1),)
