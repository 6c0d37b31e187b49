"""The CRI over gRPC on a unix socket.

This is the only package of the engine that uses gRPC. The methods in `nri.engine.calls` answer the calls.
"""

from nri.engine.server.server import Server, cri_server

__all__ = ["Server", "cri_server"]
