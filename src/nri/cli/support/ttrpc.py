"""Calls over ttRPC by hand: the catalog of methods, with its errors as lines, and a client.

Next: `nri.trace.catalog` and `nri.ttrpc.endpoint`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api import naming
from nri.cli.errors import USAGE, Failure
from nri.config.complaint import suggest
from nri.errors import ConfigError, RuntimeUnavailable
from nri.mux.trunk import Trunk
from nri.stream import connect_unix
from nri.trace.catalog import Catalog
from nri.ttrpc.endpoint import Endpoint
from nri.ttrpc.transport import SocketTransport

if TYPE_CHECKING:
    from pathlib import Path

    from nri.trace.catalog import Method


def open_catalog(descriptor_set: Path | None) -> Catalog:
    """Load NRI's methods, and those of a descriptor set. Failure says how to make a descriptor set."""
    try:
        return Catalog(descriptor_set)
    except ConfigError as error:
        step = error.suggestion[:1].upper() + error.suggestion[1:]
        raise Failure(f"{error.source}: {error.reason}. {step}", USAGE) from None


def resolve(catalog: Catalog, text: str) -> tuple[str, str]:
    """Return service and method of ``SERVICE/METHOD``; Failure if the text is not of this form."""
    try:
        return catalog.resolve(text)
    except ConfigError as error:
        raise Failure(f'"{error.source}" is {error.reason}, {error.suggestion}', USAGE) from None


def find(catalog: Catalog, service: str, name: str) -> Method:
    """Return a method. Failure says that it is not known, and how to go on."""
    method = catalog.find(service, name)
    if method is not None:
        return method
    known = catalog.methods(service)
    if known is None:
        raise Failure(f"the messages of {service} are not known here: give --descriptor-set FILE, or --hex", USAGE)
    raise Failure(f"{service} has no method {name} ({suggest(name, known)})", USAGE)


_CONNECTIONS = {
    naming.PLUGIN_SERVICE: naming.PLUGIN_SERVICE_CONN,
    naming.RUNTIME_SERVICE: naming.RUNTIME_SERVICE_CONN,
}


def connection_of(service: str) -> int:
    """Return the multiplexer's connection that carries a service; 0 for those that are not NRI's."""
    return _CONNECTIONS.get(service, 0)


def connect(path: str, connection: int) -> Endpoint:
    """Connect to the socket, through a connection of the multiplexer, or directly for 0.

    Raises:
        RuntimeUnavailable: no program listens there.
    """
    try:
        sock = connect_unix(path)
    except OSError as error:
        raise RuntimeUnavailable(path, (error.strerror or str(error)).lower()) from None
    if connection:
        return Endpoint(Trunk(sock, (connection,)), client_id=connection, server_id=-1)
    return Endpoint(SocketTransport(sock), client_id=0, server_id=-1)
