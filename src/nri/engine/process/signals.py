"""Signals to a container's first process, sent by the kernel's own call.

An OCI runtime's kill is a program of ten milliseconds for one system call. The process has to be the child of
the conmon of this very container, looked at after a pidfd of it was opened, so that it is never another one of the same
number; where that cannot be shown, or the signal has no common name, nothing is sent, and the OCI runtime has to.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from nri.engine.process.conmon import find_conmon
from nri.engine.support.command import readable
from nri.host.process import read_stat
from nri.host.root import MACHINE


def send(bundle: Path, container_id: str, pid: int, word: str, wait_s: float = 0.0) -> bool:
    """Send a signal, such as ``TERM``, to the container's first process; False if the OCI runtime has to.

    Returns once the process has ended, or after `wait_s` seconds.
    """
    number = number_of(word)
    conmon = find_conmon(bundle, container_id) if pid > 0 and number else 0
    if not conmon:
        return False
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        stat = read_stat(MACHINE, pid)
        if stat is None or stat.parent != conmon:
            return False
        signal.pidfd_send_signal(descriptor, number)
        if wait_s:
            readable(descriptor, wait_s)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def number_of(word: str) -> int:
    """The number of a signal by its name, with or without SIG, or by its digits; 0 for another word."""
    if word.isdecimal():
        return int(word) if int(word) in {*signal.Signals} else 0
    name = word.upper()
    found = signal.Signals.__members__.get(name if name.startswith("SIG") else f"SIG{name}")
    return 0 if found is None else int(found)
