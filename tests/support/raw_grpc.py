"""A gRPC server and client of raw bytes, for tests of what is passed on: any method, no messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from nri.cri.server import LIMITS

Behave = Callable[[Any, Any], Any]


class RawServer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers methods by their whole names: `unary[name](request, context)`, `streams[name](requests, context)`."""

    def __init__(self) -> None:
        self.unary: dict[str, Behave] = {}
        self.server_streams: dict[str, Behave] = {}
        self.streams: dict[str, Behave] = {}

    def service(self, details: Any) -> Any:
        if details.method in self.unary:
            return grpc.unary_unary_rpc_method_handler(self.unary[details.method])
        if details.method in self.server_streams:
            return grpc.unary_stream_rpc_method_handler(self.server_streams[details.method])
        if details.method in self.streams:
            return grpc.stream_stream_rpc_method_handler(self.streams[details.method])
        return None

    @contextmanager
    def listening(self, path: Path) -> Iterator[None]:
        """Serve at a socket while the block lasts."""
        server = grpc.server(futures.ThreadPoolExecutor(16), handlers=[self], options=LIMITS)
        server.add_insecure_port(f"unix://{path}")
        server.start()
        try:
            yield
        finally:
            server.stop(None).wait()


@contextmanager
def raw_channel(path: Path) -> Iterator[grpc.Channel]:
    """A channel to a socket."""
    with grpc.insecure_channel(f"unix://{path}", options=[("grpc.enable_http_proxy", 0), *LIMITS]) as channel:
        yield channel
