"""Connect to a ttRPC server, to call a method by hand."""

from __future__ import annotations

from nri.api import naming
from nri.errors import RuntimeUnavailable
from nri.mux.trunk import Trunk
from nri.stream import connect_unix
from nri.ttrpc.endpoint import Endpoint
from nri.ttrpc.transport import SocketTransport

_CONNECTIONS = {
    naming.PLUGIN_SERVICE: naming.PLUGIN_SERVICE_CONN,
    naming.RUNTIME_SERVICE: naming.RUNTIME_SERVICE_CONN,
}


def connection_of(service: str) -> int:
    """Return the multiplexer's connection that carries a service, or 0 for a service that is not NRI's."""
    return _CONNECTIONS.get(service, 0)


def connect(path: str, connection: int) -> Endpoint:
    """Connect to the socket: through a connection of the multiplexer, or directly if `connection` is 0.

    Raises:
        RuntimeUnavailable: no program listens on the socket.
    """
    try:
        sock = connect_unix(path)
    except OSError as error:
        raise RuntimeUnavailable(path, (error.strerror or str(error)).lower()) from None
    if connection:
        return Endpoint(Trunk(sock, (connection,)), client_id=connection, server_id=-1)
    return Endpoint(SocketTransport(sock), client_id=0, server_id=-1)
