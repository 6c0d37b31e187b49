"""SPDY/3.1 as Kubernetes speaks it: frames, header blocks and the server's side of a connection, all without a socket.

Bytes in, events and bytes out; every length that a peer names is bounded before anything is kept.
"""

from nri.engine.streaming.spdy.connection import Connection, Data, Ended, Event, Opened, Reset
from nri.engine.streaming.spdy.frames import CANCEL, INTERNAL_ERROR, PROTOCOL_ERROR, REFUSED_STREAM

__all__ = [
    "CANCEL",
    "INTERNAL_ERROR",
    "PROTOCOL_ERROR",
    "REFUSED_STREAM",
    "Connection",
    "Data",
    "Ended",
    "Event",
    "Opened",
    "Reset",
]
