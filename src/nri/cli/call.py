"""`nri call`: one ttRPC request by hand. NRI's messages are known, others come from a descriptor set, or in hex."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import USAGE, Failure
from nri.cli.verb import Settings, Verb

if TYPE_CHECKING:
    from nri.cli.catalog import Catalog
    from nri.ttrpc.endpoint import Endpoint

EXAMPLES = [
    """nri call /var/run/nri/nri.sock Runtime/RegisterPlugin -d '{"pluginName": "me", "pluginIdx": "10"}'""",
    "nri call /run/containerd/containerd.sock.ttrpc my.pkg.Service/Method --descriptor-set my.pb -d @request.json",
    "nri call agent.sock grpc.Health/Check --hex -d 0a00",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("socket", metavar="SOCKET")
@click.argument("method", metavar="SERVICE/METHOD")
@click.option("--data", "-d", default="", metavar="JSON|@FILE|-", help="The request; default: an empty message.")
@click.option(
    "--descriptor-set",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Messages that NRI does not have, as protoc writes them.",
)
@click.option("--hex", "as_hex", is_flag=True, help="The request, and the reply, are bytes in hex.")
@click.option("--metadata", "-m", multiple=True, metavar="KEY=VALUE", help="Sent along with the request.")
@click.option(
    "--mux",
    type=click.IntRange(0, (1 << 32) - 1),
    metavar="ID",
    help="Connection of NRI's multiplexer; 0 for plain ttRPC. Default: as the service needs.",
)
@click.pass_obj
def command(
    settings: Settings, socket: str, method: str, data: str, descriptor_set: Path | None, as_hex: bool,
    metadata: tuple[str, ...], mux: int | None,
) -> None:  # fmt: skip
    """Call a method over ttRPC and print the reply.

    NRI's services may be written without their package (Runtime/RegisterPlugin), and are called through NRI's
    multiplexer; all others over plain ttRPC.
    """
    from time import monotonic

    from nri.cli.catalog import Catalog

    catalog = Catalog(descriptor_set)
    service, name = catalog.resolve(method)
    payload = encode(catalog, service, name, data, as_hex)
    pairs = [pair_of(text) for text in metadata]
    endpoint = connect(socket, conn_id(service) if mux is None else mux)
    try:
        reply = endpoint.call(
            service, name, payload, deadline=monotonic() + (settings.timeout_s or 10.0), metadata=pairs
        )
    finally:
        endpoint.close()
    show(settings, catalog, service, name, reply, as_hex)


def encode(catalog: Catalog, service: str, method: str, data: str, as_hex: bool) -> bytes:
    """The request's bytes from what -d gave. Failure says what is wrong with it, before anything is connected."""
    text = read_argument(data)
    if as_hex:
        return unhex(text)
    from nri.cli.catalog import from_json
    from nri.config import Source, parse_text

    known = catalog.find(service, method)
    if known is None:
        raise Failure(catalog.missing(service, method), USAGE)
    value = parse_text(Source("-d", text, "json"))
    payload: bytes = from_json(known.request, {} if value is None else value, "-d").SerializeToString()
    return payload


def read_argument(data: str) -> str:
    """The text itself, a file's (@FILE), or standard input's (-)."""
    if data == "-":
        return sys.stdin.read()
    if not data.startswith("@"):
        return data
    try:
        return Path(data[1:]).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Failure(f"{data[1:]}: not UTF-8 text", USAGE) from None


def unhex(text: str) -> bytes:
    """Bytes from hex digits; blanks, colons, bars and 0x between them are welcome."""
    digits = re.sub(r"0x|\\x|[\s:|,]", "", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        bad = re.search(r"[^0-9a-fA-F]", digits)
        reason = f'"{bad[0]}" is no hex digit' if bad else "an odd number of digits"
        raise Failure(f"not hex: {reason}", USAGE) from None


def pair_of(text: str) -> tuple[str, str]:
    """A metadata pair; keys are sent in lower case."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Failure(f'--metadata "{text}" is not KEY=VALUE', USAGE)
    return key.lower(), value


def conn_id(service: str) -> int:
    """The multiplexer's connection that carries a service; 0 for those that are not NRI's."""
    from nri.api import naming

    return {naming.PLUGIN_SERVICE: naming.PLUGIN_SERVICE_CONN, naming.RUNTIME_SERVICE: naming.RUNTIME_SERVICE_CONN}.get(
        service, 0
    )


def connect(path: str, mux: int) -> Endpoint:
    """A client on the socket, through connection `mux` of the multiplexer, or directly for 0."""
    from nri.errors import RuntimeUnavailable
    from nri.mux.trunk import Trunk
    from nri.stream import connect_unix
    from nri.ttrpc.endpoint import Endpoint
    from nri.ttrpc.transport import SocketTransport

    try:
        sock = connect_unix(path)
    except OSError as error:
        raise RuntimeUnavailable(path, (error.strerror or str(error)).lower()) from None
    if mux:
        return Endpoint(Trunk(sock, (mux,)), client_id=mux, server_id=-1)
    return Endpoint(SocketTransport(sock), client_id=0, server_id=-1)


def show(settings: Settings, catalog: Catalog, service: str, method: str, reply: bytes, as_hex: bool) -> None:
    """The reply as JSON (or YAML), or in hex."""
    if as_hex:
        settings.out.text(reply.hex())
        return
    from nri.cli.catalog import parse

    known = catalog.find(service, method)
    assert known is not None, "encode has refused unknown methods"
    value: Any
    value, problem = parse(known.reply, reply)
    settings.out.document(value)
    if problem:
        raise Failure(f"the reply is {problem}; above are its raw fields")
