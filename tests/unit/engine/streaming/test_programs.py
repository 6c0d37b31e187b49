"""Exec and attach programs: no blocking, and the outcome follows all output."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.engine.process.attach import Attachment
from nri.engine.streaming.channels import STDERR, STDOUT, Status
from nri.engine.streaming.command import AttachProgram, ExecProgram
from tests.support.stream_world import World, is_running


@pytest.fixture
def attached(tmp_path: Path) -> Iterator[tuple[AttachProgram, socket.socket, list[tuple[int, int]]]]:
    """A program, conmon's side of it, and the sizes that its terminal was given."""
    sizes: list[tuple[int, int]] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "attach"))
        listener.listen()
        program = AttachProgram(Attachment(tmp_path), lambda width, height: sizes.append((width, height)))
        conmon, _ = listener.accept()
        with conmon:
            yield program, conmon, sizes
        program.close()


def ready(program: AttachProgram | ExecProgram, *, output: bool = True, input_: bool = False) -> dict[int, int]:
    poll = select.poll()
    for descriptor, mask in program.masks(output=output, input_=input_).items():
        poll.register(descriptor, mask)
    return dict(poll.poll(20_000))


def test_packets_of_conmon_are_separated_by_stream(
    attached: tuple[AttachProgram, socket.socket, list[tuple[int, int]]],
) -> None:
    program, conmon, sizes = attached
    conmon.send(b"\2out")
    conmon.send(b"\3err")
    assert program.read(ready(program)) == [(STDOUT, b"out"), (STDERR, b"err")]
    assert program.read({}) == [] and program.outcome() is None and program.masks(output=False, input_=False) == {}
    program.resize(80, 25)
    assert sizes == [(80, 25)]
    conmon.send(b"\2last")
    conmon.close()
    assert program.read(ready(program)) == [(STDOUT, b"last")] and program.outcome() == Status()


def test_input_is_written_without_waiting(
    attached: tuple[AttachProgram, socket.socket, list[tuple[int, int]]],
) -> None:
    program, conmon, _ = attached
    assert ready(program, output=False, input_=True)
    sent, data = 0, bytes(100_000)
    while write := program.write(data):
        sent += write
        assert sent < 64 << 20, "it never said that it is full"
    got = 0
    while got < sent:
        got += len(conmon.recv(1 << 16))
    program.end_input()
    assert got == sent and conmon.recv(10) == b""
    conmon.close()
    with pytest.raises(OSError, match="Broken pipe"):
        program.write(b"x")


def test_a_program_without_input_accepts_none(world: World) -> None:
    program = ExecProgram(world.exec("c", ["sleep", "300"], tty=False, stdin=False), tty=False)
    with pytest.raises(BrokenPipeError):
        program.write(b"x")
    program.close()


def test_a_program_that_cannot_be_watched_is_not_left_running(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = world.exec("c", ["sleep", "300"], tty=False, stdin=False)

    def fail(pid: int, flags: int = 0) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", fail)
        with pytest.raises(OSError, match="Too many"):
            ExecProgram(execution, tty=False)
    assert not is_running(execution)


def test_an_outcome_follows_unread_output(world: World) -> None:
    program = ExecProgram(world.exec("c", ["sh", "-c", "echo out; exit 3"], tty=False, stdin=False), tty=False)
    read: list[tuple[int, bytes]] = []
    while not program.ending:
        read += program.read({fd: mask for fd, mask in ready(program, output=False).items() if mask})
    assert program.outcome() is None and read == []
    while (outcome := program.outcome()) is None:
        read += program.read(ready(program))
    assert read == [(STDOUT, b"out\n")] and outcome == Status(3)
    program.close()
