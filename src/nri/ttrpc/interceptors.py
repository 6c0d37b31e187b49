"""The one place where calls and requests of a connection can be observed: metrics, tracing, recording.

An interceptor wraps what it sees: it gets the request and `proceed`, calls `proceed(request)` once, and returns what
that returned. It may time it, copy the bytes, or add metadata; it must not change payloads. Two directions:
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

__all__ = ["Interceptor", "around", "around_serving"]


class Interceptor:
    """Base that lets everything pass: override one method or both."""

    __slots__ = ()

    def call(self, request: Request, proceed: Callable[[Request], Any]) -> Any:
        """Wrap a call of the peer by us."""
        return proceed(request)

    def serve(self, request: Request, proceed: Callable[[Request], Any]) -> Any:
        """Wrap a call of us by the peer."""
        return proceed(request)


def around(interceptors: Sequence[Interceptor], call: Step) -> Step:
    """`call` with the interceptors around it, the first outermost."""
    for interceptor in reversed(interceptors):
        call = _bind(interceptor.call, call)
    return call


def around_serving(interceptors: Sequence[Interceptor], serve: Step) -> Step:
    """`serve` with the interceptors around it, the first outermost."""
    for interceptor in reversed(interceptors):
        serve = _bind(interceptor.serve, serve)
    return serve


def _bind(intercept: Callable[[Request, Step], Any], step: Step) -> Step:
    return lambda request: intercept(request, step)
