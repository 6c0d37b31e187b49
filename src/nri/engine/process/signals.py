"""Send signals to a container's main process by the kernel, which is faster than the OCI runtime's command.

The process has to be a child of this container's conmon, which is checked after its pidfd was opened, because pids are
reused. Otherwise, and for signals without a common name, the OCI runtime has to send it.
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
    """Send a signal, for example ``TERM``, to the container's main process; False if the OCI runtime has to.

    Returns once the process has ended, or after `wait_s` seconds.
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
    """The number of a signal, given by its name with or without SIG, or by digits; 0 if it is unknown."""
    if signal_name.isdecimal():
        return int(signal_name) if int(signal_name) in {*signal.Signals} else 0
    name = signal_name.upper()
    number = signal.Signals.__members__.get(name if name.startswith("SIG") else f"SIG{name}")
    return 0 if number is None else int(number)
