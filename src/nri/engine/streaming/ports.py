"""Connections to ports of a pod, from inside its network namespace.

Rules: a namespace is entered by a thread that ends with its one connection, and is never used for anything else; the
pod's own loopback is meant, IPv4 before IPv6, as other engines do it.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import CLONE_NEWNET, setns
from nri.threads import run_on_new_thread

__all__ = ["connect_port"]

TIMEOUT_S = 10.0
_LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


def connect_port(namespace: Path | None, port: int, timeout_s: float = TIMEOUT_S) -> socket.socket:
    """Connect to a port on the loopback of a network namespace, or of the host's if there is none.

    Returns a socket that blocks. Raises EngineError.
    """
    found: list[socket.socket] = []
    failed: list[OSError] = []
    held = -1
    try:
        if namespace is not None:
            held = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        run_on_new_thread(lambda: _connect(held, port, timeout_s, found, failed), "nri-engine-port")
    except OSError as error:
        failed.append(error)
    finally:
        if held >= 0:
            os.close(held)
    if found:
        return found[0]
    why = ", ".join(dict.fromkeys(error.strerror or str(error) for error in failed))
    raise EngineError(f"cannot connect to port {port}: {why}")


def _connect(namespace: int, port: int, timeout_s: float, found: list[socket.socket], failed: list[OSError]) -> None:
    """Leave the host's network for good if need be, and connect; runs in a thread of its own."""
    try:
        if namespace >= 0:
            setns(namespace, CLONE_NEWNET)
    except OSError as error:
        failed.append(error)
        return
    for family, address in _LOOPBACKS:
        try:
            made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        except OSError as error:  # a kernel without IPv6
            failed.append(error)
            continue
        try:
            made.settimeout(timeout_s)
            made.connect((address, port))
            made.settimeout(None)
        except OSError as error:
            made.close()
            failed.append(error)
        else:
            found.append(made)
            return
