"""A person's terminal as the ends of a conversation: raw while it lasts, as it was afterwards, and its changes of size.

Next: `nri.cli.support.pod.stream`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nri.cli.errors import USAGE, Failure
from nri.cli.support.pod.stream import Streams

__all__ = ["ends"]


@contextmanager
def ends(*, stdin: bool, tty: bool, leave: bool = False) -> Iterator[Streams]:
    """The ends for a program. Failure if it is to have a terminal and there is none."""
    source = sys.stdin.fileno() if stdin else None
    if not tty:
        yield Streams(_write, source)
        return
    if source is None or not os.isatty(source):
        raise Failure("-t needs -i, and a terminal as standard input: leave it out", USAGE)
    import termios
    import tty as modes

    before, changed = termios.tcgetattr(source), os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    handler = signal.signal(signal.SIGWINCH, lambda *_: os.eventfd_write(changed, 1))
    try:
        modes.setraw(source, termios.TCSADRAIN)  # what was typed before stays
        yield Streams(_write, source, changed, leave)
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)
        os.close(changed)


def _write(kind: str, data: bytes) -> None:
    """Write output, byte for byte."""
    stream = sys.stderr if kind == "stderr" else sys.stdout
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()
