"""Calls passed on byte by byte, from a socket that the kubelet connects to to the runtime's.

Rules: knows gRPC, and nothing of what is in a message: what a client sends reaches the runtime, and what the runtime
answers reaches the client, with metadata, statuses and their details; deadlines and cancellations travel along.
Next: `front`, the server; `call`, one call; `backend`, the connection to the runtime.
"""

from nri.proxy.passing.backend import Backend
from nri.proxy.passing.call import Call, RuntimeFailed
from nri.proxy.passing.front import Front

__all__ = ["Backend", "Call", "Front", "RuntimeFailed"]
