"""The CRI over gRPC on a unix socket.

The only part of the engine that knows gRPC (extra ``engine``). The calls are read from the messages' descriptors, and
answered by the objects of `nri.engine.calls`; a call that none of them answers is Unimplemented.
"""

from nri.engine.server.server import Server, cri_server

__all__ = ["Server", "cri_server"]
