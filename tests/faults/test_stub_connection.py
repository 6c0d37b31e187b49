"""A misbehaving runtime on the connection: the plugin neither hangs nor crashes, and reports the error."""

from __future__ import annotations

import struct
import threading

import pytest

import nri
from nri.api import messages as m
from nri.api.naming import PLUGIN_SERVICE_CONN
from nri.mux import frames as mux
from nri.ttrpc import Code, frames
from tests.support.plugin_thread import plugin_thread

POD = m.PodSandbox(id="p0", name="web", namespace="default")
CONTAINER = m.Container(id="c0", pod_sandbox_id="p0", name="app")
CREATE = m.CreateContainerRequest(pod=POD, container=CONTAINER)


class Names(nri.Plugin):
    def create_container(self, pod, container):
        return nri.Adjustment().add_env("POD_NAME", pod.name)


def works(runtime) -> bool:
    """Whether the plugin still answers as it should."""
    response = runtime.call("CreateContainer", CREATE)
    reply = m.CreateContainerResponse.FromString(response.payload)
    return not response.code and [(e.key, e.value) for e in reply.adjust.env] == [("POD_NAME", "web")]


def test_a_silent_runtime_after_connect_costs_the_registration_timeout() -> None:
    with plugin_thread(Names(), registration_timeout_s=0.3) as running:
        assert running.runtime.request().method == "RegisterPlugin"
        outcome = running.ended()
        assert isinstance(outcome, nri.DeadlineExceeded) and "RegisterPlugin" in str(outcome), repr(outcome)


def test_a_silent_runtime_after_register_costs_the_registration_timeout() -> None:
    with plugin_thread(Names(), registration_timeout_s=2.0) as running:
        running.runtime.register()
        outcome = running.ended()
        assert isinstance(outcome, nri.DeadlineExceeded) and "Configure" in str(outcome), repr(outcome)


def test_a_connection_lost_between_register_and_configure_ends_the_session() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.register()
        running.runtime.close()
        outcome = running.ended()
        assert isinstance(outcome, nri.ConnectionClosed) and "before Configure" in str(outcome), repr(outcome)


def test_a_connection_closed_before_any_reply_suggests_a_wrong_socket() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.request()
        running.runtime.close()
        outcome = running.ended()
        assert isinstance(outcome, nri.ConnectionClosed), repr(outcome)
        assert "it may not be an NRI socket" in str(outcome)


def test_a_refused_registration_is_an_error_with_the_runtimes_text() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.answer(running.runtime.request(), code=Code.UNKNOWN, text="invalid plugin index: nope")
        outcome = running.ended()
        assert isinstance(outcome, nri.RegistrationError), repr(outcome)
        assert "10-names: invalid plugin index: nope" in str(outcome)


def test_configure_may_arrive_before_the_reply_to_register() -> None:
    with plugin_thread(Names()) as running:
        registration = running.runtime.request()
        assert not running.runtime.configure().code
        running.runtime.answer(registration)
        assert works(running.runtime), "the plugin does not serve after an early Configure"


def test_an_oversized_mux_frame_ends_the_session() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        running.runtime.raw(struct.pack(">II", PLUGIN_SERVICE_CONN, mux.MAX_PAYLOAD + 1))
        assert "maximum is 4194314" in str(running.ended())


def test_garbage_instead_of_frames_ends_the_session() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        running.runtime.raw(b"GET / HTTP/1.1\r\nHost: nri\r\n\r\n" + b"\xff" * 64)
        assert "maximum is" in str(running.ended())


def test_an_oversized_message_fails_only_its_call() -> None:
    with plugin_thread(Names()) as running:
        runtime = running.runtime
        runtime.begin()
        length = frames.MAX_DATA + 1
        header = struct.pack(">IIBB", length, 101, frames.REQUEST, 0)
        sender = threading.Thread(
            target=lambda: [
                runtime.raw(mux.pack(PLUGIN_SERVICE_CONN, header)),
                runtime.raw(mux.pack(PLUGIN_SERVICE_CONN, bytes(length))),
            ]
        )
        sender.start()
        refused = runtime.response()
        sender.join(10)
        assert (refused.stream_id, refused.code) == (101, Code.RESOURCE_EXHAUSTED), refused
        runtime.next_id = 103
        assert works(runtime), "the connection is of no use after an oversized message"


