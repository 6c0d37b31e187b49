"""A threaded gRPC server for the CRI's two services.

Rules: grpcio tells nothing of who connects to a unix socket, so the socket's mode is the gate: it is never wider than
0600, and its folder must not be one that others may write to. A socket that a live process
listens on stays that process's. Every error goes through the table in `nri.engine.server.codes`.
Next: :mod:`nri.engine.server.methods`.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from nri.cri.pb import api_pb2 as pb
from nri.engine.server.methods import Methods
from nri.engine.support.errors import EngineError
from nri.unix import make_folder, remove_dead

__all__ = ["MESSAGE_BYTES", "Server"]

#: The longest message in either direction, as with containerd: lists of a big node are over gRPC's own 4 MiB.
MESSAGE_BYTES = 16 << 20
#: Calls that run at a time: a node of 110 pods with a stop, a pull or a probe in each. Threads come when needed.
CALLS = 256
_SERVICES = ("RuntimeService", "ImageService")

log = logging.getLogger("nri.engine.server")


class Server:
    """The CRI at a unix socket, whose folder is made with mode 0700 if it is not there.

    `groups` answer the calls, the first one that has a method for a call; `before_stop` is called when no more calls
    are taken, and ends what would run on.
    """

    def __init__(self, path: Path, groups: Iterable[object], before_stop: Callable[[], None] | None = None) -> None:
        self.path = path
        self._groups = [*groups]
        self._before_stop = before_stop
        self._pool = ThreadPoolExecutor(CALLS, thread_name_prefix="cri")
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Listen and answer. Raises EngineError if the socket cannot be had."""
        path = str(self.path)
        try:
            make_folder(path, 0o700)
            _check_folder(self.path.parent)
            remove_dead(path)
            self._server = _bound(path, self._pool, self._groups)
        except (OSError, RuntimeError) as error:
            raise EngineError(f"cannot listen at {path}: {error}") from error
        self._server.start()
        log.info("the CRI is served at %s", path)

    def stop(self, grace_s: float = 2.0) -> None:
        """Take no more calls, let those that run end for so many seconds, and remove the socket."""
        if self._server is None:
            return
        stopped = self._server.stop(grace_s)
        if self._before_stop is not None:
            self._before_stop()
        stopped.wait()
        self._pool.shutdown(wait=False)
        self._server = None


def _bound(path: str, pool: ThreadPoolExecutor, groups: Sequence[object]) -> grpc.Server:
    """A server with the methods of the groups, at this path."""
    options = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.max_send_message_length", MESSAGE_BYTES),
    ]
    server = grpc.server(pool, options=options)
    for name in _SERVICES:
        methods = Methods(pb.DESCRIPTOR.services_by_name[name], groups)
        handler = grpc.method_handlers_generic_handler(methods.service, methods.handlers)
        server.add_generic_rpc_handlers((handler,))
        if methods.missing:
            log.debug("%s answers Unimplemented to %s", methods.service, ", ".join(methods.missing))
    before = os.umask(0o177)  # grpc binds by itself; stricter for other threads' files, and only for a moment
    try:
        server.add_insecure_port(f"unix:{path}")
    finally:
        os.umask(before)
    return server


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which others could put a socket of theirs in the place of this one."""
    found = folder.stat()
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if found.st_uid not in (0, os.geteuid()) or (others and not found.st_mode & stat.S_ISVTX):
        raise EngineError(f"{folder} can be written by others: the CRI's socket needs a folder of its own")
