"""Several logical connections over one socket: frames with a connection id. Knows neither ttRPC nor NRI.

`Trunk` is the blocking front that people use, `Demux` takes bytes apart (pure); `nri.mux.frames` cuts and packs.
The streams that come out are read by `nri.ttrpc`.
"""

from __future__ import annotations

from nri.mux.demux import Demux
from nri.mux.frames import MAX_PAYLOAD
from nri.mux.trunk import Trunk

__all__ = ["MAX_PAYLOAD", "Demux", "Trunk"]


def __dir__() -> list[str]:
    return __all__
