"""Calls through the proxy reach the runtime, and replies reach the client."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.proxy.passing import Backend, Front, RuntimeFailed
from tests.support.raw_grpc import RawServer, raw_channel
from tests.support.waiting import wait_for

VERSION = "/runtime.v1.RuntimeService/Version"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
#: Of a service that no one here knows.
STRANGE = "/some.vendor.v2.Strange/Talk"
WAIT_S = 10.0
Code = grpc.StatusCode


@pytest.fixture
def runtime() -> RawServer:
    return RawServer()


@pytest.fixture
def channel(tmp_path: Path, runtime: RawServer) -> Iterator[grpc.Channel]:
    """A client of a proxy before `runtime`."""
    with runtime.listening(tmp_path / "r.sock"), proxied(tmp_path):
        with raw_channel(tmp_path / "p.sock") as raw:
            yield raw


class proxied:  # noqa: N801  a context manager
    def __init__(self, folder: Path, used: dict[str, Any] | None = None) -> None:
        self.backend = Backend(str(folder / "r.sock"))
        self.front = Front(str(folder / "p.sock"), self.backend, used or {})

    def __enter__(self) -> Front:
        self.backend.start()
        self.front.start()
        return self.front

    def __exit__(self, *_: object) -> None:
        self.front.stop(0)
        self.backend.stop()


def test_the_bytes_of_a_call_are_forwarded_undecoded_in_both_directions(
    runtime: RawServer, channel: grpc.Channel
) -> None:
    no_message = b"\xff\xff no protobuf \x00"
    runtime.unary[VERSION] = lambda request, _: request[::-1]
    assert channel.unary_unary(VERSION)(no_message, timeout=WAIT_S) == no_message[::-1]


def test_metadata_are_forwarded_in_both_directions(runtime: RawServer, channel: grpc.Channel) -> None:
    received: list[Any] = []

    def behave(request: bytes, context: Any) -> bytes:
        received.extend(context.invocation_metadata())
        context.send_initial_metadata((("first", "1"), ("first-bin", b"\x00\xff")))
        context.set_trailing_metadata((("last", "2"),))
        return b"ok"

    runtime.unary[VERSION] = behave
    requests = (("traceparent", "00-1-2-03"), ("some-bin", b"\x00\xfe"))
    _, call = channel.unary_unary(VERSION).with_call(b"", metadata=requests, timeout=WAIT_S)
    assert {("traceparent", "00-1-2-03"), ("some-bin", b"\x00\xfe")} <= {tuple(row) for row in received}
    assert {("first", "1"), ("first-bin", b"\x00\xff")} <= {tuple(row) for row in call.initial_metadata()}
    assert ("last", "2") in [tuple(row) for row in call.trailing_metadata()]


def test_an_error_of_the_runtime_keeps_code_text_and_details(runtime: RawServer, channel: grpc.Channel) -> None:
    def behave(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\x08\x05details"),))
        context.abort(Code.FAILED_PRECONDITION, "not now: ü")
        return b""

    runtime.unary[VERSION] = behave
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(VERSION)(b"", timeout=WAIT_S)
    error: Any = caught.value
    assert (error.code(), error.details()) == (Code.FAILED_PRECONDITION, "not now: ü")
    assert ("grpc-status-details-bin", b"\x08\x05details") in [tuple(row) for row in error.trailing_metadata()]


def test_a_method_that_the_runtime_lacks_is_unimplemented(channel: grpc.Channel) -> None:
    for name in (VERSION, STRANGE):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(name)(b"", timeout=WAIT_S)
        assert caught.value.code() is Code.UNIMPLEMENTED


def test_calls_of_an_unknown_service_are_forwarded(runtime: RawServer, channel: grpc.Channel) -> None:
    def talk(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        for request in requests:
            yield b"heard " + request

    runtime.streams[STRANGE] = talk
    answers = channel.stream_stream(STRANGE)(iter([b"a", b"b"]), timeout=WAIT_S)
    assert list(answers) == [b"heard a", b"heard b"]
    assert channel.unary_unary(STRANGE)(b"c", timeout=WAIT_S) == b"heard c"
    assert list(channel.unary_stream(STRANGE)(b"d", timeout=WAIT_S)) == [b"heard d"]
    assert channel.stream_unary(STRANGE)(iter([b"e"]), timeout=WAIT_S) == b"heard e"


def test_each_message_of_a_stream_is_forwarded_at_once(runtime: RawServer, channel: grpc.Channel) -> None:
    go_on = threading.Event()

    def behave(request: bytes, context: Any) -> Iterator[bytes]:
        yield b"1"
        assert go_on.wait(WAIT_S)
        yield b"2"

    runtime.server_streams[EVENTS] = behave
    answers = channel.unary_stream(EVENTS)(b"", timeout=WAIT_S)
    assert next(answers) == b"1"
    go_on.set()
    assert list(answers) == [b"2"]


def test_a_stream_has_the_runtimes_metadata_and_errors(runtime: RawServer, channel: grpc.Channel) -> None:
    def behave(request: bytes, context: Any) -> Iterator[bytes]:
        context.send_initial_metadata((("first", "1"),))
        yield b"1"
        context.set_trailing_metadata((("last", "2"),))
        context.abort(Code.OUT_OF_RANGE, "no more")

    runtime.server_streams[EVENTS] = behave
    answers: Any = channel.unary_stream(EVENTS)(b"", timeout=WAIT_S)
    assert next(answers) == b"1"
    with pytest.raises(grpc.RpcError):
        next(answers)
    assert (answers.code(), answers.details()) == (Code.OUT_OF_RANGE, "no more")
    assert ("first", "1") in [tuple(row) for row in answers.initial_metadata()]
    assert ("last", "2") in [tuple(row) for row in answers.trailing_metadata()]


def test_the_call_of_a_disconnected_client_is_not_forwarded(tmp_path: Path, runtime: RawServer) -> None:
    began, event, failed = threading.Event(), threading.Event(), list[Exception]()
    runtime.unary[VERSION] = lambda request, context: time.sleep(WAIT_S) or b""

    def answer(request: bytes, call: Any) -> bytes:
        call.context.add_callback(event.set)
        began.set()
        assert event.wait(WAIT_S)
        try:
            return bytes(call.forward(request))
        except RuntimeFailed as error:
            failed.append(error)
            raise

    with runtime.listening(tmp_path / "r.sock"), proxied(tmp_path, {VERSION: answer}):
        with raw_channel(tmp_path / "p.sock") as channel:
            call = channel.unary_unary(VERSION).future(b"")
            assert began.wait(WAIT_S)
            call.cancel()
            wait_for(lambda: failed)
    assert isinstance(failed[0], RuntimeFailed) and failed[0].code is Code.CANCELLED


def test_the_runtime_has_the_clients_deadline(runtime: RawServer, channel: grpc.Channel) -> None:
    remainder: list[float | None] = []

    def behave(request: bytes, context: Any) -> bytes:
        remainder.append(context.time_remaining())
        return b""

    runtime.unary[VERSION] = behave
    channel.unary_unary(VERSION)(b"", timeout=WAIT_S)
    channel.unary_unary(VERSION)(b"")
    assert remainder[0] is not None and 0 < remainder[0] <= WAIT_S + 1  # gRPC rounds it up on its way
    assert remainder[1] is None or remainder[1] > 1e6


def test_a_call_that_exceeds_its_deadline_ends_on_both_sides(runtime: RawServer, channel: grpc.Channel) -> None:
    ended = threading.Event()

    def behave(request: bytes, context: Any) -> bytes:
        context.add_callback(ended.set)
        ended.wait(WAIT_S)
        return b""

    runtime.unary[VERSION] = behave
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(VERSION)(b"", timeout=2.0)
    assert caught.value.code() is Code.DEADLINE_EXCEEDED
    assert ended.wait(WAIT_S)


@pytest.mark.parametrize("name", [VERSION, EVENTS, STRANGE])
def test_a_cancelled_call_ends_at_the_runtime(name: str, runtime: RawServer, channel: grpc.Channel) -> None:
    began, ended = threading.Event(), threading.Event()

    def behave(request: Any, context: Any) -> Any:
        context.add_callback(ended.set)
        began.set()
        ended.wait(WAIT_S)
        return b"" if name == VERSION else iter(())

    where = {VERSION: runtime.unary, EVENTS: runtime.server_streams, STRANGE: runtime.streams}[name]
    where[name] = behave
    kind = {VERSION: channel.unary_unary, EVENTS: channel.unary_stream, STRANGE: channel.unary_stream}[name]
    call = kind(name).future(b"") if name == VERSION else kind(name)(b"")
    assert began.wait(WAIT_S)
    call.cancel()
    assert ended.wait(WAIT_S)


def test_clients_that_disconnect_during_a_request_cause_no_traceback(
    runtime: RawServer, channel: grpc.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Semaphore(0)

    def behave(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.add_callback(ended.release)
        yield from requests

    runtime.streams[STRANGE] = behave
    more = threading.Event()

    def half() -> Iterator[bytes]:
        yield b"a"
        more.wait(WAIT_S)

    for _ in range(20):
        call = channel.stream_stream(STRANGE)(half())
        assert next(call) == b"a"
        call.cancel()
        assert ended.acquire(timeout=WAIT_S)
    more.set()
    assert [*channel.stream_stream(STRANGE)(iter([b"b", b"c"]))] == [b"b", b"c"]
    assert [record for record in caplog.records if record.exc_info] == []


def test_without_a_runtime_a_call_fails_at_once_and_works_after_its_return(tmp_path: Path, runtime: RawServer) -> None:
    runtime.unary[VERSION] = lambda request, _: b"here"
    with proxied(tmp_path), raw_channel(tmp_path / "p.sock") as channel:
        ask = channel.unary_unary(VERSION)
        for _ in range(2):
            with pytest.raises(grpc.RpcError) as caught:
                ask(b"", timeout=WAIT_S)
            assert caught.value.code() is Code.UNAVAILABLE
            with runtime.listening(tmp_path / "r.sock"):
                wait_for(lambda: answered(ask))
    assert not (tmp_path / "p.sock").exists()


def answered(ask: Any) -> bool:
    try:
        return bool(ask(b"", timeout=WAIT_S) == b"here")
    except grpc.RpcError as error:
        assert error.code() is Code.UNAVAILABLE
        return False


def test_the_socket_is_private_and_replaces_a_dead_socket(tmp_path: Path) -> None:
    with proxied(tmp_path / "made" / "here"):
        path = tmp_path / "made/here/p.sock"
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
        with pytest.raises(OSError, match="another process listens there"):
            proxied(tmp_path / "made" / "here").front.start()
    import socket

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with proxied(tmp_path / "made" / "here"):
        pass


def test_a_handled_method_is_answered_by_the_proxy_and_can_forward_another_request(
    tmp_path: Path, runtime: RawServer
) -> None:
    runtime.unary[VERSION] = lambda request, _: b"runtime got " + request

    def answer(request: bytes, call: Any) -> bytes:
        answered: bytes = call.forward(request + b" and more") + b"!"
        return answered

    with runtime.listening(tmp_path / "r.sock"), proxied(tmp_path, {VERSION: answer}):
        with raw_channel(tmp_path / "p.sock") as channel:
            assert channel.unary_unary(VERSION)(b"this", timeout=WAIT_S) == b"runtime got this and more!"


def test_an_error_of_the_proxy_is_a_status(tmp_path: Path, runtime: RawServer) -> None:
    def answer(request: bytes, call: Any) -> bytes:
        raise ValueError("a fault")

    with runtime.listening(tmp_path / "r.sock"), proxied(tmp_path, {VERSION: answer}):
        with raw_channel(tmp_path / "p.sock") as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(VERSION)(b"", timeout=WAIT_S)
    assert (caught.value.code(), caught.value.details()) == (Code.UNKNOWN, "a fault")


def test_an_unreadable_request_is_an_error_of_the_client(
    tmp_path: Path, runtime: RawServer, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: bytes, call: Any) -> bytes:
        return pb.VersionRequest.FromString(request).SerializeToString()

    with runtime.listening(tmp_path / "r.sock"), proxied(tmp_path, {VERSION: answer}):
        with raw_channel(tmp_path / "p.sock") as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(VERSION)(b"\xff\xff", timeout=WAIT_S)
    assert caught.value.code() is Code.INVALID_ARGUMENT
    assert "Traceback" not in caplog.text


def test_a_long_error_reaches_the_client(runtime: RawServer, channel: grpc.Channel) -> None:
    """An OCI runtime's error may have a whole command line in it; gRPC's own limit is 8 KiB."""
    text = "failed to create shim task: " + "x" * 200_000

    def fail(_: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("grpc-status-details-bin", b"d" * 50_000),))
        context.abort(Code.NOT_FOUND, text)

    runtime.unary[VERSION] = fail
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(VERSION)(b"", timeout=WAIT_S)
    assert (caught.value.code(), caught.value.details()) == (Code.NOT_FOUND, text)
    assert dict(caught.value.trailing_metadata())["grpc-status-details-bin"] == b"d" * 50_000


def test_a_message_of_the_kubelets_maximum_size_is_forwarded(runtime: RawServer, channel: grpc.Channel) -> None:
    runtime.unary[VERSION] = lambda request, _: request
    sent = b"m" * (16 << 20)
    assert channel.unary_unary(VERSION)(sent, timeout=60) == sent
