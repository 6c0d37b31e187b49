"""A command between client and program: flow control, timeouts and end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from nri.engine.streaming.spdy import frames
from nri.engine.streaming.spdy.frames import control
from tests.support.stream_world import SpdyTalk, WebSocketTalk, World, is_running
from tests.support.waiting import wait_for


def outcome(talk: SpdyTalk) -> dict[str, Any]:
    talk.until(lambda: talk.has_ended("error"), "the outcome")
    document = json.loads(talk.heard("error"))
    assert isinstance(document, dict)
    return document


def test_input_output_and_outcome_are_carried(world: World) -> None:
    talk = world.run("sh", "-c", "cat; exit 3", stdin=True)
    talk.say("stdin", b"hello", end=True)
    assert outcome(talk)["details"]["causes"][0]["message"] == "3"
    assert talk.heard("stdout") == b"hello"
    assert all(talk.has_ended(kind) for kind in ("stdout", "stdin"))
    talk.close()


def test_unread_output_blocks_the_program(world: World, tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    script = f"for i in $(seq 32); do head -c 1000000 /dev/zero; echo $i >> {progress}; done"
    talk = world.run("sh", "-c", script)
    wait_for(progress.exists, "the first megabyte")
    size = -1
    while (now := len(progress.read_text().split())) != size:
        size = now
        time.sleep(0.3)
    assert size < 25, "a client that reads nothing must not have the server keep it all"
    assert outcome(talk)["status"] == "Success"
    assert len(talk.heard("stdout")) == 32_000_000
    talk.close()


def test_unread_input_blocks_the_client(world: World) -> None:
    talk = world.run("sleep", "300", stdin=True)
    assert talk.flood(talk.client.send(talk.streams["stdin"], bytes(1 << 20))) < 40, (
        "what a program does not take must not be kept"
    )
    talk.close()
    wait_for(lambda: not is_running(world.started[0]), "the program's end")


def test_a_client_that_floods_with_pings_is_not_read_endlessly(world: World) -> None:
    talk = world.run("sleep", "300")
    assert talk.flood(control(frames.PING, 1) * 80_000) < 40
    talk.close()


def test_without_traffic_the_program_is_killed_after_a_timeout(world: World) -> None:
    world.limited(idle_s=1.5)
    talk = world.run("sleep", "300")
    assert "no traffic for 1.5 s" in outcome(talk)["message"]
    wait_for(lambda: not is_running(world.started[0]), "the program's end")
    talk.close()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_disconnect_kills_the_program(world: World, how: str) -> None:
    talk = world.run("sh", "-c", "echo here; sleep 300", stdin=True)
    talk.until(lambda: talk.heard("stdout"), "its first word")
    if how == "reset":
        talk.socket.sendall(talk.client.let_go(talk.streams["error"]))
    else:
        talk.close()
    wait_for(lambda: not is_running(world.started[0]), "the program's end")
    talk.close()


def test_all_output_arrives_although_a_child_continues(world: World) -> None:
    talk = world.run("sh", "-c", "sleep 30 & head -c 60000 /dev/zero; kill -9 $$")
    assert outcome(talk)["details"]["causes"][0]["message"] == "137"
    assert len(talk.heard("stdout")) == 60_000
    talk.close()


def test_a_peer_with_windows_gets_output_as_windows_grow(world: World) -> None:
    talk = world.run("sh", "-c", "read go; head -c 300000 /dev/zero", stdin=True)
    stdout = talk.streams["stdout"]
    talk.socket.sendall(control(frames.SETTINGS, 1, 7, 1000) + control(frames.WINDOW_UPDATE, 0, 1 << 20))
    talk.say("stdin", b"go\n")
    talk.until(lambda: len(talk.heard("stdout")) == 1000, "a window of output")
    talk.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        talk.pump()
    talk.socket.settimeout(20)
    talk.socket.sendall(control(frames.WINDOW_UPDATE, stdout, 299_000))
    assert outcome(talk)["status"] == "Success" and len(talk.heard("stdout")) == 300_000
    talk.close()


def test_a_terminal_over_a_websocket_has_a_size_and_an_outcome(world: World) -> None:
    script = "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.02; done"
    talk = WebSocketTalk(world.server.exec_url("c", ["sh", "-c", script], tty=True, stdout=True), "v5.channel.k8s.io")
    talk.until(lambda: b"\1ready\r\n" in talk.messages, "its first word")
    talk.say(b'\x04{"Width":81,"Height":26}')
    talk.until(lambda: talk.client.closed is not None, "the end")
    assert b"26 81" in b"".join(talk.messages) and b'"message": "4"' in talk.messages[-1]
    talk.close()


def test_an_error_of_the_engine_is_the_outcome(world: World) -> None:
    talk = WebSocketTalk(world.server.attach_url("c", stdout=True), "v4.channel.k8s.io")
    talk.until(lambda: talk.client.closed is not None, "the end")
    assert "nothing to attach to" in json.loads(talk.messages[-1][1:])["message"]
    talk.close()
