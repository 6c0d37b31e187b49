"""Exec, attach and port forward for kubelet and crictl: a server of streams next to the CRI's gRPC.

A client comes with a token that the CRI gave it, and uses SPDY/3.1 or a WebSocket with one of Kubernetes's protocols.
The bytes on the wire are taken apart without sockets, in `http`, `websocket`, `spdy` and `spdy_channels`; the sessions
`command` and `forward` carry bytes, one thread each. Every length, number and wait that a client decides has a bound.
"""

from nri.engine.streaming.forward import connect_port
from nri.engine.streaming.link import Limits
from nri.engine.streaming.server import Backend, StreamingServer

__all__ = ["Backend", "Limits", "StreamingServer", "connect_port"]
