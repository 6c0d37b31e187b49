"""Services and clients from generated descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.errors import LocalProtocolError, RpcError
from nri.ttrpc import Client, Code, Server, Service
from nri.ttrpc.services.descriptors import snake
from tests.support.streams import DESCRIPTOR, Item, ListRequest, Streams, Summary


@pytest.mark.parametrize(
    ("name", "python"),
    [("List", "list"), ("SayHello", "say_hello"), ("GetID", "get_id"), ("HTTPGet", "http_get"), ("v1Look", "v1_look")],
)
def test_method_names_become_snake_case(name: str, python: str) -> None:
    assert snake(name) == python


def test_a_service_has_the_names_classes_and_streams_of_its_descriptor() -> None:
    service = Service.of(DESCRIPTOR, Streams())
    assert service.name == "nri.test.Streams"
    rows = {
        name: (method.request_type, method.reply_type, method.streaming) for name, method in service.methods.items()
    }
    assert rows == {
        "List": (ListRequest, Item, "server"),
        "Collect": (Item, Summary, "client"),
        "Relay": (Item, Item, "both"),
        "Look": (Item, Item, None),
    }


def test_a_missing_method_is_unimplemented(tmp_path: Path) -> None:
    class Some:
        def Look(self, item: Any) -> Any:
            return item

    path = str(tmp_path / "s.sock")
    with Server(path, [Service.of(DESCRIPTOR, Some())]), Client.connect(path) as client:
        streams = client.service(DESCRIPTOR)
        assert streams.Look(Item(number=1), timeout_s=5).number == 1
        with pytest.raises(RpcError) as caught:
            list(streams.List(ListRequest()))
        assert caught.value.code == Code.UNIMPLEMENTED


def test_an_implementation_without_any_method_is_an_error() -> None:
    with pytest.raises(LocalProtocolError, match=r"object has no method of nri\.test\.Streams: list, collect, relay"):
        Service.of(DESCRIPTOR, object())


def test_a_client_has_only_the_methods_of_its_descriptor(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with Server(path, [Service.of(DESCRIPTOR, Streams())]), Client.connect(path) as client:
        streams = client.service(DESCRIPTOR)
        assert {"List", "list", "Relay", "relay"} <= set(dir(streams))
        assert streams.look is streams.look
        assert streams.look.__name__ == "look"
        with pytest.raises(AttributeError, match=r"service nri\.test\.Streams has no method nothing"):
            streams.nothing  # noqa: B018
        with streams.collect(metadata=[("k", "v")], timeout_s=5) as stream:
            stream.send(Item(number=0))
            assert stream.result().ordered
