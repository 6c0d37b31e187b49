"""What systemd tells a service: where it listens for notifications, and what is not for children. Next: `http`."""

from __future__ import annotations

import os
import socket

__all__ = ["environment_of_child", "notify"]

#: What systemd tells a service alone. Given NOTIFY_SOCKET, runc waits for the container to say that it is ready.
_ITS_OWN = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_PID", "WATCHDOG_USEC")


def notify(state: str) -> None:
    """Send a state to systemd, if it started us: "READY=1", "STOPPING=1"."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(1.0)
        try:
            sock.sendto(state.encode(), address)
        except OSError:
            return  # systemd does not listen; a program does not fail because of that


def environment_of_child() -> dict[str, str]:
    """Return this process's environment for a child: without what systemd has told it alone."""
    return {name: value for name, value in os.environ.items() if name not in _ITS_OWN}
