"""Exec, attach and port forward for kubelet and crictl: a server of streams beside CRI's gRPC.

Rules: a client comes with a token that CRI gave it, once and within a minute; it speaks SPDY/3.1 or a WebSocket with
one of Kubernetes's protocols. The bytes on the wire are taken apart without sockets, in `http`, `upgrade`,
`websocket`, `spdy` and the modules of channels above them; the sessions carry bytes, one thread each. Every length,
number and wait that a client decides has a bound.
"""

from nri.engine.streaming.backend import Backend
from nri.engine.streaming.link import Limits
from nri.engine.streaming.ports import connect_port
from nri.engine.streaming.server import StreamingServer

__all__ = ["Backend", "Limits", "StreamingServer", "connect_port"]
