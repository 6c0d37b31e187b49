"""Send signals to a container's main process by the kernel, which is faster than the OCI runtime's command.

The process must be a child of the container's conmon. This is checked after its pidfd was opened, because pids are
reused. If it is not, or if the signal has no common name, the OCI runtime has to send the signal.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from nri.engine.process.conmon import find_conmon
from nri.engine.support.command import wait_readable
from nri.host.process import read_stat
from nri.host.root import MACHINE


def send(bundle: Path, container_id: str, pid: int, signal_name: str, wait_s: float = 0.0) -> bool:
    """Send a signal, for example ``TERM``, to the container's main process. Wait up to `wait_s` for the process to end.

    Returns False if the signal was not sent, so that the OCI runtime has to send it.
    """
    number = number_of(signal_name)
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
            wait_readable(descriptor, wait_s)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def number_of(signal_name: str) -> int:
    """Return the number of a signal: ``TERM``, ``SIGTERM`` or ``15``. Returns 0 if the signal is unknown."""
    if signal_name.isdecimal():
        return int(signal_name) if int(signal_name) in {*signal.Signals} else 0
    name = signal_name.upper()
    number = signal.Signals.__members__.get(name if name.startswith("SIG") else f"SIG{name}")
    return 0 if number is None else int(number)
