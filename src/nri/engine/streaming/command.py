"""A session of exec or attach: one thread that transfers bytes between the client and the program.

Each side is read only as fast as the other takes the bytes. The outcome is available once the program itself has ended:
its output until then is delivered, but not what its children may write later.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Protocol

from nri.engine.process.attach import STDERR as ATTACHED_STDERR
from nri.engine.process.attach import Attachment
from nri.engine.process.execution import Execution
from nri.engine.streaming.channels import (
    STDERR,
    STDOUT,
    ClientGone,
    CommandChannels,
    Input,
    InputEnd,
    Resize,
    Status,
)
from nri.engine.streaming.link import CHUNK_BYTES, Limits, Link, Poller, read_some
from nri.engine.support.errors import CommandTimeout, EngineError
from nri.errors import NriError

#: The interval of checks whether a program has an outcome while its terminal may still have output.
_TICK_S = 0.1


class CommandSession:
    """The state of one session. `start` starts the program when the client is ready."""

    def __init__(
        self, link: Link, poller: Poller, channels: CommandChannels, start: Callable[[], Program], limits: Limits
    ) -> None:
        self._link, self._poller, self._channels, self._start, self._limits = link, poller, channels, start, limits
        self._input: deque[bytes] = deque()
        self._input_size = 0
        self._input_ended = self._input_closed = self._client_is_gone = False
        self._size: Resize | None = None
        self._pending_output: deque[tuple[int, bytes]] = deque()

    def run(self, first: bytes) -> None:
        """Serve the client. `first` has the bytes that were received so far.

        Raises RemoteProtocolError if the client violates the protocol, and Stopped if the server is being stopped.
        """
        self._receive(first)
        deadline = time.monotonic() + self._limits.creation_s
        while not self._channels.ready:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or self._has_left():
                return
            ready = self._poller.wait({self._link.fileno(): self._link.mask(read=True)}, remaining_s)
            self._exchange(ready, read=True)
        try:
            program = self._start()
        except (NriError, OSError) as error:
            outcome: Status | None = Status(error=str(error))
        else:
            with closing(program):
                outcome = self._transfer(program)
        if outcome is not None:
            self._channels.finish(outcome)
            self._flush()

    def _transfer(self, program: Program) -> Status | None:
        """Transfer bytes until the program ends, and return its outcome, or until the client has gone."""
        while True:
            self._deliver(program)
            if not self._pending_output and (outcome := program.outcome()) is not None:
                return outcome
            if self._has_left():
                return None
            idle = self._link.last_traffic + self._limits.idle_s - time.monotonic()
            if idle <= 0:
                return Status(error=f"no traffic for {self._limits.idle_s:g} s")
            read = self._input_size < self._limits.input_bytes and self._link.waiting < self._limits.answers_bytes
            ready = self._poller.wait(self._masks(program, read=read), min(idle, _TICK_S if program.ending else idle))
            self._pending_output.extend(program.read(ready))
            self._exchange(ready, read=read)

    def _has_left(self) -> bool:
        return self._client_is_gone or self._link.lost

    def _masks(self, program: Program, *, read: bool) -> dict[int, int]:
        output = not self._pending_output and self._link.waiting < self._limits.output_bytes
        masks = program.masks(output=output, input_=bool(self._input) and not self._input_closed)
        masks[self._link.fileno()] = self._link.mask(read=read)
        return masks

    def _exchange(self, ready: dict[int, int], *, read: bool) -> None:
        """Receive bytes of the client, and send what is pending."""
        self._receive(self._link.receive(ready, read=read))
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
                self._client_is_gone = True
        self._flush()

    def _deliver(self, program: Program) -> None:
        """Pass the input and the terminal's size to the program, and output to the client."""
        if self._size is not None:
            self._resize(program, self._size)
            self._size = None
        try:
            while self._input and not self._input_closed:
                size = program.write(self._input[0][:CHUNK_BYTES])
                if not size:
                    break
                self._consume_input(size)
        except OSError:
            self._input_closed = True  # the program no longer reads, but may continue to run
        if self._input_closed:
            while self._input:
                self._consume_input(len(self._input[0]))
        if self._input_ended and not self._input and not self._input_closed:
            self._input_closed = True
            program.end_input()
        while self._pending_output and (send_window := self._channels.send_window(self._pending_output[0][0])):
            stream, data = self._pending_output.popleft()
            self._channels.write(stream, data[:send_window])
            if len(data) > send_window:
                self._pending_output.appendleft((stream, data[send_window:]))
        self._flush()

    def _consume_input(self, size: int) -> None:
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
            pass  # the program has no terminal, or has ended

    def _flush(self) -> None:
        self._link.send(self._channels.take())


#: How long a terminal is read after its program has ended. Usually it is at its end at once.
_TERMINAL_S = 2.0
_WAIT_S = 10.0
_PACKETS = 16


class Program(Protocol):
    """A program's streams and its outcome.

    Attributes:
        ending: whether the program has ended, and its outcome comes soon.
    """

    ending: bool

    def masks(self, *, output: bool, input_: bool) -> dict[int, int]:
        """Return the events to wait for, by descriptor: output, space for input, and the program's end."""
        ...

    def read(self, ready: Mapping[int, int]) -> list[tuple[int, bytes]]:
        """Read the available output, by stream, without waiting."""
        ...

    def write(self, data: bytes) -> int:
        """Write as much input as possible without waiting. Raises OSError if the program no longer reads."""
        ...

    def end_input(self) -> None:
        """End the input."""
        ...

    def resize(self, width: int, height: int) -> None:
        """Set the size of the program's terminal."""
        ...

    def outcome(self) -> Status | None:
        """Return the outcome, or None while the program runs or has unread output."""
        ...

    def close(self) -> None:
        """Release the program. If it was started for the client and is still running, kill it."""
        ...


