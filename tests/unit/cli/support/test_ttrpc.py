"""The catalog's errors as lines that name the command's options."""

from __future__ import annotations

import queue
from pathlib import Path
from time import monotonic

import pytest

from nri.api import messages as m
from nri.api.naming import PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.cli.errors import USAGE, Failure
from nri.cli.support.ttrpc import connect, connection_of, find, open_catalog, resolve
from nri.errors import RuntimeUnavailable
from nri.ttrpc import Method, Server, Service
from tests.support.greeter import GREETER, HELLO, REPLY


def test_a_method_that_is_known_is_found() -> None:
    catalog = open_catalog(None)
    assert find(catalog, *resolve(catalog, "Runtime/RegisterPlugin")).name == "RegisterPlugin"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Hello", '"Hello" is not SERVICE/METHOD, such as nri.pkg.api.v1alpha1.Runtime/RegisterPlugin'),
        (f"{GREETER}/Hello", f"the messages of {GREETER} are not known here: give --descriptor-set FILE, or --hex"),
        (
            "Runtime/RegisterPlugn",
            f'{RUNTIME_SERVICE} has no method RegisterPlugn (did you mean "RegisterPlugin"?)',
        ),
    ],
)
def test_a_method_that_is_not_known_is_wrong_usage(text: str, line: str) -> None:
    catalog = open_catalog(None)
    with pytest.raises(Failure) as caught:
        find(catalog, *resolve(catalog, text))
    assert (caught.value.message, caught.value.code) == (line, USAGE)


def test_what_is_no_descriptor_set_is_wrong_usage_with_the_way_to_one(tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(b"\xff\xff")
    with pytest.raises(Failure) as caught:
        open_catalog(path)
    step = f"Make one: protoc --include_imports --descriptor_set_out={path} ..."
    assert (caught.value.message, caught.value.code) == (f"{path}: not a descriptor set. {step}", USAGE)


def test_nris_services_have_their_connections_and_others_none() -> None:
    assert [connection_of(service) for service in (PLUGIN_SERVICE, RUNTIME_SERVICE, "a.B")] == [1, 2, 0]


def test_without_a_listener_there_is_no_runtime() -> None:
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
