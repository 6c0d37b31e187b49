"""The status of a request that cannot be read, whatever its method: the mistake is its sender's.

Next: `nri.stub.session.service`, which answers with it.
"""

from __future__ import annotations

from nri.errors import RpcError

__all__ = ["Unreadable", "unreadable"]

#: INTERNAL, as ttRPC answers in Go and in `nri.ttrpc`.
_CODE = 13


class Unreadable(RpcError):
    """A request's payload is not the message that its method takes."""


def unreadable(error: Exception) -> Unreadable:
    """The error to raise for what a decoder has raised."""
    return Unreadable(_CODE, f"ttrpc: error unmarshalling payload: {error}")
