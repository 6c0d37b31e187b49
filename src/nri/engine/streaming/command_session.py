"""One exec or attach from its first stream to its outcome: a loop between the client and the program.

Rules: one thread; each side is read only as fast as the other takes it; without traffic there is an end.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import closing

from nri.engine.streaming.channels.command import ClientGone, CommandChannels, Input, InputEnd, Resize
from nri.engine.streaming.channels.status import Status
from nri.engine.streaming.link import CHUNK, Limits, Link, Poller
from nri.engine.streaming.programs import Program
from nri.errors import NriError

__all__ = ["CommandSession"]

#: How often a program that has ended is asked for its outcome again while a terminal may still say something.
_TICK_S = 0.1


class CommandSession:
    """The state of one command. `start` starts it when the client is ready."""

    def __init__(
        self, link: Link, poller: Poller, channels: CommandChannels, start: Callable[[], Program], limits: Limits
    ) -> None:
        self._link, self._poller, self._channels, self._start, self._limits = link, poller, channels, start, limits
        self._input: deque[bytes] = deque()
        self._input_size = 0
        self._input_ended = self._input_closed = self._gone = False
        self._size: Resize | None = None
        self._held: deque[tuple[int, bytes]] = deque()

    def run(self, first: bytes) -> None:
        """Serve the client; `first` is what has come from it. Raises RemoteProtocolError, Stopped."""
        self._receive(first)
        deadline = time.monotonic() + self._limits.creation_s
        while not self._channels.ready:
            left = deadline - time.monotonic()
            if left <= 0 or self._left():
                return
            self._listen(self._poller.wait({self._link.fileno(): self._link.mask(read=True)}, left), read=True)
        try:
            program = self._start()
        except (NriError, OSError) as error:
            outcome: Status | None = Status(error=str(error))
        else:
            with closing(program):
                outcome = self._talk(program)
        if outcome is not None:
            self._channels.finish(outcome)
            self._flush()

    def _talk(self, program: Program) -> Status | None:
        """Carry bytes until the program's end, which is returned, or the client's."""
        while True:
            self._give(program)
            if not self._held and (outcome := program.outcome()) is not None:
                return outcome
            if self._left():
                return None
            idle = self._link.heard + self._limits.idle_s - time.monotonic()
            if idle <= 0:
                return Status(error=f"no traffic for {self._limits.idle_s:g} s")
            read = self._input_size < self._limits.input_bytes and self._link.waiting < self._limits.answers_bytes
            ready = self._poller.wait(self._masks(program, read=read), min(idle, _TICK_S if program.ending else idle))
            self._held.extend(program.read(ready))
            self._listen(ready, read=read)

    def _left(self) -> bool:
        return self._gone or self._link.lost

    def _masks(self, program: Program, *, read: bool) -> dict[int, int]:
        output = not self._held and self._link.waiting < self._limits.output_bytes
        found = program.masks(output=output, input_=bool(self._input) and not self._input_closed)
        found[self._link.fileno()] = self._link.mask(read=read)
        return found

    def _listen(self, ready: dict[int, int], *, read: bool) -> None:
        """Take what the client said, and send what it is owed."""
        self._receive(self._link.hear(ready, read=read))
        self._flush()

    def _receive(self, data: bytes) -> None:
        for event in self._channels.receive(data) if data else ():
            if isinstance(event, Input):
                self._input.append(event.data)
                self._input_size += len(event.data)
            elif isinstance(event, InputEnd):
                self._input_ended = True
            elif isinstance(event, Resize):
                self._size = event
            elif isinstance(event, ClientGone):
                self._gone = True
        self._flush()

    def _give(self, program: Program) -> None:
        """Give the program its input, and its terminal's size; and the client its output."""
        if self._size is not None:
            self._resize(program, self._size)
            self._size = None
        try:
            while self._input and not self._input_closed:
                taken = program.write(self._input[0][:CHUNK])
                if not taken:
                    break
                self._took(taken)
        except OSError:
            self._input_closed = True  # it reads no more; it runs on
        if self._input_closed:
            while self._input:
                self._took(len(self._input[0]))
        if self._input_ended and not self._input and not self._input_closed:
            self._input_closed = True
            program.end_input()
        while self._held and (room := self._channels.room(self._held[0][0])):
            stream, data = self._held.popleft()
            self._channels.write(stream, data[:room])
            if len(data) > room:
                self._held.appendleft((stream, data[room:]))
        self._flush()

    def _took(self, size: int) -> None:
        data = self._input.popleft()
        if len(data) > size:
            self._input.appendleft(data[size:])
        self._input_size -= size
        self._channels.consumed(size)

    @staticmethod
    def _resize(program: Program, size: Resize) -> None:
        try:
            program.resize(size.width, size.height)
        except (NriError, OSError):
            pass  # it has no terminal, or has ended

    def _flush(self) -> None:
        self._link.send(self._channels.take())
