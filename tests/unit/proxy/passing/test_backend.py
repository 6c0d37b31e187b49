"""The connection to a runtime, there or not."""

from __future__ import annotations

import time
from pathlib import Path

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.errors import RpcError, RuntimeUnavailable
from nri.proxy.passing.backend import Backend
from tests.support.raw_grpc import RawServer


def test_a_runtime_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    backend = Backend(f"unix://{tmp_path}/r.sock")
    begin = time.monotonic()
    with pytest.raises(RuntimeUnavailable, match=r"r\.sock"):
        backend.call("Version", pb.VersionRequest())
    assert time.monotonic() - begin < 20, "it does not wait for one"
    assert not backend.connected
    backend.stop()


def test_a_runtime_that_comes_later_is_noticed(tmp_path: Path) -> None:
    backend, seen = Backend(str(tmp_path / "r.sock")), list[bool]()
    backend.on_connect(lambda: seen.append(True))
    backend.start()
    try:
        with RawServer().listening(tmp_path / "r.sock"):
            until = time.monotonic() + 20
            while not seen and time.monotonic() < until:
                time.sleep(0.01)
            assert seen == [True]
            assert backend.connected
    finally:
        backend.stop()


def test_an_error_of_the_runtime_keeps_its_code_and_text(tmp_path: Path) -> None:
    class Refuses(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
                context.abort(grpc.StatusCode.NOT_FOUND, "no such pod")

            return grpc.unary_unary_rpc_method_handler(refuse)

    from concurrent.futures import ThreadPoolExecutor

    from nri.cri.server import bind

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
