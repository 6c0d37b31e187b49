"""SPDY/3.1 as used by Kubernetes: frames, headers and connections, without sockets. Every length is bounded."""

from nri.engine.streaming.spdy.connection import Connection, Data, Event, Reset, StreamEnded, StreamOpened
from nri.engine.streaming.spdy.frames import CANCEL, INTERNAL_ERROR, PROTOCOL_ERROR, REFUSED_STREAM

__all__ = [
    "CANCEL",
    "INTERNAL_ERROR",
    "PROTOCOL_ERROR",
    "REFUSED_STREAM",
    "Connection",
    "Data",
    "Event",
    "Reset",
    "StreamEnded",
    "StreamOpened",
]
