"""Spans of the CRI's calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from nri.trace.live_spans import SpanExporter


class CallSpans(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
    """Makes a span of each call without streams. The kubelet's span, if it sends one, is the parent."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Return the handler of a call, with a span around it."""
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        metadata = dict(details.invocation_metadata or ())
        parent, answer = str(metadata.get("traceparent", "")), handler.unary_unary

        def behave(request: Any, context: Any) -> Any:
            with self._exporter.call(details.method, parent) as call:
                try:
                    return answer(request, context)
                except Exception:
                    call.fault = _status(context)
                    raise

        return grpc.unary_unary_rpc_method_handler(behave, handler.request_deserializer, handler.response_serializer)


def _status(context: grpc.ServicerContext) -> str:
    """Return the status of a failed call."""
    code, details = context.code(), context.details()
    text = details.decode(errors="replace") if isinstance(details, bytes) else details
    return f"{code.name}: {text}" if code else "failed"
