"""A gRPC server at a socket: whose folder it may lie in, its mode, and whose socket it takes the place of."""

from __future__ import annotations

import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from nri.cri.server import bind


class Echo(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda request, _: request)


def started(path: Path) -> grpc.Server:
    server = bind(str(path), ThreadPoolExecutor(2), [Echo()])
    server.start()
    return server


def test_it_serves_at_a_socket_that_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s.sock"
    server = started(path)
    try:
        assert stat.S_IMODE(path.stat().st_mode) & 0o177 == 0
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        with grpc.insecure_channel(f"unix:{path}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            assert channel.unary_unary("/a.B/C")(b"hello", timeout=20) == b"hello"
    finally:
        server.stop(0).wait()


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="folder of its own"):
        bind(str(folder / "s.sock"), ThreadPoolExecutor(1), [Echo()])
    folder.chmod(0o1777)
    started(folder / "s.sock").stop(0).wait()


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(path))
    other.listen()
    with pytest.raises(OSError, match="in use"):
        bind(str(path), ThreadPoolExecutor(1), [Echo()])
    other.close()
    assert os.path.exists(path)
    started(path).stop(0).wait()