class ExecProgram:
    """A program that was started for the client."""

    def __init__(self, execution: Execution, *, tty: bool) -> None:
        self._execution, self._tty = execution, tty
        pairs = ((execution.stdout, STDOUT), (execution.stderr, STDERR))
        self._outputs = {descriptor: stream for descriptor, stream in pairs if descriptor is not None}
        self._unread: dict[int, int] = {}
        self._ended_at = 0.0
        self.ending = False
        try:
            for descriptor in {*self._outputs, execution.stdin} - {None}:
                assert descriptor is not None
                os.set_blocking(descriptor, False)
            self._end = os.pidfd_open(execution.pid)
        except BaseException:
            execution.close()
            raise

    def masks(self, *, output: bool, input_: bool) -> dict[int, int]:
        """The descriptors of output, stdin and the runtime's process."""
        masks = dict.fromkeys(self._outputs, select.POLLIN) if output else {}
        if input_ and self._execution.stdin is not None:
            masks[self._execution.stdin] = masks.get(self._execution.stdin, 0) | select.POLLOUT
        if not self._ended_at:
            masks[self._end] = select.POLLIN
        return masks

    def read(self, ready: Mapping[int, int]) -> list[tuple[int, bytes]]:
        """Read each output once."""
        if self._end in ready and not self._ended_at:
            self._note_end()
        rows = []
        for descriptor, stream in [*self._outputs.items()]:
            if ready.get(descriptor, 0) & ~select.POLLOUT:
                data = read_some(descriptor, min(CHUNK_BYTES, self._unread.get(descriptor, CHUNK_BYTES)))
                if data:
                    rows.append((stream, data))
                if descriptor in self._unread:
                    self._unread[descriptor] -= len(data or b"")
                if data == b"" or self._unread.get(descriptor) == 0:
                    del self._outputs[descriptor]
        return rows

    def _note_end(self) -> None:
        """Record how much output the pipes hold, which includes everything that the program itself has written."""
        self._ended_at, self.ending = time.monotonic(), True
        for descriptor in [*self._outputs] if not self._tty else []:
            size = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0]
            self._unread[descriptor] = size
            if not size:
                del self._outputs[descriptor]

    def write(self, data: bytes) -> int:
        """Write to the program's stdin."""
        if self._execution.stdin is None:
            raise BrokenPipeError
        try:
            return os.write(self._execution.stdin, data)
        except BlockingIOError:
            return 0

    def end_input(self) -> None:
        """Close the program's stdin. A terminal stays open."""
        if not self._tty:
            self._execution.close_stdin()

    def resize(self, width: int, height: int) -> None:
        """Set the size of the program's terminal."""
        self._execution.resize(width, height)

    def outcome(self) -> Status | None:
        """Return the exit code once the program has ended and all output was read, otherwise None."""
        if not self._ended_at:
            return None
        if self._outputs and not (self._tty and time.monotonic() - self._ended_at > _TERMINAL_S):
            return None
        try:
            return Status(self._execution.wait(_WAIT_S))
        except CommandTimeout:
            raise
        except EngineError as error:
            return Status(error=str(error))

    def close(self) -> None:
        """Kill the program if it is still running."""
        os.close(self._end)
        self._execution.close()


class AttachProgram:
    """The container's main program, which continues to run when the client disconnects."""

    def __init__(self, attachment: Attachment, resize: Callable[[int, int], None]) -> None:
        self._attachment, self._resize = attachment, resize
        self._ended = self.ending = False

    def masks(self, *, output: bool, input_: bool) -> dict[int, int]:
        """The descriptor of conmon's socket."""
        mask = (select.POLLIN if output else 0) | (select.POLLOUT if input_ else 0)
        return {self._attachment.fileno(): mask} if mask else {}

    def read(self, ready: Mapping[int, int]) -> list[tuple[int, bytes]]:
        """Read some packets of output."""
        rows: list[tuple[int, bytes]] = []
        if not ready.get(self._attachment.fileno(), 0) & ~select.POLLOUT:
            return rows
        while len(rows) < _PACKETS and not self._ended:
            try:
                packet = self._attachment.read(0)
            except TimeoutError:
                break
            if packet is None:
                self._ended = True
            else:
                rows.append((STDERR if packet[0] == ATTACHED_STDERR else STDOUT, packet[1]))
        return rows

    def write(self, data: bytes) -> int:
        """Write to the container's stdin."""
        return self._attachment.send(data)

    def end_input(self) -> None:
        """End the input. The container's stdin ends, too, if the container was created with `stdin_once`."""
        self._attachment.close_stdin()

    def resize(self, width: int, height: int) -> None:
        """Set the size of the container's terminal."""
        self._resize(width, height)

    def outcome(self) -> Status | None:
        """Return success once the container has ended. Its exit code is in the container's status."""
        return Status() if self._ended else None

    def close(self) -> None:
        """Disconnect from the container."""
        self._attachment.close()
