"""Interceptors receive calls and can change them."""

from __future__ import annotations

import copy

from nri.ttrpc import Interceptor
from tests.support.endpoints import Pair


def test_an_interceptor_can_copy_a_request_and_add_metadata() -> None:
    class Adds(Interceptor):
        def call(self, request, proceed):
            request = copy.copy(request)
            request.metadata = [*request.metadata, ["team", "a"]]
            return bytearray(proceed(request))

    pair = Pair(lambda request: repr(request.metadata).encode(), near_interceptors=(Adds(),))
    try:
        assert pair.call(metadata=[["k", "v"]]) == b"(('k', 'v'), ('team', 'a'))"
    finally:
        pair.close()


def test_interceptors_are_called_from_the_outermost_to_the_innermost() -> None:
    calls: list[str] = []

    class Records(Interceptor):
        def __init__(self, name: str) -> None:
            self.name = name

        def call(self, request, proceed):
            calls.append(f"{self.name} before {request.method}")
            reply = proceed(request)
            calls.append(f"{self.name} after {len(reply)} bytes")
            return reply

    pair = Pair(near_interceptors=(Records("outer"), Records("inner")))
    pair.call(b"abc")
    pair.close()
    assert calls == ["outer before m", "inner before m", "inner after 3 bytes", "outer after 3 bytes"]
