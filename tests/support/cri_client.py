"""A CRI client for tests: every call of both services by its name, with the request's fields as arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import grpc
from google.protobuf.message_factory import GetMessageClass

from nri.cri.pb import api_pb2 as pb

TIMEOUT_S = 60.0
METHODS = {
    method.name: method
    for name in ("RuntimeService", "ImageService")
    for method in pb.DESCRIPTOR.services_by_name[name].methods
}


class CriClient:
    """A connection to an engine's socket; ends with the block."""

    def __init__(self, socket: Path) -> None:
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", 16 << 20)]
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=options)
        self.called: set[str] = set()

    def call(self, name: str, *, timeout_s: float | None = TIMEOUT_S, **fields: Any) -> Any:
        """The answer to a call; raises `grpc.RpcError`."""
        return self._invoke(name, "unary_unary", fields)(timeout=timeout_s)

    def stream(self, name: str, *, timeout_s: float | None = TIMEOUT_S, **fields: Any) -> Any:
        """The answers of a stream, which has `cancel()`."""
        return self._invoke(name, "unary_stream", fields)(timeout=timeout_s)

    def refused(self, name: str, **fields: Any) -> tuple[grpc.StatusCode, str]:
        """The status and text of a call that has to fail."""
        try:
            results = [*self.stream(name, **fields)] if METHODS[name].server_streaming else self.call(name, **fields)
        except grpc.RpcError as error:
            return error.code(), error.details()
        raise AssertionError(f"{name} succeeded: {results}")

    def _invoke(self, name: str, kind: str, fields: dict[str, Any]) -> Any:
        method = METHODS[name]
        request = GetMessageClass(method.input_type)(**fields)
        callable_ = getattr(self._channel, kind)(
            f"/{method.containing_service.full_name}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        self.called.add(name)
        return lambda timeout: callable_(request, timeout=timeout)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
