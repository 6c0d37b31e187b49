"""The CRI client with a real gRPC server; every error names the next step."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import pytest

from nri.cri import client
from nri.cri.client import INSTALL, CriClient, decode_answer, find_socket
from nri.cri.pb import api_pb2 as pb
from nri.cri.server import bind
from nri.errors import DeadlineExceeded, NriError, RpcError, RuntimeUnavailable
from nri.thread_pool import ThreadPool
from nri.ttrpc import Code
from tests.support.cri_server import CriServer
from tests.support.needs import need_root


@pytest.fixture
def path(tmp_path: Path) -> str:
    server = CriServer()
    server.add_pod("p1", "web")
    with server.listening(tmp_path / "cri.sock") as path:
        yield path


def test_proxy_variables_of_the_environment_are_ignored(path: str, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")
    with CriClient(f"unix://{path}") as cri:
        assert [pod.id for pod in cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items] == ["p1"]


def test_a_status_of_the_runtime_is_an_error_with_its_code(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(RpcError, match="no such container") as caught:
        cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id="x"))
    assert caught.value.code == 5


def test_an_unimplemented_call_is_an_error_with_its_name(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(RpcError, match="does not serve ListImages of CRI v1"):
        cri.call("ListImages", pb.ListImagesRequest())
    with CriClient(path) as cri, pytest.raises(RpcError, match="does not serve GetContainerEvents"):
        list(cri.stream("GetContainerEvents", pb.GetEventsRequest()))


def test_an_unknown_method_is_a_value_error(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(ValueError, match="no method Nope"):
        cri.call("Nope", pb.VersionRequest())


def test_a_missing_socket_is_an_error_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"no such file or directory\. Specify .* --cri-socket"):
        CriClient(str(tmp_path / "none"))
    with pytest.raises(RuntimeUnavailable, match=r"no such file or directory\. Specify .* with pods\.cri, or"):
        CriClient(str(tmp_path / "none"), option="pods.cri")


def test_a_runtime_that_ends_during_a_call_is_not_taken_for_an_nri_socket(tmp_path: Path) -> None:
    with CriServer().listening(tmp_path / "cri.sock") as path:
        cri = CriClient(path)
    Path(path).unlink(missing_ok=True)
    with cri, pytest.raises(RuntimeUnavailable, match="no such file or directory"):
        cri.call("Version", pb.VersionRequest())


@contextmanager
def answering(path: Path, answer: bytes | None) -> Iterator[str]:
    """A server that sends `answer` to each client and hangs up; with None it does neither."""

    def serve() -> None:
        with ExitStack() as exit_stack:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                if answer is None:
                    exit_stack.enter_context(connection)
                    continue
                with connection, suppress(OSError):
                    connection.recv(1024)
                    connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield str(path)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP/1, like Docker's socket"),
        (b"", "it closes connections of gRPC, like an NRI socket"),
        (b"+OK\x1b[2J\r\n", r"not a gRPC server: it answered \+OK\\x1b"),
        (None, "no answer"),
    ],
    ids=["http", "hangs-up", "other", "silent"],
)
def test_a_server_without_grpc_is_an_error_with_its_first_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | None, words: str
) -> None:
    monkeypatch.setattr(client, "GREETING_TIMEOUT_S", 0.3 if answer is None else 20.0)
    with (
        answering(tmp_path / "s", answer) as path,
        CriClient(path, timeout_s=0.5) as cri,
        pytest.raises(RuntimeUnavailable, match=f"{words}.*--cri-socket"),
    ):
        cri.call("Version", pb.VersionRequest())


@pytest.mark.parametrize("code", [grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE])
def test_an_error_that_names_a_plugin_is_quoted(tmp_path: Path, code: grpc.StatusCode) -> None:
    server = CriServer()
    server.refusal = code, "plugin 10-slow has not answered"
    with server.listening(tmp_path / "cri.sock") as path, CriClient(path, 20.0) as cri:
        with pytest.raises(RpcError, match="plugin 10-slow has not answered") as caught:
            cri.call("CreateContainer", pb.CreateContainerRequest())
        assert caught.value.code == code.value[0]


def test_a_timeout_names_method_and_socket(path: str) -> None:
    with (
        CriClient(path, 0.2) as cri,
        pytest.raises(DeadlineExceeded, match=r"waiting for CreateContainer of .*cri\.sock"),
    ):
        cri.call("CreateContainer", pb.CreateContainerRequest())


FULL = b"\x0a\x00" * (1 << 16)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"\x0a\x05ab", "cannot be read"),
        (FULL + b"\x0a\x02\x0a\x00" * (1 << 16), "has more than 65536 entries"),
        (b"\x0a\x00" * (8 << 20), "has more than 65536 entries"),
        (FULL[:-2] + b"\x0a" + b"\xff" * (1 << 18), "cannot be read"),
    ],
)
def test_an_oversized_reply_is_refused_before_decoding(answer: bytes, problem: str) -> None:
    with pytest.raises(RpcError, match=f"ListContainers: the runtime's answer {problem}") as caught:
        decode_answer(pb.ListContainersResponse, answer)
    assert caught.value.code == 13


def test_a_reply_above_16_mib_is_refused(tmp_path: Path) -> None:
    class Large(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(lambda *_: b"\x0a\x84\x80\x80\x08" + bytes((16 << 20) + 4))

    server = grpc.server(ThreadPool(1), [Large()], options=[("grpc.max_send_message_length", -1)])
    server.add_insecure_port(f"unix:{tmp_path}/r.sock")
    server.start()
    try:
        with CriClient(str(tmp_path / "r.sock")) as cri, pytest.raises(RpcError) as caught:
            cri.call("Version", pb.VersionRequest())
    finally:
        server.stop(0).wait()
    assert caught.value.code == Code.RESOURCE_EXHAUSTED


def test_the_reply_of_a_full_node_is_read() -> None:
    long = pb.ListContainersResponse(containers=[pb.Container(id="c" * 64)] * 10_000)
    assert decode_answer(pb.ListContainersResponse, long.SerializeToString()) == long
    assert len(decode_answer(pb.ListContainersResponse, FULL).containers) == 1 << 16


def test_an_unreadable_reply_is_an_error_with_the_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Garbles(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            if details.method.endswith("Events"):
                return grpc.unary_stream_rpc_method_handler(lambda *_: iter([b"", b"\xff"]))
            return grpc.unary_unary_rpc_method_handler(lambda *_: b"\xff\xff\xff")

    server = bind(str(tmp_path / "r.sock"), ThreadPool(1), [Garbles()])
    server.start()
    try:
        with CriClient(str(tmp_path / "r.sock")) as cri:
            with pytest.raises(RpcError, match="Version: the runtime's answer cannot be read"):
                cri.call("Version", pb.VersionRequest())
            events = cri.stream("GetContainerEvents", pb.GetEventsRequest())
            assert next(events) == pb.ContainerEventResponse()
            with pytest.raises(RpcError, match="ContainerEvent: the runtime's answer cannot be read"):
                next(events)
    finally:
        server.stop(0).wait()
    assert "Traceback" not in caplog.text


def test_a_file_that_is_not_a_socket_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(RuntimeUnavailable, match="not a socket"):
        CriClient(str(tmp_path / "f"))


@pytest.fixture
def nobody() -> Iterator[None]:
    """Another user than root, for whom folders of root are closed."""
    need_root()
    os.seteuid(65534)
    yield
    os.seteuid(0)


def test_without_permission_the_error_recommends_root(path: str, nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"permission denied\. Run this command as root"):
        CriClient(path)
    monkeypatch.setattr(client, "SOCKETS", (path,))
    with pytest.raises(RuntimeUnavailable, match=r"permission denied\. Run this command as root"):
        find_socket()


def test_the_first_existing_socket_is_used(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(client, "SOCKETS", (str(tmp_path / "a"), str(tmp_path / "b")))
    with pytest.raises(RuntimeUnavailable, match="with --cri-socket"):
        find_socket()
    with pytest.raises(RuntimeUnavailable, match="with --runtime-endpoint"):
        find_socket("--runtime-endpoint")
    (tmp_path / "b").touch()
    assert find_socket() == str(tmp_path / "b")


def test_without_grpcio_the_error_names_the_extra(path: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(NriError, match=re.escape(INSTALL)):
        CriClient(path)
