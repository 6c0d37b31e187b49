"""Several logical connections over one socket: frames with a connection id. Knows neither ttRPC nor NRI.

`frames` cuts and packs (pure), `demux` takes bytes apart (pure), `trunk` is the blocking front that people use.
The streams that come out are read by `nri.ttrpc`.
"""

from __future__ import annotations

from nri.mux.demux import Demux
from nri.mux.frames import MAX_PAYLOAD, cut, pack
from nri.mux.trunk import Trunk

__all__ = ["MAX_PAYLOAD", "Demux", "Trunk", "cut", "pack"]
