"""The CRI over gRPC on a unix socket.

It is the only part of the engine that uses gRPC (extra ``engine``); `nri.engine.calls` answers the calls.
"""

from nri.engine.server.server import Server, cri_server

__all__ = ["Server", "cri_server"]
