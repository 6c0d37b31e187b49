"""Notifications to systemd, and the environment without the variables that systemd sets for this process only."""

from __future__ import annotations

import os
import socket

__all__ = ["environment_of_child", "notify"]

#: Variables for the service itself. With NOTIFY_SOCKET, runc would wait until the container reports that it is ready.
_SERVICE_VARIABLES = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_PID", "WATCHDOG_USEC")


def notify(state: str) -> None:
    """Send a state to systemd, if it started this process: "READY=1", "STOPPING=1"."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(1.0)
        try:
            sock.sendto(state.encode(), address)
        except OSError:
            return  # systemd does not listen, which must not make the program fail


def environment_of_child() -> dict[str, str]:
    """The environment for a child process: this process's, without systemd's variables for the service."""
    return {name: value for name, value in os.environ.items() if name not in _SERVICE_VARIABLES}
