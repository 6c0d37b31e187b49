"""ttRPC for Python: the remote procedure calls of containerd, without HTTP/2. Independent of NRI.

`Client`, `AsyncClient` and `Server` are for programs that talk over unix sockets. A call has one request and one reply,
or is a stream of messages from the client, from the server, or both. `Endpoint` is the layer below them, over
any transport; `frames`, `envelope` and `connection` do no I/O and can be used with any kind of I/O.

Names are imported on first use, so that a plugin does not import the server.
"""

from __future__ import annotations

from nri.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.ttrpc.codes import Code
    from nri.ttrpc.endpoint import Endpoint
    from nri.ttrpc.envelope import Request, Response
    from nri.ttrpc.interceptors import Interceptor
    from nri.ttrpc.monitor import Monitor
    from nri.ttrpc.services.aio import AsyncClient, AsyncClientStream
    from nri.ttrpc.services.client import Client
    from nri.ttrpc.services.server import Server
    from nri.ttrpc.services.service import Method, Service
    from nri.ttrpc.services.streams import ClientStream, ServerStream
    from nri.ttrpc.transport import SocketTransport

__all__ = [
    "AsyncClient",
    "AsyncClientStream",
    "Client",
    "ClientStream",
    "Code",
    "Endpoint",
    "Interceptor",
    "Method",
    "Monitor",
    "Request",
    "Response",
    "Server",
    "ServerStream",
    "Service",
    "SocketTransport",
]

if not TYPE_CHECKING:  # with it, a type checker would accept every misspelt name
    __getattr__, __dir__ = lazy(
        globals(),
        {
            "codes": "Code",
            "endpoint": "Endpoint",
            "envelope": "Request Response",
            "interceptors": "Interceptor",
            "monitor": "Monitor",
            "services.aio": "AsyncClient AsyncClientStream",
            "services.client": "Client",
            "services.server": "Server",
            "services.service": "Method Service",
            "services.streams": "ClientStream ServerStream",
            "transport": "SocketTransport",
        },
    )
