"""The CRI client: calls reach a real gRPC server, and every failure says what to do."""

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


def test_a_call_is_answered_also_where_the_environment_has_a_proxy(path: str, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")
    with CriClient(f"unix://{path}") as cri:
        assert [pod.id for pod in cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items] == ["p1"]


def test_a_status_of_the_runtime_is_an_error_with_its_code(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(RpcError, match="no such container") as caught:
        cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id="x"))
    assert caught.value.code == 5


def test_a_call_that_the_runtime_does_not_serve_is_named(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(RpcError, match="does not serve Status of CRI v1"):
        cri.call("Status", pb.StatusRequest())
    with CriClient(path) as cri, pytest.raises(RpcError, match="does not serve GetContainerEvents"):
        list(cri.stream("GetContainerEvents", pb.GetEventsRequest()))


def test_a_method_that_the_cri_does_not_have_is_a_mistake_of_ours(path: str) -> None:
    with CriClient(path) as cri, pytest.raises(ValueError, match="no method Nope"):
        cri.call("Nope", pb.VersionRequest())


def test_a_socket_that_is_not_there_says_which_option_names_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"no such file or directory\. Name .* --cri-socket"):
        CriClient(str(tmp_path / "none"))
    with pytest.raises(RuntimeUnavailable, match=r"no such file or directory\. Name .* with pods\.cri, or"):
        CriClient(str(tmp_path / "none"), option="pods.cri")


def test_a_runtime_that_ends_while_it_is_asked_is_not_taken_for_an_nri_socket(tmp_path: Path) -> None:
    with CriServer().listening(tmp_path / "cri.sock") as path:
        cri = CriClient(path)
    Path(path).unlink(missing_ok=True)
    with cri, pytest.raises(RuntimeUnavailable, match="no such file or directory"):
        cri.call("Version", pb.VersionRequest())


@contextmanager
def answering(path: Path, answer: bytes | None) -> Iterator[str]:
    """A server that says this to whatever it is told, and hangs up; None: no answer, and does not."""

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
def test_what_does_not_speak_grpc_is_told_in_time_with_what_it_said(
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
def test_a_runtime_that_says_which_plugin_failed_is_quoted(tmp_path: Path, code: grpc.StatusCode) -> None:
    server = CriServer()
    server.refusal = code, "plugin 10-slow has not answered"
    with server.listening(tmp_path / "cri.sock") as path, CriClient(path, 20.0) as cri:
        with pytest.raises(RpcError, match="plugin 10-slow has not answered") as caught:
            cri.call("CreateContainer", pb.CreateContainerRequest())
        assert caught.value.code == code.value[0]


def test_a_call_that_our_own_deadline_ends_names_method_and_socket(path: str) -> None:
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
def test_an_answer_with_too_much_in_it_is_refused_before_it_is_read(answer: bytes, problem: str) -> None:
    with pytest.raises(RpcError, match=f"ListContainers: the runtime's answer {problem}") as caught:
        decode_answer(pb.ListContainersResponse, answer)
    assert caught.value.code == 13


def test_an_answer_of_more_than_16_mib_is_refused(tmp_path: Path) -> None:
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


def test_a_full_node_is_read() -> None:
    long = pb.ListContainersResponse(containers=[pb.Container(id="c" * 64)] * 10_000)
    assert decode_answer(pb.ListContainersResponse, long.SerializeToString()) == long
    assert len(decode_answer(pb.ListContainersResponse, FULL).containers) == 1 << 16


def test_an_answer_that_cannot_be_read_names_the_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_file_that_is_no_socket_says_so(tmp_path: Path) -> None:
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


def test_without_permission_it_says_to_run_it_as_root(path: str, nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"permission denied\. Run it as root"):
        CriClient(path)
    monkeypatch.setattr(client, "SOCKETS", (path,))
    with pytest.raises(RuntimeUnavailable, match=r"permission denied\. Run it as root"):
        find_socket()


def test_the_first_socket_of_the_machine_is_taken(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(client, "SOCKETS", (str(tmp_path / "a"), str(tmp_path / "b")))
    with pytest.raises(RuntimeUnavailable, match="with --cri-socket"):
        find_socket()
    with pytest.raises(RuntimeUnavailable, match="with --runtime-endpoint"):
        find_socket("--runtime-endpoint")
    (tmp_path / "b").touch()
    assert find_socket() == str(tmp_path / "b")


def test_without_grpcio_the_extra_is_named(path: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(NriError, match=re.escape(INSTALL)):
        CriClient(path)
