"""The whole examination: programs, kernel, networks, and the sockets that the engine wants to listen on.

Next: :mod:`nri.engine.check.programs`.
"""

from __future__ import annotations

import socket
from pathlib import Path

from nri.engine.check.kernel import kernel
from nri.engine.check.networks import networks
from nri.engine.check.programs import grpcio, missing, programs
from nri.engine.check.rows import Check
from nri.engine.config import EngineConfig
from nri.engine.machine import look

__all__ = ["examine", "lacking"]

#: A unix socket's path has to fit into the kernel's address: 108 bytes with the zero at its end.
_LONGEST_SOCKET = 107


def examine(config: EngineConfig) -> list[Check]:
    """Look at all that an engine with these settings needs; what is missing has its next step."""
    if config.dry:
        rows = [Check("dry", "ok", "nothing is run, so nothing else is needed"), grpcio()]
    else:
        rows = [*kernel(config, look()), *programs(config), *networks(config)]
    rows.append(_socket("CRI socket", config.socket, "socket"))
    if not config.nri.disable and not config.nri.disable_connections:
        rows.append(_socket("NRI socket", Path(config.nri.socket_path), "nri.socket_path"))
    return rows


def lacking(config: EngineConfig) -> list[Check]:
    """The programs and networks that are missing, for an engine that starts: looked for, and none of them run."""
    if config.dry:
        return []
    return [*missing(config), *(row for row in networks(config) if row.state == "missing")]


def _socket(what: str, path: Path, key: str) -> Check:
    """A socket is free, or another process listens there, which has to be that one's."""
    if len(str(path).encode()) > _LONGEST_SOCKET:
        found = f"{path}: {len(str(path).encode())} bytes, and the kernel takes {_LONGEST_SOCKET}"
        return Check(what, "missing", found, f"set {key} to a shorter path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return Check(what, "ok", f"{path} is free")
        except OSError as error:
            return Check(what, "limited", f"{path}: {error.strerror or error}", "run this as root")
    step = f"fine if that is the engine; else stop the other runtime, or set {key} to another path"
    return Check(what, "limited", f"{path}: a process listens there", step)
