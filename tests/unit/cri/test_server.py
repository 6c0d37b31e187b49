"""A gRPC server at a unix socket: folder, mode, replacement and limits."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from nri.cri import server as server_module
from nri.cri.server import SocketServer, bind
from nri.thread_pool import ThreadPool
from tests.support.commands import unmeasured
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for

#: A call with a timeout of half a second, in a separate process because the client needs threads, too.
CLIENT = """
import sys, grpc
try:
    grpc.insecure_channel(f"unix:{sys.argv[1]}", options=[("grpc.enable_http_proxy", 0)]).unary_unary("/a.B/C")(
        b"early", timeout=0.5)
    print("answered")
except grpc.RpcError as error:
    print(error.code().name)
"""


class Echo(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda request, _: request)


def started(path: Path) -> SocketServer:
    server = bind(str(path), ThreadPool(2), [Echo()])
    server.start()
    return server


def test_the_socket_is_private(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s.sock"
    server = started(path)
    try:
        assert stat.S_IMODE(path.stat().st_mode) & 0o177 == 0
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        with grpc.insecure_channel(f"unix:{path}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            assert channel.unary_unary("/a.B/C")(b"hello", timeout=20) == b"hello"
    finally:
        server.stop(0).wait()


class Answers(grpc.GenericRpcHandler):
    """Answers with the number of bytes that the request requires."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda request, _: bytes(int(request[:12] or b"0")))


