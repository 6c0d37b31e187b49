"""The error for a request that cannot be decoded, which is not logged, because it is the sender's fault."""

from __future__ import annotations

from nri.errors import RpcError

#: INTERNAL, as ttRPC answers in Go and in `nri.ttrpc`.
_CODE = 13


class Unreadable(RpcError):
    """A request's payload is not the message of its method."""


def unreadable(error: Exception) -> Unreadable:
    """Convert a decoder's exception."""
    return Unreadable(_CODE, f"ttrpc: error unmarshalling payload: {error}")
