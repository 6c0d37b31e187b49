"""A server and a client of Koordinator's hook protocol over real gRPC, for tests of the other side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from nri.proxy.hook_servers.messages import METHODS, SERVICE, fields_of

Answer = Callable[[str, dict[str, Any]], dict[str, Any]]


class HookServer:
    """Answers each stage by a function of the stage and the request, and keeps what it was asked."""

    def __init__(self, path: Path, answer: Answer = lambda _stage, _request: {}, delay_s: float = 0.0) -> None:
        self.path = path
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer = answer
        self.delay_s = delay_s

    @property
    def stages(self) -> list[str]:
        """The stages that were asked."""
        return [stage for stage, _ in self.asked]

    @contextmanager
    def listening(self) -> Iterator[HookServer]:
        """Serve while the block lasts."""
        server = grpc.server(ThreadPoolExecutor(8))
        handlers = {
            method.name: grpc.unary_unary_rpc_method_handler(
                self._behave(stage), method.request.FromString, lambda message: message.SerializeToString()
            )
            for stage, method in METHODS.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        server.add_insecure_port(f"unix://{self.path}")
        server.start()
        try:
            yield self
        finally:
            server.stop(None).wait()

    def register(self, folder: Path, name: str, stages: Sequence[str], policy: str = "Ignore") -> Path:
        """Write the registration that makes a proxy ask this server."""
        return register(folder, name, self.path, stages, policy)

    def _behave(self, stage: str) -> Callable[[Any, Any], Any]:
        def behave(request: Any, context: Any) -> Any:
            fields = fields_of(request)
            self.asked.append((stage, fields))
            time.sleep(self.delay_s)
            try:
                return METHODS[stage].response(**self.answer(stage, fields))
            except ValueError as error:
                context.abort(grpc.StatusCode.UNKNOWN, str(error))

        return behave


def register(folder: Path, name: str, endpoint: Path, stages: Sequence[str], policy: str = "Ignore") -> Path:
    """Write a registration."""
    path = folder / f"{name}.json"
    text = {"remote-endpoint": str(endpoint), "failure-policy": policy, "runtime-hooks": [*stages]}
    path.write_text(json.dumps(text))
    return path


def ask(path: Path, stage: str, **request: Any) -> dict[str, Any]:
    """Ask a hook server as a proxy does. Raises grpc.RpcError."""
    method = METHODS[stage]
    with grpc.insecure_channel(f"unix://{path}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/{method.name}", lambda message: message.SerializeToString(), method.response.FromString
        )
        return fields_of(call(method.request(**request), timeout=10))
