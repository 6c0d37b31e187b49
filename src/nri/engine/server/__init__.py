"""The engine's front door: the CRI over gRPC on a unix socket.

Rules: knows gRPC, which nothing below does (extra ``engine``); which calls there are is read from the messages'
descriptors, who answers them is in `nri.engine.calls`, and a call that no group answers is Unimplemented.
"""

from nri.engine.server.server import Server, cri_server

__all__ = ["Server", "cri_server"]
