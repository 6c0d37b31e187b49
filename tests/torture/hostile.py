"""The hostile plugin's tools: one connection on which every byte is the attack's own, and what it is aimed at.

`Hostile` registers and answers by hand, or does not. `Target` is what an attack is given: where the node listens, and
when it is over. Next: `tests.torture.attacks`; `tests.torture.attacker`, the process that runs one.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Self

from nri.api import messages as m
from nri.api.events import ALL, EventMask
from nri.api.naming import PLUGIN_SERVICE_CONN, RUNTIME_SERVICE, RUNTIME_SERVICE_CONN
from nri.mux import Demux
from nri.mux import frames as mux
from nri.ttrpc import frames
from nri.ttrpc.envelope import Request, Response, decode_request, decode_response, encode_request, encode_response
from nri.ttrpc.envelope import request_prefix as prefix
from tests.torture.attack import INDEX, NAME

#: All but validation: a validator that leaves refuses the creation that waits for it.
EVENTS = ALL - EventMask.of("ValidateContainerAdjustment")
#: How long anything is waited for, in seconds.
PATIENCE_S = 30.0


class Refusal(NamedTuple):
    """An answer that is an error."""

    code: int
    text: str


class Raw(NamedTuple):
    """An answer of which the ttRPC data, or everything on the trunk, is the attack's own."""

    data: bytes
    trunk: bool = False


#: What an attack answers to a request: the reply's bytes, an error, bytes of another kind, or nothing at all.
Answer = bytes | Refusal | Raw | None


class Gone(Exception):
    """The node has closed the connection."""


