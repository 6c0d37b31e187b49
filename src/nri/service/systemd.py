"""systemd's notification socket. Next: `nri.service.http`."""

from __future__ import annotations

import os
import socket

__all__ = ["notify"]


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
