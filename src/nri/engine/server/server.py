"""A threaded gRPC server for the CRI's two services.

Rules: who may connect is `nri.cri.server`'s. Every error goes through the table in `nri.engine.server.codes`.
Next: :mod:`nri.engine.server.methods`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from nri.cri.pb import api_pb2 as pb
from nri.cri.server import SocketServer, bind
from nri.engine.server.methods import Methods
from nri.engine.support.errors import EngineError

__all__ = ["Server"]

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
        self._server: SocketServer | None = None

    def start(self) -> None:
        """Listen and answer. Raises EngineError if the socket cannot be had."""
        path = str(self.path)
        try:
            self._server = bind(path, self._pool, _handlers(self._groups))
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


def _handlers(groups: Sequence[object]) -> list[grpc.GenericRpcHandler]:
    """The handlers of both services, with the methods of the groups."""
    made = []
    for name in _SERVICES:
        methods = Methods(pb.DESCRIPTOR.services_by_name[name], groups)
        made.append(grpc.method_handlers_generic_handler(methods.service, methods.handlers))
        if methods.missing:
            log.debug("%s answers Unimplemented to %s", methods.service, ", ".join(methods.missing))
    return made
