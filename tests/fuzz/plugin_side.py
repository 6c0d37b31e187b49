"""The target for a plugin whose runtime sends anything: a real session, on a real socket.

What is held: nothing but documented errors, no traceback in a log, no handler before Configure, and answers that are
frames.
"""

from __future__ import annotations

import socket
from typing import Any

from hypothesis import strategies as st

import nri
from nri.api import messages as m
from nri.api import naming
from nri.api.events import EVENTS
from nri.errors import NriError
from nri.mux import Demux
from nri.mux.frames import cut
from nri.stub.session.session import Session
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_request, request_prefix
from tests.fuzz import inputs
from tests.fuzz.engine import Target
from tests.fuzz.quiet import quiet

__all__ = ["TAKEN", "TARGETS"]

PATIENCE_S = 10.0
_PLUGIN, _RUNTIME = naming.PLUGIN_SERVICE_CONN, naming.RUNTIME_SERVICE_CONN


class _Everything(nri.Plugin):
    """Handles all events, and looks at what it gets."""

    mirror = True

    def __init__(self) -> None:
        self.configured = False

    class Config:
        a: str = ""
        n: int = 0

    config: Config

    def configure(self) -> None:
        self.configured = True

    def synchronize(self, pods: Any, containers: Any) -> Any:
        self._look(*pods, *containers)

    def create_container(self, pod: Any, container: Any) -> Any:
        self._look(pod, container)
        return nri.Adjustment().add_env("A", "1"), [nri.Update("c").set_cpu_shares(2)]

    def update_container(self, pod: Any, container: Any, resources: Any) -> Any:
        self._look(pod, container, resources)

    def validate_container_adjustment(self, request: Any) -> None:
        self._look(request.message)

    def closed(self) -> None:
        pass

    def _look(self, *matches: Any) -> None:
        assert self.configured, "a handler ran before Configure"
        for one in matches:
            str(one)
            self.log.info("seen %s", getattr(one, "name", ""))


def _handler(name: str) -> Any:
    def handle(self: Any, *matches: Any) -> None:
        self._look(*matches)

    handle.__name__ = name
    return handle


for _spec in EVENTS:
    if _spec.method not in vars(_Everything):
        setattr(_Everything, _spec.method, _handler(_spec.method))

_REQUESTS: dict[str, Any] = {spec.rpc: getattr(m, spec.request) for spec in EVENTS}
_REQUESTS |= {"Configure": m.ConfigureRequest, "Synchronize": m.SynchronizeRequest, "StateChange": m.StateChangeEvent}
_CONFIGURE = m.ConfigureRequest(runtime_name="r", runtime_version="v1", NRI_version="v0.12.5", config='{"a": "x"}')
#: The answer to RegisterPlugin.
TAKEN = cut(_RUNTIME, frames.pack(1, frames.RESPONSE, b""))


@st.composite
def _calls(draw: st.DrawFn) -> bytes:
    """What a runtime sends on one connection: as a rule it takes the plugin and configures it, then anything."""
    data, number = b"", 1
    calls: list[tuple[str, str, bytes]] = []
    if draw(st.integers(0, 5)):
        data += TAKEN
    if draw(st.integers(0, 3)):
        calls.append((naming.PLUGIN_SERVICE, "Configure", _CONFIGURE.SerializeToString()))
    for _ in range(draw(st.integers(0, 4))):
        method = draw(st.sampled_from([*_REQUESTS, "Shutdown", "Nothing", "\x1b[2J"]))
        service = draw(st.sampled_from([naming.PLUGIN_SERVICE] * 6 + [naming.RUNTIME_SERVICE, "", "\n"]))
        kind = _REQUESTS.get(method)
        payload = draw(inputs.fields if kind is None else inputs.messages(kind) | inputs.fields)
        calls.append((service, method, payload))
    for service, method, payload in calls:
        request = encode_request(request_prefix(service, method), payload, draw(st.sampled_from([0, 10**9, 10**20])))
        data += cut(_PLUGIN, frames.pack(number, frames.REQUEST, request, draw(st.sampled_from([0, 0, 0, 0, 1, 2, 6]))))
        number += 2
    return data


def _stub(data: bytes) -> None:
    local, remote = socket.socketpair()
    try:
        remote.sendall(data[:60_000])
        remote.shutdown(socket.SHUT_WR)
        session = Session(_Everything(), local, index="10", name="all")
        with quiet():
            try:
                session.run()
            except NriError as error:
                str(error).encode()
        _read_frames(remote)
    finally:
        remote.close()
        local.close()


def _read_frames(sock: socket.socket) -> None:
    """See that what came is whole frames of RegisterPlugin and of answers."""
    sock.settimeout(PATIENCE_S)
    data = b""
    try:
        while piece := sock.recv(1 << 20):
            data += piece
    except ConnectionError:
        return  # it ended with our bytes unread
    readers = {_PLUGIN: frames.FrameReader(), _RUNTIME: frames.FrameReader()}
    for conn, chunk in Demux(readers).receive(data):
        for _, kind, _, body, _ in readers[conn].receive(chunk):
            assert body is not None
            assert kind == (frames.RESPONSE if conn == _PLUGIN else frames.REQUEST)


TARGETS = (Target("stub", _calls() | inputs.spoiled([TAKEN]), _stub, share=0.5),)
