"""Exec, attach and port forward for kubelet and crictl, served next to the CRI's gRPC.

A client comes with a token from the CRI, and uses SPDY/3.1 or a WebSocket with one of Kubernetes's protocols. `http`,
`websocket`, `spdy` and `spdy_channels` parse bytes without sockets; the sessions in `command` and `forward` transfer
them, with one thread each. Every length, number and wait that a client controls is bounded.
"""

from nri.engine.streaming.forward import connect_port
from nri.engine.streaming.link import Limits
from nri.engine.streaming.server import Backend, StreamingServer

__all__ = ["Backend", "Limits", "StreamingServer", "connect_port"]
