"""Several logical connections over one socket: frames with a connection id. Independent of ttRPC and NRI.

`Trunk` is the blocking interface, `Demux` splits received bytes, and `nri.mux.frames` cuts messages into frames.
`nri.ttrpc` reads the resulting streams.
"""

from __future__ import annotations

from nri.mux.demux import Demux
from nri.mux.frames import MAX_PAYLOAD
from nri.mux.trunk import Trunk

__all__ = ["MAX_PAYLOAD", "Demux", "Trunk"]


def __dir__() -> list[str]:
    return __all__
