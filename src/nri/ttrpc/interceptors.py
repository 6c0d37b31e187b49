"""Interceptors: observe the calls and requests of a connection, for metrics, tracing, recording.

An interceptor gets the request and `proceed`, calls `proceed(request)` once, and returns its result. It may measure
time, copy bytes, or add metadata, but must not change payloads. There are two directions:

- `call`: we call the peer. `proceed` returns the reply's bytes or raises.
- `serve`: the peer calls us. `proceed` returns the reply's bytes or `LATER`, or raises.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from nri.ttrpc.envelope import Request

    Step = Callable[[Request], Any]


class Interceptor:
    """The base class of interceptors, which passes everything on. Override one method or both."""

    __slots__ = ()

    def call(self, request: Request, proceed: Callable[[Request], Any]) -> Any:
        """Wrap a call of the peer."""
        return proceed(request)

    def serve(self, request: Request, proceed: Callable[[Request], Any]) -> Any:
        """Wrap a request of the peer."""
        return proceed(request)


def around(interceptors: Sequence[Interceptor], call: Step) -> Step:
    """Wrap `call` in the interceptors, the first outermost."""
    for interceptor in reversed(interceptors):
        call = _bind(interceptor.call, call)
    return call


def around_serving(interceptors: Sequence[Interceptor], serve: Step) -> Step:
    """Wrap `serve` in the interceptors, the first outermost."""
    for interceptor in reversed(interceptors):
        serve = _bind(interceptor.serve, serve)
    return serve


def _bind(intercept: Callable[[Request, Step], Any], step: Step) -> Step:
    return lambda request: intercept(request, step)
