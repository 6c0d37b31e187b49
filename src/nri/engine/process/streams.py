"""Owners of a container's standard streams, so that its program can open them by name: /dev/stdout, /dev/stderr.

A pipe belongs to the user that created it, which is the node's root. In a user namespace that root does not exist, so
opening the pipe by name would be refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from nri.host.process import read_stat
from nri.host.root import MACHINE


class StreamOwner(NamedTuple):
    """The node's IDs of the user and group that own the pipes."""

    uid: int
    gid: int


def stream_owner(spec: Mapping[str, Any]) -> StreamOwner | None:
    """The owner for pipes of a container's programs; None without a user namespace.

    As with runc and crun in other containers, it is the program's user, with the group of root.
    """
    linux = spec.get("linux") or {}
    user = ((spec.get("process") or {}).get("user") or {}).get("uid", 0)
    uid, gid = _node_id(linux.get("uidMappings") or (), user), _node_id(linux.get("gidMappings") or (), 0)
    return None if uid is None or gid is None else StreamOwner(uid, gid)


def _node_id(mappings: Iterable[Mapping[str, int]], number: int) -> int | None:
    """The node's ID of an ID in a user namespace; None if it is not mapped."""
    for row in mappings:
        if 0 <= number - row["containerID"] < row["size"]:
            return row["hostID"] + number - row["containerID"]
    return None


def chown_streams(pid: int, parent: int, owner: StreamOwner) -> None:
    """Change the owner of the pipes among the standard streams of a process; no effect if it has ended.

    `parent` is the pid of its parent: a process with another parent has reused the pid.
    """
    for number in range(3):
        with suppress(FileNotFoundError, ProcessLookupError):
            descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_PATH | os.O_CLOEXEC)
            try:
                process = read_stat(MACHINE, pid)
                is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
                if is_pipe and process is not None and process.parent == parent:
                    os.chown(f"/proc/self/fd/{descriptor}", *owner)
            finally:
                os.close(descriptor)