def test_a_half_closed_connection_ends_the_session() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        running.runtime.sock.shutdown(1)
        assert running.ended() == "closed"


def test_requests_split_at_any_byte_are_reassembled() -> None:
    with plugin_thread(Names()) as running:
        runtime = running.runtime
        runtime.begin()
        size = len(runtime.request_bytes("CreateContainer", CREATE, stream_id=1001))
        for n, cut in enumerate(range(1, size)):
            data = runtime.request_bytes("CreateContainer", CREATE, stream_id=1003 + 2 * n)
            runtime.raw(data[:cut])
            runtime.raw(data[cut:])
            response = runtime.response()
            assert not response.code and response.payload, f"cut after byte {cut}: {response}"


def test_an_incomplete_request_does_not_block_the_end_of_the_session() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        running.runtime.raw(running.runtime.request_bytes("CreateContainer", CREATE)[:-3])
        running.runtime.close()
        assert running.ended() == "closed"


def test_an_unknown_method_is_unimplemented_and_keeps_the_connection() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        response = running.runtime.call("DanceContainer", CREATE)
        assert (response.code, response.message) == (Code.UNIMPLEMENTED, "method DanceContainer")
        assert works(running.runtime)


def test_an_unknown_service_is_unimplemented_and_keeps_the_connection() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", CREATE, service="nri.v2.Plugin")
        assert (response.code, response.message) == (Code.UNIMPLEMENTED, "service nri.v2.Plugin")
        assert works(running.runtime)


def test_an_unknown_state_change_is_ignored() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        unknown = b"\x08\x63" + m.StateChangeEvent(pod=POD).SerializeToString()
        assert not running.runtime.call("StateChange", unknown).code
        assert works(running.runtime)


def test_unknown_fields_are_ignored() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        extra = CREATE.SerializeToString() + b"\xfa\x3f\x03new" + b"\xc0\x3e\x07"
        response = running.runtime.call("CreateContainer", extra)
        assert m.CreateContainerResponse.FromString(response.payload).adjust.env[0].value == "web"


def test_a_payload_that_is_not_protobuf_is_an_error_and_keeps_the_connection() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        response = running.runtime.call("CreateContainer", b"\xff\xff\xff\xff")
        assert response.code == Code.INTERNAL and "unmarshalling payload" in response.message, response.message
        assert works(running.runtime)


@pytest.mark.parametrize(
    ("stream_id", "text"),
    [(3, "StreamID cannot be re-used and must increment"), (8, "StreamID must be odd for client initiated streams")],
)
def test_a_wrong_stream_id_is_refused_and_keeps_the_connection(stream_id: int, text: str) -> None:
    with plugin_thread(Names()) as running:
        runtime = running.runtime
        runtime.begin()
        response = runtime.call("CreateContainer", CREATE, stream_id=stream_id)
        assert (response.code, response.message) == (Code.INVALID_ARGUMENT, text)
        assert works(runtime)


def test_a_streaming_request_is_unimplemented() -> None:
    with plugin_thread(Names()) as running:
        runtime = running.runtime
        runtime.begin()
        data = bytearray(runtime.request_bytes("CreateContainer", CREATE))
        data[8 + 9] = frames.REMOTE_OPEN
        runtime.raw(bytes(data))
        assert runtime.response().code == Code.UNIMPLEMENTED
        assert works(runtime)


def test_frames_of_an_unopened_connection_are_dropped() -> None:
    with plugin_thread(Names()) as running:
        running.runtime.begin()
        running.runtime.raw(mux.pack(7, b"nobody listens here"))
        assert works(running.runtime)


def test_a_failed_part_of_a_synchronization_does_not_affect_the_next_one() -> None:
    calls = []

    class Counts(nri.Plugin):
        def synchronize(self, pods, containers):
            calls.append((len(pods), len(containers)))

        def run_pod_sandbox(self, pod): ...

    with plugin_thread(Counts()) as running:
        runtime = running.runtime
        runtime.register()
        runtime.configure()
        first = runtime.call("Synchronize", m.SynchronizeRequest(containers=[CONTAINER], more=True))
        assert m.SynchronizeResponse.FromString(first.payload).more, "a part with more to come must be echoed"
        assert runtime.call("Synchronize", b"\xff\xff").code == Code.INTERNAL
        last = runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD]))
        assert not m.SynchronizeResponse.FromString(last.payload).more
        assert calls == [(1, 1)], "the parts before and after the broken one belong together"