class Hostile:
    """One connection to the node."""

    def __init__(self, path: str, name: str = NAME, idx: str = INDEX, events: int = EVENTS) -> None:
        self.name, self.idx, self.events = name, idx, events
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self._connect(path)
        self._demux = Demux((PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN))
        self._readers = {PLUGIN_SERVICE_CONN: frames.FrameReader(), RUNTIME_SERVICE_CONN: frames.FrameReader()}
        self._arrived: list[Request | Response] = []
        self.next_id = 1

    def _connect(self, path: str) -> None:
        """Connect; a queue that is full at this moment is no error."""
        for _ in range(500):
            try:
                self.sock.connect(path)
            except BlockingIOError:
                time.sleep(0.01)
            else:
                return
        raise Gone("the node does not accept connections")

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Bytes on the trunk, as they are. Gone: the other end has closed it."""
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from None

    def request_bytes(
        self, method: str, message: Any = b"", stream_id: int = 0, service: str = RUNTIME_SERVICE
    ) -> bytes:
        """The trunk's bytes of a request to the runtime; a message or its bytes."""
        if not stream_id:
            stream_id, self.next_id = self.next_id, self.next_id + 2
        payload = message if isinstance(message, bytes) else message.SerializeToString()
        data = encode_request(prefix(service, method), payload)
        return mux.cut(RUNTIME_SERVICE_CONN, frames.pack(stream_id, frames.REQUEST, data))

    def ask(self, method: str, message: Any = b"") -> None:
        """Send a request to the runtime, and do not wait."""
        self.send(self.request_bytes(method, message))

    def answer(self, stream_id: int, answer: Answer) -> None:
        """Answer a request of the runtime."""
        if answer is None:
            return
        if isinstance(answer, Raw) and answer.trunk:
            self.send(answer.data)
            return
        if isinstance(answer, Raw):
            data = answer.data
        elif isinstance(answer, Refusal):
            data = encode_response(b"", answer.code, answer.text)
        else:
            data = encode_response(answer, 0, "")
        self.send(mux.cut(PLUGIN_SERVICE_CONN, frames.pack(stream_id, frames.RESPONSE, data)))

    # -- receiving ----------------------------------------------------------------------------------------------------

    def next(self, timeout_s: float = PATIENCE_S) -> Request | Response:
        """What comes next from the runtime. Gone: the connection has ended. TimeoutError: nothing came."""
        until = time.monotonic() + timeout_s
        while not self._arrived:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("nothing came from the node")
            self.sock.settimeout(left_s)
            try:
                data = self.sock.recv(1 << 18)
            except TimeoutError:
                raise
            except OSError as error:
                raise Gone(str(error)) from None
            finally:
                self.sock.settimeout(PATIENCE_S)
            if not data:
                raise Gone("closed")
            for conn_id, chunk in self._demux.receive(data):
                for stream_id, kind, _, content, _ in self._readers[conn_id].receive(chunk):
                    if content is None or kind not in (frames.REQUEST, frames.RESPONSE):
                        continue
                    entry = decode_request(content) if kind == frames.REQUEST else decode_response(content)
                    entry.stream_id = stream_id
                    self._arrived.append(entry)
        return self._arrived.pop(0)

    def wait_for(self, method: str, timeout_s: float = PATIENCE_S) -> Request:
        """Read until the runtime sends this request. Gone: it refuses something instead, as a name that is taken."""
        until = time.monotonic() + timeout_s
        while True:
            entry = self.next(max(0.001, until - time.monotonic()))
            if isinstance(entry, Request):
                if entry.method == method:
                    return entry
            elif entry.code:
                raise Gone(entry.message)

    def reply(self, timeout_s: float = PATIENCE_S) -> Response:
        """Read until the runtime answers what was asked last; events that come meanwhile are answered with nothing."""
        until = time.monotonic() + timeout_s
        while True:
            entry = self.next(max(0.001, until - time.monotonic()))
            if isinstance(entry, Request):
                self.answer(entry.stream_id, b"")
            elif entry.stream_id == self.next_id - 2:
                return entry

    # -- the usual beginning, and what comes then ---------------------------------------------------------------------

    def register(self, **more: Any) -> None:
        """Ask to be registered."""
        self.ask("RegisterPlugin", m.RegisterPluginRequest(plugin_name=self.name, plugin_idx=self.idx, **more))

    def join(self, synchronized: Answer = b"", policy: m.FailurePolicy | None = None) -> Self:
        """Register, and answer Configure and Synchronize, this with something of the attack's own."""
        self.register()
        configured = m.ConfigureResponse(events=self.events, failure_policy=policy).SerializeToString()
        self.answer(self.wait_for("Configure").stream_id, configured)
        while True:
            request = self.wait_for("Synchronize")
            if not m.SynchronizeRequest.FromString(request.payload).more:
                break
            self.answer(request.stream_id, m.SynchronizeResponse(more=True).SerializeToString())
        self.answer(request.stream_id, synchronized)
        return self

    def requests(self, target: Target) -> Iterator[Request]:
        """The requests of the runtime, until the attack is over or the connection has ended."""
        while not target.over:
            try:
                entry = self.next(0.1)
            except TimeoutError:
                continue
            except Gone:
                return
            if isinstance(entry, Request):
                yield entry

    def serve(self, target: Target, answer: Callable[[Request], Answer]) -> None:
        """Answer all requests, until the attack is over or the connection has ended."""
        for request in self.requests(target):
            target.count[request.method] += 1
            with suppress(Gone):
                self.answer(request.stream_id, answer(request))

    def close(self) -> None:
        """Hang up."""
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Target:
    """What an attack is aimed at.

    Attributes:
        path: the node's socket; its folder holds what else the node has.
        seconds: how long the attack goes on.
        timeout_s: the node's request timeout.
        count: what the attack counts, for the judge.
    """

    def __init__(self, path: str, seconds: float, timeout_s: float) -> None:
        self.path, self.seconds, self.timeout_s = path, seconds, timeout_s
        self._until = time.monotonic() + seconds
        self.count: Counter[str] = Counter()

    def wait(self) -> None:
        """Let the time of the attack begin with `begin`: something has to come together first. Not for ever."""
        self._until = time.monotonic() + PATIENCE_S

    def begin(self) -> None:
        """Let the time of the attack begin now."""
        self._until = time.monotonic() + self.seconds

    @property
    def over(self) -> bool:
        """Whether it is time to stop."""
        return time.monotonic() >= self._until

    def sleep(self, seconds: float) -> None:
        """Sleep, but not beyond the end."""
        time.sleep(max(0.0, min(seconds, self._until - time.monotonic())))

    def connect(self, name: str = NAME, idx: str = INDEX, **options: Any) -> Hostile:
        """A new connection."""
        return Hostile(self.path, name, idx, **options)

    def again(self, work: Callable[[], object]) -> None:
        """Do something over and over; what the node does to the connection is no error."""
        while not self.over:
            self.count["turns"] += 1
            try:
                work()
            except (Gone, TimeoutError, OSError):
                self.sleep(0.01)

    def together(self, *work: Callable[[], object]) -> None:
        """Do several things at once, each over and over."""
        threads = [threading.Thread(target=self.again, args=(entry,), daemon=True) for entry in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and time.monotonic() < self._until + 5.0:
                thread.join(0.1)