@pytest.mark.parametrize(
    ("request_bytes", "answer_bytes", "metadata_bytes", "is_served"),
    [
        (15 << 20, 0, 0, True),
        (17 << 20, 0, 0, False),
        (0, 15 << 20, 0, True),
        (0, 17 << 20, 0, False),
        (0, 0, 900 << 10, True),
        (0, 0, 1100 << 10, False),
    ],
)
def test_requests_replies_and_metadata_are_bounded(
    tmp_path: Path, request_bytes: int, answer_bytes: int, metadata_bytes: int, is_served: bool
) -> None:
    server = bind(str(tmp_path / "s.sock"), ThreadPool(2), [Answers()])
    server.start()
    options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]
    options += [("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 8 << 20)]
    request = b"%012d" % answer_bytes + bytes(request_bytes)
    try:
        with grpc.insecure_channel(f"unix:{tmp_path}/s.sock", options=options) as channel:
            call = channel.unary_unary("/a.B/C")
            if is_served:
                assert len(call(request, timeout=20, metadata=[("x", "y" * metadata_bytes)])) == answer_bytes
            else:
                with pytest.raises(grpc.RpcError) as caught:
                    call(request, timeout=20, metadata=[("x", "y" * metadata_bytes)])
                assert caught.value.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
    finally:
        server.stop(0).wait()


def test_a_call_without_a_free_thread_ends_at_its_deadline(
    tmp_path: Path,
) -> None:
    server = started(tmp_path / "s.sock")
    try:
        with no_threads():
            early = subprocess.run(
                [sys.executable, "-c", CLIENT, server.path],
                check=True,
                capture_output=True,
                text=True,
                env=unmeasured(),
            )
        assert early.stdout == "DEADLINE_EXCEEDED\n"
        with grpc.insecure_channel(f"unix:{server.path}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            assert channel.unary_unary("/a.B/C")(b"late", timeout=20) == b"late"
    finally:
        server.stop(0).wait()


class Endless(grpc.GenericRpcHandler):
    """Methods of all kinds that last until they are let go, and reads."""

    def __init__(self) -> None:
        self.let_go, self.begun = threading.Event(), threading.Semaphore(0)

    def answer(self, request: bytes, _: object) -> bytes:
        self.begun.release()
        self.let_go.wait(60)
        return b"done"

    def answers(self, request: object, context: object) -> Iterator[bytes]:
        yield self.answer(b"", context)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        make = {
            "Stream": lambda: grpc.unary_stream_rpc_method_handler(self.answers),
            "Streams": lambda: grpc.stream_stream_rpc_method_handler(self.answers),
            "ExecSync": lambda: grpc.unary_unary_rpc_method_handler(self.answer),
            "Version": lambda: grpc.unary_unary_rpc_method_handler(lambda request, _: request),
        }.get(details.method.rpartition("/")[2])
        return make and make()


@contextmanager
def endless(path: Path, most_of_one: int, connections: int) -> Iterator[tuple[Endless, list[grpc.Channel]]]:
    """A server of six threads with such methods, and connections to it."""
    handler = Endless()
    server = bind(str(path), ThreadPool(6), [handler], max_calls_per_connection=most_of_one)
    server.start()
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    with ExitStack() as stack:
        stack.callback(lambda: server.stop(0).wait())
        stack.callback(handler.let_go.set)
        yield (
            handler,
            [stack.enter_context(grpc.insecure_channel(f"unix:{path}", options=options)) for _ in range(connections)],
        )


def test_endless_calls_of_many_connections_leave_threads_for_others(tmp_path: Path) -> None:
    with endless(tmp_path / "s.sock", most_of_one=3, connections=4) as (handler, channels):
        holder = [
            channels[0].unary_unary("/a.B/ExecSync").future(b""),
            channels[1].unary_unary("/a.B/ExecSync").future(b""),
            channels[1].unary_stream("/a.B/Stream")(b""),
            channels[2].stream_stream("/a.B/Streams")(iter([b""])),
        ]
        for _ in holder:
            assert handler.begun.acquire(timeout=20)
        more: list[Callable[[], object]] = [
            lambda: channels[2].unary_unary("/a.B/ExecSync")(b"", timeout=20),
            lambda: next(channels[3].unary_stream("/a.B/Stream")(b"", timeout=20)),
        ]
        for begin in more:
            with pytest.raises(grpc.RpcError) as caught:
                begin()
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "4 may run at a time" in caught.value.details()
        for channel in channels:
            assert channel.unary_unary("/a.B/Version")(b"hello", timeout=20) == b"hello"
        with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
            channels[0].unary_unary("/a.B/Unknown")(b"", timeout=20)
        handler.let_go.set()
        assert (holder[0].result(20), next(holder[2]), next(holder[3])) == (b"done", b"done", b"done")
        assert [holder[1].result(20), [*holder[2]], [*holder[3]]] == [b"done", [], []]
        assert channels[3].unary_unary("/a.B/ExecSync")(b"", timeout=20) == b"done"


def test_endless_calls_of_one_connection_leave_calls_for_others(tmp_path: Path) -> None:
    with endless(tmp_path / "s.sock", most_of_one=4, connections=2) as (handler, (one, other)):
        calls = [one.unary_unary("/a.B/ExecSync").future(b"") for _ in range(4)]
        for _ in range(4):
            assert handler.begun.acquire(timeout=20)
        late = other.unary_unary("/a.B/ExecSync").future(b"")
        assert handler.begun.acquire(timeout=20), late.code()
        handler.let_go.set()
        assert [entry.result(20) for entry in (*calls, late)] == [b"done"] * 5


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="writable by other users"):
        bind(str(folder / "s.sock"), ThreadPool(1), [Echo()])
    folder.chmod(0o1777)
    started(folder / "s.sock").stop(0).wait()


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(path))
    other.listen()
    with pytest.raises(OSError, match="in use"):
        bind(str(path), ThreadPool(1), [Echo()])
    other.close()
    assert os.path.exists(path)
    started(path).stop(0).wait()


def test_the_socket_is_private_at_any_moment_without_changing_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The umask belongs to the whole process, so a change would affect files of other threads."""
    path, marker = tmp_path / "s.sock", list[tuple[int, int]]()
    before = os.umask(0)  # the loosest one
    rename = os.rename

    def looked_at(source: str, place: str) -> None:
        marker.append((stat.S_IMODE(os.stat(source).st_mode), stat.S_IMODE(os.stat(os.path.dirname(source)).st_mode)))
        rename(source, place)

    def touched(mask: int) -> int:
        raise AssertionError(f"the umask is set to {mask:o}")

    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", touched)
            patch.setattr(os, "rename", looked_at)
            server = started(path)
    finally:
        os.umask(before)
    try:
        assert marker == [(0o600, 0o700)]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.listdir(tmp_path) == ["s.sock"], "something is left of the making"
    finally:
        server.stop(0).wait()


def test_a_path_of_the_maximum_length_works(tmp_path: Path) -> None:
    folder = tmp_path / ("f" * (107 - len(os.fsencode(tmp_path)) - len("//s.sock")))
    path = folder / "s.sock"
    assert len(os.fsencode(path)) == 107
    started(path).stop(0).wait()


def test_a_stop_removes_only_its_own_socket(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    server = started(path)
    server.stop(0).wait()
    assert not path.exists()
    server = started(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        server.stop(0).wait()
        assert path.exists(), "the socket of another process is gone"


def test_a_failed_bind_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    path.write_text("no socket")
    with pytest.raises(OSError, match="not a socket"):
        bind(str(path), ThreadPool(1), [Echo()])
    assert os.listdir(tmp_path) == ["s.sock"]


def test_a_server_that_loses_the_race_for_a_path_removes_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, path: str) -> None:
        raise OSError(f"{path} is in use")

    monkeypatch.setattr(server_module, "put_in_place", refuse)
    before = listening()
    with pytest.raises(OSError, match="in use") as refused:
        bind(str(tmp_path / "s.sock"), ThreadPool(1), [Echo()])
    assert refused.value
    wait_for(lambda: listening() == before, "the new socket is closed")
    assert os.listdir(tmp_path) == []


def listening() -> set[str]:
    """The sockets of this process that listen."""
    open_links = {os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    return {
        name
        for line in lines
        if line.split()[3] == "00010000" and (name := f"socket:[{line.split()[6]}]") in open_links
    }


def test_occupied_temporary_names_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module.secrets, "token_hex", lambda _: "aa")
    (tmp_path / ".aa").mkdir()
    with pytest.raises(FileExistsError, match="no free short folder name"):
        bind(str(tmp_path / "s.sock"), ThreadPool(1), [Echo()])


def test_a_server_can_be_stopped_twice(tmp_path: Path) -> None:
    server = started(tmp_path / "s.sock")
    server.stop(0).wait()
    server.stop(0).wait()
