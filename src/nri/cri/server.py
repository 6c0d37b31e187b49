"""A gRPC server on a unix socket, for servers of the CRI. Requires the extra `cri`.

grpcio does not report which user connects to a unix socket, so access is controlled by modes: the socket's mode is at
most 0600, and other users must not be able to write to its folder.
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

#: Maximum size of a message, as in containerd: lists of a big node exceed gRPC's default of 4 MiB.
MESSAGE_BYTES = 16 << 20
#: Maximum size of metadata. It includes the message of a status, and an OCI runtime's error about a long command line
#: exceeds gRPC's default of 8 KiB. gRPC in Go, which the other programs of a node use, has no such limit.
METADATA_BYTES = 1 << 20
#: The options of a channel or server for these sizes.
LIMITS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_metadata_size", METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES),
)
#: The ends of names of methods that a kubelet calls frequently, and that do not change anything and do not wait.
READS = (
    "/ListPodSandbox", "/ListContainers", "/PodSandboxStatus", "/ContainerStatus", "/ListContainerStats",
    "/ListPodSandboxStats", "/ContainerStats", "/PodSandboxStats", "/Status", "/Version", "/ListImages", "/ImageStatus",
)  # fmt: skip
_ATTEMPTS = 64


class SocketServer:
    """A gRPC server and the socket that it listens on. `path` is the socket's path."""

    def __init__(self, server: grpc.Server, path: str, identity: Identity | None) -> None:
        self.path = path
        self._server, self._identity = server, identity

    def start(self) -> None:
        """Start to answer calls."""
        self._server.start()

    def stop(self, grace_s: float) -> threading.Event:
        """Remove the socket if it is still this server's, refuse new calls, and end running calls after `grace_s`.

        Returns at once. The event is set when all calls have ended.
        """
        if self._identity is not None:
            remove_own(self.path, self._identity)
        self._identity = None
        stopped: threading.Event = self._server.stop(grace_s)
        return stopped


class _CallLimit(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
    """Reject calls other than `READS` while `max_calls` such calls run, because clients may keep calls open."""

    def __init__(self, max_calls: int) -> None:
        self._free = threading.BoundedSemaphore(max_calls)
        self._refusal = f"too many calls that change something or wait: {max_calls} may run at a time"

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None or details.method.endswith(READS):
            return handler
        shape = "_".join(
            "stream" if streams else "unary" for streams in (handler.request_streaming, handler.response_streaming)
        )
        limit = self._limit_stream if handler.response_streaming else self._limit_unary
        make_handler = getattr(grpc, f"{shape}_rpc_method_handler")
        return make_handler(limit(getattr(handler, shape)), handler.request_deserializer, handler.response_serializer)

    def _limit_unary(self, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def behave(request: Any, context: Any) -> Any:
            self._acquire(context)
            try:
                return answer(request, context)
            finally:
                self._free.release()

        return behave

    def _limit_stream(self, answer: Callable[[Any, Any], Iterator[Any]]) -> Callable[[Any, Any], Iterator[Any]]:
        def behave(request: Any, context: Any) -> Iterator[Any]:
            self._acquire(context)
            try:
                yield from answer(request, context)
            finally:
                self._free.release()

        return behave

    def _acquire(self, context: Any) -> None:
        if not self._free.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, self._refusal)


def bind(
    path: str,
    pool: ThreadPool,
    handlers: Sequence[grpc.GenericRpcHandler],
    *,
    folder_mode: int = 0o700,
    max_calls: int | None = None,
    max_calls_per_connection: int | None = None,
    interceptors: Sequence[grpc.ServerInterceptor] = (),
) -> SocketServer:
    """Create a server with these handlers at a path. It is not started yet.

    A socket on which a live process listens is not replaced; a stale socket is.

    Args:
        folder_mode: the mode of the socket's folder, if the folder is created.
        max_calls: the maximum number of calls at a time; further calls are rejected at once. With None, further calls
            wait for a thread.
        max_calls_per_connection: the maximum number of calls of a connection at a time; further calls have to wait. All
            connections together may use half of the other threads for calls other than `READS`; further calls are
            rejected at once. So one client that never ends its calls does not block other clients, and many such
            clients do not block reads.

    Raises:
        OSError: the socket cannot be created.
        RuntimeError: gRPC cannot bind it.
    """
    make_folder(path, folder_mode)
    folder = os.path.dirname(os.path.abspath(path))
    _check_folder(folder)
    check_free(path)  # checked before gRPC binds: a server that was never started does not release its socket
    options = (
        LIMITS
        if max_calls_per_connection is None
        else (*LIMITS, ("grpc.max_concurrent_streams", max_calls_per_connection))
    )
    limits = (
        () if max_calls_per_connection is None else (_CallLimit((max_calls_per_connection + pool.max_threads) // 2),)
    )
    server = grpc.server(pool, handlers, (*interceptors, *limits), options, maximum_concurrent_rpcs=max_calls)
    # gRPC binds with the umask's mode, so bind in a private folder, and move the socket after its mode is set.
    private = _private(folder)
    socket_path = f"{private}/s"
    try:
        server.add_insecure_port(f"unix:{socket_path}")
        os.chmod(socket_path, 0o600)
        return SocketServer(server, path, put_in_place(socket_path, path))
    except BaseException:
        server.start()  # only a started server releases its socket; clients cannot reach it in the private folder
        server.stop(0)
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(socket_path)
        os.rmdir(private)


def _private(folder: str) -> str:
    """Create a private folder. Its name is short, because the path of a socket is limited to about 100 bytes."""
    for _ in range(_ATTEMPTS):
        with suppress(FileExistsError):
            private = f"{folder}/.{secrets.token_hex(1)}"
            os.mkdir(private, 0o700)
            return private
    raise FileExistsError(f"{folder} has no free short folder name")


def _check_folder(folder: str) -> None:
    """Reject a folder in which other users could replace the socket."""
    status = os.stat(folder)
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid not in (0, os.geteuid()) or (others_write and not status.st_mode & stat.S_ISVTX):
        raise PermissionError(
            f"{folder} is writable by other users: the CRI's socket requires a folder that only its owner can write to"
        )
