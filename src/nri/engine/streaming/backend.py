"""The engine as the streaming server needs it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol

from nri.engine.process.attach import Attachment
from nri.engine.process.execution import Execution

__all__ = ["Backend"]


class Backend(Protocol):
    """Programs, containers' streams and ports of pods. Each call may take a while, and raise NriError or OSError."""

    def exec(self, container_id: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> Execution:
        """Start a program in a container."""
        ...

    def attach(self, container_id: str) -> Attachment:
        """Connect to a container's streams."""
        ...

    def resize(self, container_id: str, width: int, height: int) -> None:
        """Set the size of a container's own terminal, in characters."""
        ...

    def open_port(self, pod_id: str, port: int) -> socket.socket:
        """Connect to a port of a pod, see :func:`nri.engine.streaming.ports.connect_port`."""
        ...
