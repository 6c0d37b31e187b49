"""Client and Server for unix sockets, in calls with one request and one reply."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.errors import ConnectionClosed, LocalProtocolError, RpcError, RuntimeUnavailable
from nri.ttrpc import Client, Code, Method, Server, Service


def pods(*methods: tuple[str, Method]) -> Service:
    return Service("test.Pods", dict(methods))


def rename(pod: m.PodSandbox) -> m.PodSandbox:
    return m.PodSandbox(name=pod.name.upper())


RENAME = pods(("Rename", Method(rename, m.PodSandbox, m.PodSandbox)))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


def test_messages_go_in_and_out(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        assert client.call("test.Pods", "Rename", m.PodSandbox(name="web"), m.PodSandbox).name == "WEB"


def test_bytes_go_in_and_out_where_no_types_are_given(path) -> None:
    with Server(path, [pods(("Raw", Method(lambda data: data[::-1])))]), Client.connect(path) as client:
        assert client.call("test.Pods", "Raw", b"abc") == b"cba"


@pytest.mark.parametrize(
    ("service", "method", "text"),
    [
        ("test.Other", "Rename", "service test.Other: not served here, but test.Pods"),
        ("test.Pods", "Other", "method Other: not served here, but Rename"),
    ],
)
def test_what_is_not_served_is_unimplemented(path, service, method, text) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(RpcError) as caught:
            client.call(service, method)
        assert (caught.value.code, caught.value.message) == (Code.UNIMPLEMENTED, text)
        assert client.call("test.Pods", "Rename", m.PodSandbox(name="a"), m.PodSandbox).name == "A"


def test_a_payload_that_does_not_decode_is_internal(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(RpcError, match="unmarshalling payload") as caught:
            client.call("test.Pods", "Rename", b"\xff\xff")
        assert caught.value.code == Code.INTERNAL


def test_a_method_that_returns_the_wrong_type_is_internal(path) -> None:
    service = pods(("Wrong", Method(lambda _: m.Container(), m.PodSandbox, m.PodSandbox)))
    with Server(path, [service]), Client.connect(path) as client:
        with pytest.raises(RpcError, match="returned Container, not PodSandbox"):
            client.call("test.Pods", "Wrong")


def test_requests_of_one_connection_are_served_concurrently(path) -> None:
    meet = threading.Barrier(3, timeout=10)
    service = pods(("Meet", Method(lambda _: (meet.wait() and b"") or b"")))
    with Server(path, [service]), Client.connect(path) as client:
        threads = [threading.Thread(target=client.call, args=("test.Pods", "Meet")) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert not any(t.is_alive() for t in threads), "requests wait for each other"


def test_what_is_over_the_backlog_is_refused(path) -> None:
    release = threading.Event()
    service = pods(("Wait", Method(lambda _: (release.wait(10) and b"") or b"")))
    with Server(path, [service], workers=1, backlog=1), Client.connect(path) as client:
        refused: list[int] = []

        def call() -> None:
            try:
                client.call("test.Pods", "Wait")
            except RpcError as error:
                refused.append(error.code)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 10
        while len(refused) < 2 and time.monotonic() < until:
            time.sleep(0.005)
        release.set()
        for thread in threads:
            thread.join(10)
        assert refused == [Code.RESOURCE_EXHAUSTED] * 2


def test_metadata_and_time_left_reach_a_method_that_asks(path) -> None:
    seen = []
    service = pods(("Look", Method(lambda _, request: seen.append(request) or b"", wants_request=True)))
    with Server(path, [service]), Client.connect(path) as client:
        client.call("test.Pods", "Look", metadata=[("TraceParent", "00-1")], timeout_s=3)
    assert seen[0].metadata == (("traceparent", "00-1"),)
    assert 0 < seen[0].timeout_ns <= 3e9


def test_only_the_owner_may_open_the_socket_and_it_goes_with_the_server(path) -> None:
    server = Server(path, [RENAME])
    with server:
        assert Path(path).stat().st_mode & 0o777 == 0o600
    assert not Path(path).exists()


def test_an_old_socket_is_replaced_and_a_file_is_not(path) -> None:
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(path)
    with Server(path, [RENAME]), Client.connect(path) as client:
        client.call("test.Pods", "Rename", m.PodSandbox(), m.PodSandbox)
    Path(path).write_text("precious")
    with pytest.raises(OSError, match="in use"):
        Server(path, [RENAME]).start()
    assert Path(path).read_text() == "precious"


def test_a_socket_on_which_another_server_listens_is_left_to_it(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(OSError, match="another process listens there"):
            Server(path, [RENAME]).start()
        assert client.call("test.Pods", "Rename", m.PodSandbox(name="a"), m.PodSandbox).name == "A"
        with Client.connect(path) as second:
            assert second.call("test.Pods", "Rename", m.PodSandbox(name="b"), m.PodSandbox).name == "B"


def test_what_a_method_raises_is_logged_once_with_its_name_and_a_status_is_not(
    path, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(payload: bytes) -> bytes:
        raise KeyError("lost") if payload else RpcError(Code.NOT_FOUND, "meant so")

    with Server(path, [pods(("Fails", Method(fails)))]), Client.connect(path) as client:
        with pytest.raises(RpcError) as caught:
            client.call("test.Pods", "Fails", b"x")
        assert (caught.value.code, caught.value.message) == (Code.UNKNOWN, "KeyError: 'lost'")
        with pytest.raises(RpcError, match="meant so"):
            client.call("test.Pods", "Fails")
    (record,) = (record for record in caplog.records if record.name == "nri.ttrpc")
    assert record.getMessage() == "test.Pods/Fails failed"
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


def test_a_reply_that_is_not_of_its_class_is_internal(path) -> None:
    with Server(path, [pods(("Raw", Method(lambda _: b"\xff\xff")))]), Client.connect(path) as client:
        with pytest.raises(RpcError, match="unmarshalling payload") as caught:
            client.call("test.Pods", "Raw", b"", m.PodSandbox)
        assert caught.value.code == Code.INTERNAL


def test_a_request_that_is_no_message_is_refused_here(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(TypeError, match="a request is a protobuf message or bytes, not dict"):
            client.call("test.Pods", "Rename", {"name": "web"})  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="a protobuf message or bytes, not the class PodSandbox"):
            client.call("test.Pods", "Rename", m.PodSandbox)  # type: ignore[call-overload]


def test_a_socket_that_nobody_serves_is_told_without_words_of_nri(path) -> None:
    with pytest.raises(RuntimeUnavailable) as caught:
        Client.connect(path)
    assert str(caught.value) == f"cannot connect to {path}: No such file or directory. Is its server running?"


def test_what_is_no_list_of_services_is_told_with_the_next_step(path) -> None:
    with pytest.raises(LocalProtocolError, match=r"a list, not the one service test\.Pods: write \[service\]"):
        Server(path, RENAME)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match=r"nri\.ttrpc\.Service objects are served, not str"):
        Server(path, ["test.Pods"])  # type: ignore[list-item]
    with pytest.raises(
        LocalProtocolError, match=r"method Raw of test\.Pods is no Method but function: write {\"Raw\": nri"
    ):
        Service("test.Pods", {"Raw": lambda data: data})  # type: ignore[dict-item]


def test_an_unknown_way_to_stream_is_a_mistake(path) -> None:
    with pytest.raises(LocalProtocolError, match='"client", "server" or "both", not \'bidi\''):
        Method(lambda stream: stream, streaming="bidi")  # type: ignore[arg-type]
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(LocalProtocolError, match="streaming says who sends many messages"):
            client.stream("test.Pods", "Rename", streaming="bidi")  # type: ignore[call-overload]


def test_a_server_that_stops_closes_its_connections(path) -> None:
    server = Server(path, [RENAME])
    server.start()
    with Client.connect(path) as client:
        client.call("test.Pods", "Rename", m.PodSandbox(), m.PodSandbox)
        server.stop()
        with pytest.raises(ConnectionClosed):
            client.call("test.Pods", "Rename", m.PodSandbox(), m.PodSandbox)


def test_a_socket_that_is_not_there_is_named(path) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"cannot connect to .*s\.sock: No such file"):
        Client.connect(path)


def test_the_same_service_twice_is_a_mistake(path) -> None:
    with pytest.raises(LocalProtocolError, match=r"test\.Pods is registered twice"):
        Server(path, [RENAME, RENAME])


def test_a_client_of_a_path_says_how_to_connect_to_it(path) -> None:
    with pytest.raises(TypeError, match=r"takes a connection, not a path: write Client.connect\(path\)"):
        Client(path)  # type: ignore[arg-type]
