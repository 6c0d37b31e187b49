"""Exec and attach over SPDY: streams, outcome and resets."""

from __future__ import annotations

import json

import pytest

from nri.engine.streaming.channels import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    ClientGone,
    Input,
    InputEnd,
    Resize,
    Status,
)
from nri.engine.streaming.spdy import frames
from nri.engine.streaming.spdy_channels import COMMAND_PROTOCOLS, SpdyCommand
from tests.support.stream_clients import SpdyClient

ALL = frozenset({STDIN, STDOUT, STDERR, ERROR})
V4 = COMMAND_PROTOCOLS[0]


class Both:
    """A server and its client."""

    def __init__(self, protocol: str = V4, streams: frozenset[int] = ALL) -> None:
        self.server, self.client = SpdyCommand(protocol, streams), SpdyClient()

    def give(self, data: bytes) -> list[object]:
        events: list[object] = [*self.server.receive(data)]
        self.client.read(self.server.take())
        return events

    def open(self, *kinds: str) -> list[int]:
        streams = [self.client.open({"streamtype": kind}) for kind in kinds]
        assert self.give(b"".join(data for _, data in streams)) == []
        return [stream for stream, _ in streams]


def test_the_command_is_ready_when_all_streams_of_its_request_are_open() -> None:
    both = Both()
    both.open("error", "stdin", "stdout")
    assert not both.server.ready
    (stderr,) = both.open("stderr")
    assert both.server.ready and both.client.replied[-1] == stderr


@pytest.mark.parametrize(
    ("protocol", "needs"), [(V4, True), (COMMAND_PROTOCOLS[1], True), (COMMAND_PROTOCOLS[2], False)]
)
def test_a_terminals_size_has_a_stream_since_v3(protocol: str, needs: bool) -> None:
    both = Both(protocol, frozenset({STDOUT, ERROR, RESIZE}))
    both.open("error", "stdout")
    assert both.server.ready == (not needs)
    (resize,) = both.open("resize")
    assert both.server.ready
    assert both.give(both.client.send(resize, b'{"Width":8,"Height":9}')) == [Resize(8, 9)]


def test_unknown_and_duplicate_streams_are_reset() -> None:
    both = Both()
    streams = both.open("stdout", "stdout", "nonsense", "")
    assert both.client.reset == dict.fromkeys(streams[1:], frames.PROTOCOL_ERROR)


def test_input_output_and_outcome_are_carried() -> None:
    both = Both()
    error, stdin, stdout, stderr = both.open("error", "stdin", "stdout", "stderr")
    assert both.give(both.client.send(stdin, b"in", end=True)) == [Input(b"in"), InputEnd()]
    assert both.server.send_window(STDOUT) > 1 << 20
    both.server.write(STDOUT, b"out")
    both.server.write(STDERR, b"err")
    both.server.finish(Status(3))
    both.give(b"")
    assert both.client.data[stdout] == b"out" and both.client.data[stderr] == b"err"
    assert json.loads(both.client.data[error])["reason"] == "NonZeroExitCode"
    assert both.client.ended == {error, stdin, stdout, stderr}
    assert both.client.others[-1].kind == frames.GOAWAY


def test_before_v4_only_failures_have_an_outcome_text() -> None:
    for status, expected_text in (
        (Status(), b""),
        (Status(3), b"command terminated with non-zero exit code: exit status 3"),
    ):
        both = Both(COMMAND_PROTOCOLS[1])
        error, *_ = both.open("error", "stdin", "stdout", "stderr")
        both.server.finish(status)
        both.give(b"")
        assert both.client.data.get(error, b"") == expected_text and error in both.client.ended


def test_streams_that_were_not_requested_carry_no_data() -> None:
    both = Both(V4, frozenset({STDOUT, ERROR}))
    *_, stdin = both.open("error", "stdout", "stderr", "stdin")
    both.server.write(STDERR, b"dropped")
    assert both.give(both.client.send(stdin, b"dropped", end=True)) == [InputEnd()]
    assert both.client.data == {}


def test_resets_end_the_client_or_its_output() -> None:
    both = Both()
    error, stdin, stdout, _ = both.open("error", "stdin", "stdout", "stderr")
    assert both.give(both.client.let_go(stdout)) == []
    assert both.server.send_window(STDOUT) > 0, "or the program would wait for ever"
    both.server.write(STDOUT, b"dropped")
    assert both.give(both.client.let_go(stdin)) == [InputEnd()]
    assert both.give(both.client.let_go(error)) == [ClientGone()]
    assert both.client.data == {}
