"""Notifications to systemd, and the environment of a child process without systemd's variables."""

from __future__ import annotations

import os
import socket

#: Variables for this process only. With NOTIFY_SOCKET, runc would wait until the container reports that it is ready.
_SERVICE_VARIABLES = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_PID", "WATCHDOG_USEC")


def notify(state: str) -> None:
    """Send a state, for example "READY=1" or "STOPPING=1", to systemd, if systemd started this process."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(1.0)
        try:
            sock.sendto(state.encode(), address)
        except OSError:
            return  # systemd does not listen; that must not stop the program


def environment_of_child() -> dict[str, str]:
    """Return the environment of this process without systemd's variables, for a child process."""
    return {name: value for name, value in os.environ.items() if name not in _SERVICE_VARIABLES}
