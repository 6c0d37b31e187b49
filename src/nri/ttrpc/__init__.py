"""ttRPC for Python: the remote procedure calls of containerd, without HTTP/2. Knows nothing of NRI.

`Client` and `Server` are for programs that talk to unix sockets; `Endpoint` is the front beneath them, over any
transport; `frames`, `envelope` and `connection` are pure and can be put under any other kind of I/O. Unary calls only:
a request that wants to stream is answered Unimplemented.

Names load when they are first used, so that a plugin's start does not pay for the server.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.ttrpc.client import Client
    from nri.ttrpc.codes import Code
    from nri.ttrpc.endpoint import LATER, Endpoint
    from nri.ttrpc.envelope import Request, Response
    from nri.ttrpc.interceptors import Interceptor
    from nri.ttrpc.monitor import Monitor
    from nri.ttrpc.server import Server
    from nri.ttrpc.service import Method, Service
    from nri.ttrpc.transport import SocketTransport

__all__ = [
    "LATER",
    "Client",
    "Code",
    "Endpoint",
    "Interceptor",
    "Method",
    "Monitor",
    "Request",
    "Response",
    "Server",
    "Service",
    "SocketTransport",
]

_HOME = {
    "Client": "client",
    "Code": "codes",
    "Endpoint": "endpoint",
    "Interceptor": "interceptors",
    "LATER": "endpoint",
    "Method": "service",
    "Monitor": "monitor",
    "Request": "envelope",
    "Response": "envelope",
    "Server": "server",
    "Service": "service",
    "SocketTransport": "transport",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
