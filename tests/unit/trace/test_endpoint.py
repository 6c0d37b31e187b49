"""Calls by hand: methods by their names, and connections."""

from __future__ import annotations

import queue
from pathlib import Path
from time import monotonic

import pytest

from nri.api import messages as m
from nri.api.naming import PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.errors import ConfigError, RuntimeUnavailable
from nri.trace.catalog import Catalog
from nri.trace.endpoint import connect, connection_of
from nri.ttrpc import Method, Server, Service
from tests.support.greeter import GREETER, HELLO, REPLY


def test_a_known_method_is_found() -> None:
    catalog = Catalog()
    assert catalog.method(*catalog.resolve("Runtime/RegisterPlugin")).name == "RegisterPlugin"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Hello", "Hello: not SERVICE/METHOD (for example nri.pkg.api.v1alpha1.Runtime/RegisterPlugin)"),
        (
            f"{GREETER}/Hello",
            f"{GREETER}: the messages of this service are unknown (use --descriptor-set FILE, or --hex)",
        ),
        (
            "Runtime/RegisterPlugn",
            f'{RUNTIME_SERVICE}: method RegisterPlugn not found (did you mean "RegisterPlugin"?)',
        ),
    ],
)
def test_an_unknown_method_is_an_error(text: str, line: str) -> None:
    catalog = Catalog()
    with pytest.raises(ConfigError) as caught:
        catalog.method(*catalog.resolve(text))
    assert str(caught.value) == line


def test_an_invalid_descriptor_set_is_an_error_that_shows_how_to_create_one(tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(b"\xff\xff")
    with pytest.raises(ConfigError) as caught:
        Catalog(path)
    step = f"create one: protoc --include_imports --descriptor_set_out={path} ..."
    assert str(caught.value) == f"{path}: not a descriptor set ({step})"


def test_only_nris_services_have_a_connection_number() -> None:
    assert [connection_of(service) for service in (PLUGIN_SERVICE, RUNTIME_SERVICE, "a.B")] == [1, 2, 0]


def test_without_a_listener_connecting_raises_runtime_unavailable() -> None:
    with pytest.raises(RuntimeUnavailable) as caught:
        connect("/nowhere.sock", 0)
    assert (caught.value.socket, caught.value.reason) == ("/nowhere.sock", "no such file or directory")


def test_a_plain_connection_reaches_a_plain_server(folder: Path) -> None:
    method = Method(lambda message: REPLY(text=f"hello {message.name}"), HELLO, REPLY)
    with Server(str(folder / "s"), [Service(GREETER, {"Hello": method})]):
        endpoint = connect(str(folder / "s"), 0)
        try:
            reply = endpoint.call(GREETER, "Hello", HELLO(name="Ada").SerializeToString(), deadline=monotonic() + 10)
        finally:
            endpoint.close()
            endpoint.release(monotonic() + 1.0)
    assert REPLY.FromString(reply).text == "hello Ada"


def test_a_connection_of_the_multiplexer_reaches_a_runtime(listen) -> None:
    names: queue.Queue[str] = queue.Queue()
    path = listen(lambda runtime: names.put(runtime.register().plugin_name))
    endpoint = connect(path, connection_of(RUNTIME_SERVICE))
    request = m.RegisterPluginRequest(plugin_name="me", plugin_idx="10").SerializeToString()
    try:
        endpoint.call(RUNTIME_SERVICE, "RegisterPlugin", request, deadline=monotonic() + 10)
    finally:
        endpoint.close()
        endpoint.release(monotonic() + 1.0)
    assert names.get(timeout=10) == "me"
