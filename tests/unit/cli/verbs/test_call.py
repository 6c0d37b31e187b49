"""`nri call` against real sockets: our own server over plain ttRPC, and a runtime behind NRI's multiplexer."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.errors import RpcError
from nri.ttrpc import Method, Request, Server, Service
from tests.support.greeter import GREETER, HELLO, REPLY, file_set
from tests.support.scripted_runtime import ScriptedRuntime


class Greeter:
    def __init__(self) -> None:
        self.requests: list[Request] = []

    def hello(self, message: Any, request: Request) -> Any:
        self.requests.append(request)
        if not message.name:
            raise RpcError(3, "who are you?")
        return REPLY(text=f"hello {message.name}")


@pytest.fixture
def greeter() -> Greeter:
    return Greeter()


@pytest.fixture
def server(folder: Path, greeter: Greeter) -> Iterator[str]:
    path = str(folder / "greeter.sock")
    with Server(path, [Service(GREETER, {"Hello": Method(greeter.hello, HELLO, REPLY, wants_request=True)})]):
        yield path


@pytest.fixture
def messages(tmp_path: Path) -> str:
    path = tmp_path / "greeter.pb"
    path.write_bytes(file_set().SerializeToString())
    return str(path)


@pytest.mark.parametrize("source", ["text", "file", "stdin"])
def test_a_method_of_a_descriptor_set_is_called_with_json(
    nri, server: str, messages: str, tmp_path: Path, source: str
) -> None:
    text = '{"name": "Ada"}'
    (tmp_path / "request.json").write_text(text)
    data = {"text": text, "file": f"@{tmp_path}/request.json", "stdin": "-"}[source]
    result = nri("call", server, f"{GREETER}/Hello", "--descriptor-set", messages, "-d", data, stdin=text)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {"text": "hello Ada"}


def test_quiet_prints_nothing_and_json_has_the_reply_in_hex(nri, server: str, messages: str) -> None:
    words = ("call", server, f"{GREETER}/Hello")
    known_names = ("--descriptor-set", messages, "-d", '{"name": "Ada"}')
    in_hex = ("--hex", "-d", HELLO(name="Ada").SerializeToString().hex())
    for form in (known_names, in_hex):
        result = nri(*words, *form, "-q")
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        assert nri(*words, "--descriptor-set", messages, "-q").returncode == 1, "the exit code reports the failure"
    assert json.loads(nri(*words, *in_hex, "-o", "json").stdout) == {
        "reply": REPLY(text="hello Ada").SerializeToString().hex()
    }


def test_metadata_and_timeout_reach_the_server(nri, server: str, messages: str, greeter: Greeter) -> None:
    nri(
        "call",
        server,
        f"{GREETER}/Hello",
        "--descriptor-set",
        messages,
        "-d",
        '{"name": "x"}',
        "-m",
        "Key=v=1",
        "-m",
        "b=2",
        "--timeout",
        "7s",
    )
    assert list(greeter.requests[0].metadata) == [("key", "v=1"), ("b", "2")]
    assert 5e9 < greeter.requests[0].timeout_ns <= 7e9


def test_bytes_in_hex_require_no_descriptor_set(nri, server: str) -> None:
    result = nri("call", server, f"{GREETER}/Hello", "--hex", "-d", "0a 03 | 41 64 61")
    assert (result.returncode, result.stdout) == (0, b"\n\x09hello Ada".hex() + "\n")


def test_a_status_exits_with_1_and_its_text(nri, server: str, messages: str) -> None:
    result = nri("call", server, f"{GREETER}/Hello", "--descriptor-set", messages)
    assert result.returncode == 1
    assert result.stderr == "error: rpc error: code = InvalidArgument desc = who are you?\n"


def test_an_unknown_method_is_the_servers_error(nri, server: str) -> None:
    result = nri("call", server, f"{GREETER}/Bye", "--hex")
    text = "method Bye: not served here, but Hello"
    assert (result.returncode, result.stderr) == (1, f"error: rpc error: code = Unimplemented desc = {text}\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["Hello"], "Hello: not SERVICE/METHOD"),
        (
            [f"{GREETER}/Hello"],
            f"{GREETER}: the messages of this service are unknown (use --descriptor-set FILE, or --hex)",
        ),
        (["Runtime/RegisterPlugn"], 'method RegisterPlugn not found (did you mean "RegisterPlugin"?)'),
        (["Runtime/RegisterPlugin", "-d", '{"plugin": 1}'], "-d: not a RegisterPluginRequest: "),
        (["Runtime/RegisterPlugin", "-d", "{"], "-d:1: not valid JSON"),
        (["Runtime/RegisterPlugin", "-d", "5"], "-d: not a RegisterPluginRequest: expected a JSON object, not 5"),
        (["Runtime/RegisterPlugin", "-d", "[]"], "-d: not a RegisterPluginRequest: expected a JSON object, not "),
        (["Runtime/RegisterPlugin", "-d", "@/proc/self/exe"], "/proc/self/exe: not UTF-8 text"),
        (["Runtime/RegisterPlugin", "--mux", "4294967296"], "4294967296 is not in the range"),
        ([f"{GREETER}/Hello", "--hex", "-d", "0g"], 'not hex: "g" is not a hex digit'),
        ([f"{GREETER}/Hello", "--hex", "-m", "x"], '--metadata "x" is not KEY=VALUE'),
    ],
)
def test_mistakes_are_found_before_connecting(nri, arguments: list[str], reason: str) -> None:
    result = nri("call", "/nowhere.sock", *arguments)
    assert result.returncode == 2
    assert reason in result.stderr


def test_an_invalid_descriptor_set_is_an_error(nri, tmp_path: Path) -> None:
    (tmp_path / "x.pb").write_bytes(b"\xff\xff")
    result = nri("call", "/nowhere.sock", "a.B/C", "--descriptor-set", str(tmp_path / "x.pb"))
    assert result.returncode == 2
    assert "not a descriptor set" in result.stderr


def test_a_missing_socket_exits_with_3(nri) -> None:
    assert nri("call", "/nowhere.sock", "a.B/C", "--hex").returncode == 3


def test_a_silent_server_exits_with_3_after_the_timeout(nri, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "deaf.sock"))
        listener.listen()
        result = nri("call", str(folder / "deaf.sock"), "a.B/C", "--hex", "--timeout", "500ms")
    assert (result.returncode, result.stderr) == (3, "error: deadline exceeded while waiting for C\n")


def test_nris_services_use_the_multiplexer(nri, listen) -> None:
    def script(runtime: ScriptedRuntime) -> None:
        registered = runtime.register()
        assert (registered.plugin_name, registered.plugin_idx) == ("me", "10")
        runtime.closed_by_plugin()

    result = nri("call", listen(script), "Runtime/RegisterPlugin", "-d", '{"pluginName": "me", "pluginIdx": "10"}')
    assert (result.returncode, result.stdout) == (0, "{}\n")


def test_a_server_that_disconnects_exits_with_3(nri, listen) -> None:
    result = nri("call", listen(lambda runtime: None), "Runtime/RegisterPlugin")
    assert result.returncode == 3
    assert result.stderr.startswith("error: ttrpc: ")
