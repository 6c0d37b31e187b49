"""A gRPC server at a unix socket of its own, for what serves the CRI. Needs the extra `cri`.

Rules: grpcio tells nothing of who connects to a unix socket, so the socket's mode is the gate: it is never wider than
0600, and its folder must not be one that others may write to. gRPC binds by itself, with whatever mode the process's
umask gives: so it does in a folder that is its owner's alone, and the socket is moved to its place with the right mode.
A socket that a live process listens on stays that process's; a dead one is replaced. Next: `nri.cri.codes`, from errors
to statuses.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import grpc

from nri.thread_pool import ThreadPool
from nri.unix import Identity, check_free, make_folder, put_in_place, remove_own

__all__ = ["LIMITS", "MESSAGE_BYTES", "READS", "SocketServer", "bind"]

#: The longest message in either direction, as with containerd: lists of a big node are over gRPC's own 4 MiB.
MESSAGE_BYTES = 16 << 20
#: The longest metadata, in bytes. A status's text is part of them, and gRPC's own 8 KiB are less than an OCI runtime's
#: word on a long command line; in Go, which the other programs of a node are written in, there is no such limit.
METADATA_BYTES = 1 << 20
#: The options of a channel or server for these sizes.
LIMITS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_metadata_size", METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES),
)
#: The ends of the names of methods that a kubelet calls all the time, and that neither change anything nor wait.
READS = (
    "/ListPodSandbox", "/ListContainers", "/PodSandboxStatus", "/ContainerStatus", "/ListContainerStats",
    "/ListPodSandboxStats", "/ContainerStats", "/PodSandboxStats", "/Status", "/Version", "/ListImages", "/ImageStatus",
)  # fmt: skip
_ATTEMPTS = 64


class SocketServer:
    """A gRPC server and the socket that it listens on. Attribute `path`: the socket's."""

    def __init__(self, server: grpc.Server, path: str, identity: Identity | None) -> None:
        self.path = path
        self._server, self._identity = server, identity

    def start(self) -> None:
        """Answer calls."""
        self._server.start()

    def stop(self, grace_s: float) -> threading.Event:
        """Remove the socket if it is still this one, take no more calls, and give those that run so many seconds.

        Returns at once; the event says when no call runs any more.
        """
        if self._identity is not None:
            remove_own(self.path, self._identity)
        self._identity = None
        stopped: threading.Event = self._server.stop(grace_s)
        return stopped


class _Places(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
    """Refuses calls that are no reads while `most` of them run: each may last as long as somebody else wants."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._refusal = f"too many calls that change something or wait: there may be {most} at a time"

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None or details.method.endswith(READS):
            return handler
        asks, answers = (
            "stream" if each else "unary" for each in (handler.request_streaming, handler.response_streaming)
        )
        kind = f"{asks}_{answers}"
        hold = self._stream if handler.response_streaming else self._unary
        made = getattr(grpc, f"{kind}_rpc_method_handler")
        return made(hold(getattr(handler, kind)), handler.request_deserializer, handler.response_serializer)

    def _unary(self, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def behave(request: Any, context: Any) -> Any:
            self._take(context)
            try:
                return answer(request, context)
            finally:
                self._free.release()

        return behave

    def _stream(self, answer: Callable[[Any, Any], Iterator[Any]]) -> Callable[[Any, Any], Iterator[Any]]:
        def behave(request: Any, context: Any) -> Iterator[Any]:
            self._take(context)
            try:
                yield from answer(request, context)
            finally:
                self._free.release()

        return behave

    def _take(self, context: Any) -> None:
        if not self._free.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, self._refusal)


def bind(
    path: str,
    pool: ThreadPool,
    handlers: Sequence[grpc.GenericRpcHandler],
    *,
    folder_mode: int = 0o700,
    most_calls: int | None = None,
    most_of_one: int | None = None,
) -> SocketServer:
    """Make a server with these handlers at a path, not started yet.

    Args:
        folder_mode: of the socket's folder, if it is not there.
        most_calls: calls at a time; more are refused at once. None: they wait for a thread.
        most_of_one: calls of one connection at a time; with more it has to wait. Of all connections together, calls
            that are no `READS` may take half of the other threads besides, and more are refused at once. One client
            that never ends its calls leaves calls of all kinds to the others then, and many of them leave reads.

    Raises:
        OSError: the socket cannot be had.
        RuntimeError: gRPC cannot bind it.
    """
    make_folder(path, folder_mode)
    folder = os.path.dirname(os.path.abspath(path))
    _check_folder(folder)
    check_free(path)  # before gRPC binds: a server that was never started does not let go of its socket
    options = LIMITS if most_of_one is None else (*LIMITS, ("grpc.max_concurrent_streams", most_of_one))
    interceptors = () if most_of_one is None else (_Places((most_of_one + pool.most) // 2),)
    server = grpc.server(pool, handlers, interceptors, options, maximum_concurrent_rpcs=most_calls)
    private = _private(folder)
    made = f"{private}/s"
    try:
        server.add_insecure_port(f"unix:{made}")
        os.chmod(made, 0o600)
        return SocketServer(server, path, put_in_place(made, path))
    except BaseException:
        server.start()  # only one that has been started lets go of its socket; nobody else can reach it here
        server.stop(0)
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(made)
        os.rmdir(private)


def _private(folder: str) -> str:
    """Make a folder in this one for its owner alone; its name is short, because a socket's path can hardly be long."""
    for _ in range(_ATTEMPTS):
        with suppress(FileExistsError):
            private = f"{folder}/.{secrets.token_hex(1)}"
            os.mkdir(private, 0o700)
            return private
    raise FileExistsError(f"{folder} is full of folders with short names")


def _check_folder(folder: str) -> None:
    """Refuse a folder in which others could put a socket of theirs in the place of this one."""
    found = os.stat(folder)
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if found.st_uid not in (0, os.geteuid()) or (others and not found.st_mode & stat.S_ISVTX):
        raise PermissionError(f"{folder} can be written by others: the CRI's socket needs a folder of its own")
