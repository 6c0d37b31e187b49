"""Targets for whole connections: a plugin with a runtime that sends anything, and a runtime with such a plugin.

Sessions, adaptation, sockets and messages are the real ones. What is held: nothing but documented errors, no traceback
in a log, no handler before Configure, answers that are frames; and on the runtime's side, a healthy plugin gets every
event.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from hypothesis import strategies as st

import nri
from nri.adaptation.merge import CreateMerge, StopMerge, UpdateMerge
from nri.api import messages as m
from nri.api import naming
from nri.api.events import EVENTS
from nri.errors import NriError, ProtocolError
from nri.mux import Demux, cut
from nri.rules import Rules
from nri.stub.session.session import Session
from nri.stub.support.logs import _TextFormatter
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import frames
from nri.ttrpc.envelope import decode_request, encode_request, encode_response, request_prefix
from nri.wire import bytes_field, iter_fields, varint_field
from tests.fuzz import inputs
from tests.fuzz.engine import Target

__all__ = ["TARGETS"]

PATIENCE_S = 10.0
_PLUGIN, _RUNTIME = naming.PLUGIN_SERVICE_CONN, naming.RUNTIME_SERVICE_CONN


class _Log(logging.Handler):
    """Keeps the lines that have a traceback, or are not fit to be one line: those of plugins as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_TextFormatter("%(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record) if record.name.startswith("nri.plugin") else record.getMessage()
        if record.exc_info or not text.replace("\n  ", "").isprintable() or len(text) > 4096:
            self.lines.append(f"{text[:2000]!r} {record.exc_info}")


@contextmanager
def quiet() -> Iterator[None]:
    """See that nothing with a traceback, and no line that is not one, is logged."""
    log, logger = _Log(), logging.getLogger("nri")
    disabled, propagate, level = logging.root.manager.disable, logger.propagate, logger.level
    logging.disable(logging.NOTSET)
    logger.addHandler(log)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(log)
        logger.propagate = propagate
        logger.setLevel(level)
        logging.disable(disabled)
    assert not log.lines, log.lines


# -- the plugin's side ------------------------------------------------------------------------------------------------


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

    def _look(self, *found: Any) -> None:
        assert self.configured, "a handler ran before Configure"
        for one in found:
            str(one)
            self.log.info("seen %s", getattr(one, "name", ""))


def _handler(name: str) -> Any:
    def handle(self: Any, *found: Any) -> None:
        self._look(*found)

    handle.__name__ = name
    return handle


for _spec in EVENTS:
    if _spec.method not in vars(_Everything):
        setattr(_Everything, _spec.method, _handler(_spec.method))

_REQUESTS: dict[str, Any] = {spec.rpc: getattr(m, spec.request) for spec in EVENTS}
_REQUESTS |= {"Configure": m.ConfigureRequest, "Synchronize": m.SynchronizeRequest, "StateChange": m.StateChangeEvent}
_CONFIGURE = m.ConfigureRequest(runtime_name="r", runtime_version="v1", NRI_version="v0.12.5", config='{"a": "x"}')
#: The answer to RegisterPlugin.
_TAKEN = cut(_RUNTIME, frames.pack(1, frames.RESPONSE, b""))


@st.composite
def _calls(draw: st.DrawFn) -> bytes:
    """What a runtime sends on one connection: as a rule it takes the plugin and configures it, then anything."""
    data, number = b"", 1
    calls: list[tuple[str, str, bytes]] = []
    if draw(st.integers(0, 5)):
        data += _TAKEN
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
    ours, theirs = socket.socketpair()
    try:
        theirs.sendall(data[:60_000])
        theirs.shutdown(socket.SHUT_WR)
        session = Session(_Everything(), ours, index="10", name="all")
        with quiet():
            try:
                session.run()
            except NriError as error:
                str(error).encode()
        _read_frames(theirs)
    finally:
        theirs.close()
        ours.close()


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


# -- the runtime's side -----------------------------------------------------------------------------------------------

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
            data += bytes_field(_RAW, draw(st.binary(max_size=30) | inputs.spoiled([_TAKEN])))
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
    return FakeRuntime(compat=compat, request_timeout_s=1.0, registration_timeout_s=1.0).add(healthy, idx="90"), healthy


def _adaptation(data: bytes) -> None:
    runtime, healthy = _runtime("reference" if len(data) % 4 == 0 else "default")
    ours, theirs = socket.socketpair()
    odd = _Odd(theirs, data)
    with quiet():
        before = healthy.count
        runtime.connect(ours)
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
    for peer in runtime.adaptation._registry.unsettled():
        assert peer.handshake_over.wait(PATIENCE_S), peer.state


def _gone(runtime: FakeRuntime) -> None:
    """Wait until the connection has ended on this side, too."""
    until = time.monotonic() + PATIENCE_S
    while any(row.state != "gone" for row in runtime.plugins if row.plugin != "90-healthy"):
        assert time.monotonic() < until, runtime.plugins
        time.sleep(0.001)


# -- the merge --------------------------------------------------------------------------------------------------------


def _merge(data: bytes) -> None:
    """Replies of three plugins, as the fields 1 (create), 2 (update) and 3 (stop) of the input."""
    create = m.CreateContainerRequest(pod=_POD, container=_CONTAINER)
    update = m.UpdateContainerRequest(pod=_POD, container=_CONTAINER)
    stop = m.StopContainerRequest(pod=_POD, container=_CONTAINER)
    for rules in (Rules.DEFAULT, Rules.REFERENCE):
        states: dict[int, Any] = {
            1: CreateMerge(create, rules),
            2: UpdateMerge(update, rules),
            3: StopMerge(stop, rules),
        }
        kinds = {1: m.CreateContainerResponse, 2: m.UpdateContainerResponse, 3: m.StopContainerResponse}
        for place, (number, _, value) in enumerate(iter_fields(data)):
            if number not in states or not isinstance(value, bytes):
                continue
            try:
                reply: Any = kinds[number].FromString(value)
            except Exception:  # the decoder's errors have no common base
                continue
            try:
                states[number].apply(f"{place % 100:02}-p", reply)
            except NriError as error:
                assert str(error).isprintable(), repr(str(error))
        for state in states.values():
            state.reply().SerializeToString()
            state.owners().SerializeToString()


_MERGES = st.lists(
    st.one_of(
        st.builds(bytes_field, st.just(1), inputs.messages(m.CreateContainerResponse)),
        st.builds(bytes_field, st.just(2), inputs.messages(m.UpdateContainerResponse)),
        st.builds(bytes_field, st.just(3), inputs.messages(m.StopContainerResponse)),
    ),
    max_size=4,
).map(b"".join)

TARGETS = (
    Target("stub", _calls() | inputs.spoiled([_TAKEN]), _stub, share=0.5),
    Target("adaptation", _answers(), _adaptation, share=0.1),
    Target("merge", _MERGES, _merge, (ProtocolError,)),
)
