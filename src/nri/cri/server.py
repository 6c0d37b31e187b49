"""A gRPC server at a unix socket of its own, for what serves the CRI. Needs the extra `cri`.

Rules: grpcio tells nothing of who connects to a unix socket, so the socket's mode is the gate: it is never wider than
0600, and its folder must not be one that others may write to. A socket that a live process listens on stays that
process's; a dead one is replaced. Next: `nri.cri.codes`, from errors to statuses.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc

from nri.unix import make_folder, remove_dead

__all__ = ["MESSAGE_BYTES", "bind"]

#: The longest message in either direction, as with containerd: lists of a big node are over gRPC's own 4 MiB.
MESSAGE_BYTES = 16 << 20


def bind(
    path: str,
    pool: ThreadPoolExecutor,
    handlers: Sequence[grpc.GenericRpcHandler],
    *,
    folder_mode: int = 0o700,
    most_calls: int | None = None,
) -> grpc.Server:
    """Make a server with these handlers at a path, not started yet.

    Args:
        folder_mode: of the socket's folder, if it is not there.
        most_calls: calls at a time; more are refused at once. None: they wait for a thread.

    Raises:
        OSError: the socket cannot be had.
        RuntimeError: gRPC cannot bind it.
    """
    make_folder(path, folder_mode)
    _check_folder(os.path.dirname(os.path.abspath(path)))
    remove_dead(path)
    options = [("grpc.max_receive_message_length", MESSAGE_BYTES), ("grpc.max_send_message_length", MESSAGE_BYTES)]
    server = grpc.server(pool, handlers=handlers, options=options, maximum_concurrent_rpcs=most_calls)
    before = os.umask(0o177)  # grpc binds by itself; stricter for other threads' files, and only for a moment
    try:
        server.add_insecure_port(f"unix:{path}")
    finally:
        os.umask(before)
    return server


def _check_folder(folder: str) -> None:
    """Refuse a folder in which others could put a socket of theirs in the place of this one."""
    found = os.stat(folder)
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if found.st_uid not in (0, os.geteuid()) or (others and not found.st_mode & stat.S_ISVTX):
        raise PermissionError(f"{folder} can be written by others: the CRI's socket needs a folder of its own")
