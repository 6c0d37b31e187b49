"""Hostile runtimes, a row each: what one does on a connection to a plugin, and what the plugin must make of it.

A runtime is more than a plugin: it may tell one to do anything that NRI has. But a plugin must not hang, swell or go
wrong for what one sends, and must serve the next runtime as if nothing had been. `tests.torture.plugin_course` runs
them.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from nri.api import messages as m
from nri.api.events import EVENTS
from nri.api.naming import PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN
from nri.mux.frames import cut, pack
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_response
from nri.wire import bytes_field
from tests.support.scripted_runtime import ScriptedRuntime
from tests.torture.attacks.malformed import NO_MESSAGE
from tests.torture.attacks.texts import EVIL, LONG

POD = m.PodSandbox(id="p0", name="web", namespace="torture")
CONTAINER = m.Container(id="c0", pod_sandbox_id="p0", name="app")
CREATE = m.CreateContainerRequest(pod=POD, container=CONTAINER)


@dataclass(frozen=True)
class RuntimeAttack:
    """One way to hurt a plugin.

    Attributes:
        name: for the command line and the test's id.
        does: what the runtime does, for the table.
        happens: what the plugin makes of it, for the table.
        run: the attack, on a connection that has just been accepted; raises AssertionError for what must not be.
        stays: whether the plugin goes on serving on this connection afterwards.
        exits: the code with which the plugin ends, if it must.
        memory_mib: how much its memory may grow at its peak.
        log_lines: how many lines it may print.
        short: it is part of the short run, which CI has.
    """

    name: str
    does: str
    happens: str
    run: Callable[[ScriptedRuntime], object]
    stays: bool = False
    exits: int | None = None
    memory_mib: int = 64
    log_lines: int = 60
    short: bool = True


def works(runtime: ScriptedRuntime) -> bool:
    """Whether the plugin answers as it should."""
    response = runtime.call("CreateContainer", CREATE)
    reply = m.CreateContainerResponse.FromString(response.payload)
    return not response.code and [(pair.key, pair.value) for pair in reply.adjust.env] == [("POD_NAME", "web")]


def events_first(runtime: ScriptedRuntime) -> None:
    """Every event before Configure, also before RegisterPlugin is answered: no handler may run."""
    registration = runtime.request()
    for _ in range(2):
        for spec in EVENTS:
            response = runtime.call(
                spec.rpc, m.CreateContainerRequest(pod=POD, container=CONTAINER).SerializeToString()
            )
            assert response.code or not response.payload, f"{spec.rpc} was handled before Configure: {response}"
        runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD]))
        runtime.call("StateChange", m.StateChangeEvent(event=m.Event.Value("RUN_POD_SANDBOX"), pod=POD))
        with suppress(EOFError, ConnectionError):
            runtime.answer(registration)


def garbage(runtime: ScriptedRuntime) -> None:
    runtime.begin()
    runtime.raw(random.Random(4).randbytes(100_000))
    assert runtime.closed_by_plugin() or runtime.closed_by_plugin(), "it goes on after garbage"


def huge_mux_frame(runtime: ScriptedRuntime) -> None:
    runtime.begin()
    runtime.raw(struct.pack(">II", PLUGIN_SERVICE_CONN, 0xFFFFFFFF) + bytes(4096))
    assert runtime.closed_by_plugin()


def huge_message(runtime: ScriptedRuntime) -> None:
    """Announces 4 GiB, and sends a hundred MiB of it."""
    runtime.begin()
    header = struct.pack(">IIBB", 0xFFFFFFFF, 1001, frames.REQUEST, 0)
    runtime.raw(pack(PLUGIN_SERVICE_CONN, header))
    for _ in range(25):
        runtime.raw(pack(PLUGIN_SERVICE_CONN, bytes(4 << 20)))


def streams(runtime: ScriptedRuntime) -> None:
    runtime.begin()
    for stream_id in (2, 1, 3, 0xFFFFFFFE):
        assert runtime.call("CreateContainer", CREATE, stream_id=stream_id).code, f"stream {stream_id} was served"
    for conn_id, kind in ((PLUGIN_SERVICE_CONN, frames.DATA), (RUNTIME_SERVICE_CONN, frames.RESPONSE), (7, 1)):
        for stream_id in (9, 77, 0x7FFFFFFF):
            runtime.raw(pack(conn_id, frames.pack(stream_id, kind, encode_response(b"x", 0, ""))))
    runtime.send("CreateContainer", CREATE)
    expected = runtime.next_id - 2
    while (response := runtime.response()).stream_id != expected:  # data for streams that there are not is answered
        assert response.code, response
    assert not response.code, response


def malformed(runtime: ScriptedRuntime) -> None:
    """Requests that cannot be read, for every method: one status for all."""
    runtime.begin()
    methods = [spec.rpc for spec in EVENTS] + ["Configure", "Synchronize", "StateChange"]
    handled = [method for method in methods if method not in UNHANDLED]
    codes = {method: runtime.call(method, NO_MESSAGE).code for method in handled}
    assert set(codes.values()) == {13}, f"different statuses: {codes}"


#: Events that the plugin does not handle: answered without being read.
UNHANDLED = frozenset(spec.rpc for spec in EVENTS if spec.rpc not in ("CreateContainer", "PostStartContainer"))


def endless_state(runtime: ScriptedRuntime) -> None:
    """Parts of a state without end: of two million containers, or of two million mounts, that hold nothing."""
    runtime.register()
    runtime.configure()
    mounts = bytes_field(2, b"\x4a\x00" * 100_000)
    more = m.SynchronizeRequest(more=True).SerializeToString()
    # A plugin reads the parts when its handler looks at them, which it never does here: their bytes are bounded, too.
    for part in (b"\x12\x00" * 2_000_000 + more, mounts * 20 + more):
        assert any(runtime.call("Synchronize", part, timeout_s=20).code for _ in range(80)), (
            "it takes parts without end"
        )


def texts(runtime: ScriptedRuntime) -> None:
    """Names, versions and refusals that would mean something to a terminal."""
    runtime.register()
    runtime.configure(name=EVIL, version=LONG, nri=EVIL)
    runtime.call("Synchronize", m.SynchronizeRequest())
    started = m.PostStartContainerRequest(pod=POD, container=CONTAINER)
    for text in (EVIL, LONG):
        assert not runtime.call("PostStartContainer", started).code
        runtime.answer(runtime.request(), code=2, text=text)
    assert works(runtime)


def flood(runtime: ScriptedRuntime) -> None:
    """Requests without end, of which no answer is read for a while."""
    runtime.begin()
    data = runtime.request_bytes("CreateContainer", CREATE, stream_id=1001)
    requests = [runtime.request_bytes("CreateContainer", CREATE, stream_id=1003 + 2 * n) for n in range(5000)]
    runtime.next_id = 20_001
    sender = threading.Thread(target=lambda: runtime.raw(data + b"".join(requests)), daemon=True)
    sender.start()
    time.sleep(0.3)
    for _ in range(5001):
        assert not runtime.response().code
    sender.join(10)


def never_answers(runtime: ScriptedRuntime) -> None:
    """The plugin asks for updates in each event, and is never answered."""
    runtime.begin()
    started = m.PostStartContainerRequest(pod=POD, container=CONTAINER)
    for _ in range(500):
        assert not runtime.call("PostStartContainer", started).code


def again_and_again(runtime: ScriptedRuntime) -> None:
    """Configure and Synchronize many times, Shutdown among them."""
    runtime.begin()
    for _ in range(50):
        runtime.configure()
        runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD], containers=[CONTAINER]))
    assert works(runtime)


def half_a_request(runtime: ScriptedRuntime) -> None:
    runtime.begin()
    runtime.raw(runtime.request_bytes("CreateContainer", CREATE)[:-3])
    time.sleep(0.2)


def bad_configuration(runtime: ScriptedRuntime) -> None:
    """Two thousand unknown keys."""
    runtime.register()
    text = "".join(f"unknown_key_{n}: {n}\n" for n in range(2000))
    response = runtime.configure(text)
    assert response.code, "it was taken"
    assert len(response.message) < 20_000, f"the error has {len(response.message)} characters"


def malformed_answers(runtime: ScriptedRuntime) -> None:
    """Answers to registration that cannot be read."""
    registration = runtime.request()
    with suppress(ConnectionError):  # it may be gone after the first
        for data in (NO_MESSAGE, encode_response(NO_MESSAGE, 0, "")):
            runtime.raw(cut(RUNTIME_SERVICE_CONN, frames.pack(registration.stream_id, frames.RESPONSE, data)))


ROWS = (
    RuntimeAttack("events-first", "sends every event before Configure", "no handler runs", events_first),
    RuntimeAttack("random-bytes", "sends random bytes", "the connection ends; it connects again", garbage),
    RuntimeAttack(
        "huge-mux-frame", "announces a frame of 4 GiB", "the connection ends; it connects again", huge_mux_frame
    ),
    RuntimeAttack(
        "huge-message", "announces a message of 4 GiB and sends 100 MiB of it", "read and dropped", huge_message
    ),
    RuntimeAttack(
        "stream-ids",
        "uses stream ids that are even, used or unknown",
        "refused or dropped; it goes on",
        streams,
        stays=True,
    ),
    RuntimeAttack(
        "malformed",
        "sends requests that cannot be read, for each method",
        "one status for all; it goes on",
        malformed,
        stays=True,
    ),
    RuntimeAttack(
        "endless-state",
        "sends parts of its state without end, of two million empty containers, or mounts of containers",
        "refused",
        endless_state,
        memory_mib=320,
    ),
    RuntimeAttack(
        "texts",
        "has names and errors with control characters, and of 100 kB",
        "logged escaped and short",
        texts,
        stays=True,
    ),
    RuntimeAttack("flood", "sends 5,000 requests before it reads an answer", "answered in order", flood, stays=True),
    RuntimeAttack(
        "never-answers",
        "never answers what the plugin asks for",
        "events are served; what waits is bounded",
        never_answers,
    ),
    RuntimeAttack(
        "again-and-again", "configures and synchronizes fifty times", "done each time", again_and_again, stays=True
    ),
    RuntimeAttack("half-a-request", "sends half a request, waits and hangs up", "it connects again", half_a_request),
    RuntimeAttack(
        "malformed-answers", "answers the registration with what cannot be read", "it connects again", malformed_answers
    ),
    RuntimeAttack(
        "bad-configuration",
        "configures with 2,000 unknown keys",
        "refused at once, with a short error; exit code 2",
        bad_configuration,
        log_lines=120,
        exits=2,
    ),
)
ATTACKS = {row.name: row for row in ROWS}
