"""The connection to a runtime."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.cri.server import bind
from nri.errors import RpcError, RuntimeUnavailable
from nri.proxy.passing.backend import Backend
from tests.support.raw_grpc import RawServer


def test_a_missing_runtime_is_an_error_at_once(tmp_path: Path) -> None:
    backend = Backend(f"unix://{tmp_path}/r.sock")
    begin = time.monotonic()
    with pytest.raises(RuntimeUnavailable, match=r"r\.sock: no such file or directory\. The proxy connects as soon as"):
        backend.call("Version", pb.VersionRequest())
    assert time.monotonic() - begin < 20, "it does not wait for one"
    assert not backend.connected
    backend.stop()


def test_a_runtime_that_comes_later_is_noticed(tmp_path: Path) -> None:
    backend, received = Backend(str(tmp_path / "r.sock")), list[bool]()
    backend.on_connect(lambda: received.append(True))
    backend.start()
    try:
        with RawServer().listening(tmp_path / "r.sock"):
            until = time.monotonic() + 20
            while not received and time.monotonic() < until:
                time.sleep(0.01)
            assert received == [True]
            assert backend.connected
    finally:
        backend.stop()


def test_the_channel_is_closed_after_grpcs_threads_have_left_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of gRPC that uses a closed channel prints a traceback."""
    broken: list[object] = []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    before = {*threading.enumerate()}
    backend = Backend(str(tmp_path / "r.sock"))
    backend.start()
    looking = {*threading.enumerate()} - before
    assert looking
    backend.stop()
    for thread in looking:
        thread.join(20)
    assert broken == []


def test_loss_and_return_of_the_runtime_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    backend = Backend(str(tmp_path / "r.sock"))
    words = [f"connected to the runtime at {backend.path}", f"the runtime at {backend.path} is gone"]

    def messages(count: int) -> list[str]:
        until = time.monotonic() + 20
        while len(caplog.messages) < count and time.monotonic() < until:
            time.sleep(0.01)
        return [message.partition(":")[0] for message in caplog.messages]

    with caplog.at_level("INFO", "nri.proxy"):
        backend.start()
        try:
            with RawServer().listening(tmp_path / "r.sock"):
                assert messages(1) == words[:1]
            assert messages(2) == words
            with RawServer().listening(tmp_path / "r.sock"):
                assert messages(3) == [*words, words[0]], "without a call that would make it connect"
                time.sleep(0.3)  # until the gRPC thread that logged this waits again
                backend.stop()
            assert len(messages(3)) == 3, "its own stop is not a loss"
        finally:
            backend.stop()


def test_an_error_of_the_runtime_keeps_its_code_and_text(tmp_path: Path) -> None:
    class Refuses(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
                context.abort(grpc.StatusCode.NOT_FOUND, "no such pod")

            return grpc.unary_unary_rpc_method_handler(refuse)

    server = bind(str(tmp_path / "r.sock"), ThreadPoolExecutor(1), [Refuses()])
    server.start()
    backend = Backend(str(tmp_path / "r.sock"))
    try:
        with pytest.raises(RpcError, match="no such pod") as error:
            backend.call("Version", pb.VersionRequest())
        assert error.value.code == grpc.StatusCode.NOT_FOUND.value[0]
    finally:
        backend.stop()
        server.stop(0).wait()


def test_an_unreadable_reply_is_an_error_of_the_runtime(tmp_path: Path) -> None:
    class Garbles(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(lambda *_: b"\xff\xff\xff")

    server = bind(str(tmp_path / "r.sock"), ThreadPoolExecutor(1), [Garbles()])
    server.start()
    backend = Backend(str(tmp_path / "r.sock"))
    try:
        with pytest.raises(RpcError, match="Version: the runtime's answer cannot be read"):
            backend.call("Version", pb.VersionRequest())
    finally:
        backend.stop()
        server.stop(0).wait()


def test_after_stop_calls_fail_as_without_a_runtime(tmp_path: Path) -> None:
    backend = Backend(str(tmp_path / "r.sock"))
    backend.stop()
    with pytest.raises(RuntimeUnavailable, match="being stopped"):
        backend.call("Version", pb.VersionRequest())


class Stuck:
    """gRPC's channel when the thread that ends its calls is gone."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def unary_unary(self, _method: str) -> Any:
        return self

    def future(self, *_: object, **__: object) -> Any:
        return self

    def result(self, timeout: float) -> bytes:
        if self.go.wait(timeout):
            return b""
        raise grpc.FutureTimeoutError

    def unsubscribe(self, _listener: object) -> None:
        pass

    def close(self) -> None:
        self.go.wait()


def test_a_stop_does_not_wait_forever_for_hanging_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.proxy.passing.backend.MORE_S", 0.05)
    backend, stuck = Backend(str(tmp_path / "r.sock")), Stuck()
    backend.stop()
    backend.channel = stuck  # type: ignore[assignment]
    with pytest.raises(RpcError, match="Version: gRPC did not end the call at its deadline"):
        backend.call("Version", pb.VersionRequest(), 0.05)
    backend.stop()
    stuck.go.set()
