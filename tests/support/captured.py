"""Bytes on the wire between NRI's reference and a plugin, for tests of what reads them."""

from __future__ import annotations

from typing import Any

from nri.api.naming import PLUGIN_SERVICE
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_request, request_prefix

#: Captured from the reference: registration and its reply, configuration and its reply.
REGISTER = (
    "00000002 00000052 | 00000048 00000001 01 00 | 0a1c 6e72692e706b672e6170692e7631616c706861312e52756e74696d65 "
    "120e 5265676973746572506c7567696e 1a12 0a03666f6f 12023030 1a0776302e31322e32 20b48788d012"
)
REGISTERED = "00000002 0000000a | 00000000 00000001 02 00"
CONFIGURE = (
    "00000001 00000051 | 00000047 00000001 01 00 | 0a1b 6e72692e706b672e6170692e7631616c706861312e506c7567696e "
    "1209 436f6e666967757265 1a17 12027274 1a027631 208827 28d00f 320776302e31322e32 2091f5d3b907"
)
CONFIGURED = "00000001 0000000f | 00000005 00000001 02 00 | 1203 108901"
GOLDEN = bytes.fromhex("".join(REGISTER + REGISTERED + CONFIGURE + CONFIGURED).replace("|", ""))


def request(method: str, message: Any, stream: int = 1) -> bytes:
    """A request to the plugin service as plain ttRPC."""
    return frames.pack(
        stream, frames.REQUEST, encode_request(request_prefix(PLUGIN_SERVICE, method), message.SerializeToString())
    )
