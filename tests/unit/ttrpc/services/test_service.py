"""Services: lookup of methods and the return values of handlers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nri.api import messages as m
from nri.errors import ConnectionClosed, LocalProtocolError, RpcError
from nri.ttrpc import Client, Code, Method, Server, Service
from tests.support.stream_servers import serving
from tests.support.streams import NAME, Item, ListRequest
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("method", "streaming", "code"),
    [
        ("Nothing", "both", Code.UNIMPLEMENTED),
        ("Look", "both", Code.UNIMPLEMENTED),
    ],
)
def test_an_unknown_stream_is_unimplemented(client: Client, method: str, streaming: Any, code: int) -> None:
    with client.stream(NAME, method, streaming=streaming) as stream, pytest.raises(RpcError) as caught:
        stream.receive()
    assert caught.value.code == code


def test_a_unary_call_of_a_streaming_method_is_unimplemented(client: Client) -> None:
    with pytest.raises(RpcError, match="List is a stream") as caught:
        client.call(NAME, "List", ListRequest(count=1))
    assert caught.value.code == Code.UNIMPLEMENTED


def test_a_unary_method_can_be_called_as_a_server_stream(client: Client) -> None:
    """The reference does the same."""
    with client.stream(NAME, "Look", Item(number=7), Item, streaming="server") as stream:
        assert [item.number for item in stream] == [7]


def test_a_message_of_another_class_has_the_status_internal(path: str) -> None:
    service = Service("s", {"M": Method(list, Item, Item, streaming="both")})
    with Server(path, [service]), Client.connect(path) as client, client.stream("s", "M") as stream:
        stream.send(b"\xff\xff")
        with pytest.raises(RpcError, match="unmarshalling payload") as caught:
            stream.receive()
        assert caught.value.code == Code.INTERNAL


@pytest.mark.parametrize(
    ("streaming", "returns", "text"),
    [
        ("server", 5, "returned int, not messages to iterate over"),
        ("server", [5], "returned int, not Item"),
        ("client", 5, "returned int, not Item"),
    ],
)
def test_a_handler_with_a_wrong_return_value_has_the_status_internal(
    path: str, streaming: Any, returns: Any, text: str
) -> None:
    service = Service("s", {"M": Method(lambda _: returns, Item, Item, streaming=streaming)})
    with Server(path, [service]), Client.connect(path) as client:
        with client.stream("s", "M", streaming=streaming) as stream, pytest.raises(RpcError, match=text):
            stream.result() if streaming == "client" else stream.receive()


def test_a_generator_is_closed_when_its_client_disconnects(path: str) -> None:
    closed = threading.Event()

    def endless(_: Any) -> Iterator[bytes]:
        try:
            while True:
                yield bytes(1000)
        finally:
            closed.set()

    with serving(path, "server", endless):
        client = Client.connect(path)
        stream = client.stream("s", "M", streaming="server")
        assert stream.receive()
        client.close()
        assert closed.wait(PATIENCE_S)
        with pytest.raises(ConnectionClosed):
            list(stream)


def pods(*methods: tuple[str, Method]) -> Service:
    return Service("test.Pods", dict(methods))


def rename(pod: m.PodSandbox) -> m.PodSandbox:
    return m.PodSandbox(name=pod.name.upper())


RENAME = pods(("Rename", Method(rename, m.PodSandbox, m.PodSandbox)))


@pytest.mark.parametrize(
    ("service", "method", "text"),
    [
        ("test.Other", "Rename", "service test.Other: not served here, but test.Pods"),
        ("test.Pods", "Other", "method Other: not served here, but Rename"),
    ],
)
def test_an_unknown_method_is_unimplemented(path, service, method, text) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(RpcError) as caught:
            client.call(service, method)
        assert (caught.value.code, caught.value.message) == (Code.UNIMPLEMENTED, text)
        assert client.call("test.Pods", "Rename", m.PodSandbox(name="a"), m.PodSandbox).name == "A"


def test_a_reply_of_a_wrong_type_has_the_status_internal(path) -> None:
    service = pods(("Wrong", Method(lambda _: m.Container(), m.PodSandbox, m.PodSandbox)))
    with Server(path, [service]), Client.connect(path) as client:
        with pytest.raises(RpcError, match="returned Container, not PodSandbox"):
            client.call("test.Pods", "Wrong")


def test_a_service_instead_of_a_list_is_an_error_with_the_right_call(path) -> None:
    with pytest.raises(LocalProtocolError, match=r"must be a list, not the service test\.Pods: write \[service\]"):
        Server(path, RENAME)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match=r"a service must be a nri\.ttrpc\.Service, not str"):
        Server(path, ["test.Pods"])  # type: ignore[list-item]
    with pytest.raises(
        LocalProtocolError, match=r"method Raw of test\.Pods must be a Method, not function: write {\"Raw\": nri"
    ):
        Service("test.Pods", {"Raw": lambda data: data})  # type: ignore[dict-item]


def test_an_unknown_kind_of_stream_is_an_error(path) -> None:
    with pytest.raises(LocalProtocolError, match='"client", "server" or "both", not \'bidi\''):
        Method(lambda stream: stream, streaming="bidi")  # type: ignore[arg-type]
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(LocalProtocolError, match="streaming must be"):
            client.stream("test.Pods", "Rename", streaming="bidi")  # type: ignore[call-overload]


def test_a_duplicate_service_is_an_error(path) -> None:
    with pytest.raises(LocalProtocolError, match=r"test\.Pods is registered twice"):
        Server(path, [RENAME, RENAME])
