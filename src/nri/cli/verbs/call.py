"""`nri call`: send a ttRPC request, with messages of NRI or of a descriptor set, or with bytes in hex."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri.cli.errors import Failure
from nri.cli.output import Output
from nri.cli.settings import FILE, Settings
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from nri.trace.catalog import Catalog

EXAMPLES = [
    """nri call /var/run/nri/nri.sock Runtime/RegisterPlugin -d '{"pluginName": "me", "pluginIdx": "10"}'""",
    "nri call /run/containerd/containerd.sock.ttrpc my.pkg.Service/Method --descriptor-set my.pb -d @request.json",
    "nri call agent.sock grpc.Health/Check --hex -d 0a00",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("socket", metavar="SOCKET")
@click.argument("method", metavar="SERVICE/METHOD")
@click.option("--data", "-d", default="", metavar="JSON|@FILE|-", help="The request. Default: an empty message.")
@click.option(
    "--descriptor-set",
    type=FILE,
    metavar="FILE",
    help="A file with the definitions of other services and their messages, written by protoc --descriptor_set_out.",
)
@click.option("--hex", "as_hex", is_flag=True, help="Request and reply are hex digits instead of JSON.")
@click.option("--metadata", "-m", multiple=True, metavar="KEY=VALUE", help="Metadata to send with the request.")
@click.option(
    "--mux",
    type=click.IntRange(0, (1 << 32) - 1),
    metavar="ID",
    help="The connection id in NRI's multiplexer; 0 for plain ttRPC. Default: depends on the service.",
)
@click.pass_obj
def command(
    settings: Settings, socket: str, method: str, data: str, descriptor_set: Path | None, as_hex: bool,
    metadata: tuple[str, ...], mux: int | None,
) -> None:  # fmt: skip
    """Call a method over ttRPC and print the reply as JSON; with -q only the exit code shows whether it succeeded.

    The package of NRI's services may be left out (Runtime/RegisterPlugin). NRI's services are called through NRI's
    multiplexer, all others over plain ttRPC.
    """
    from time import monotonic

    from nri.cli.support.inputs import pair_of
    from nri.trace.catalog import Catalog
    from nri.trace.endpoint import connect, connection_of

    catalog = Catalog(descriptor_set)
    service, name = catalog.resolve(method)
    payload = encode(catalog, service, name, data, as_hex)
    pairs = [pair_of(text) for text in metadata]
    endpoint = connect(socket, connection_of(service) if mux is None else mux)
    try:
        reply = endpoint.call(
            service, name, payload, deadline=monotonic() + (settings.timeout_s or 10.0), metadata=pairs
        )
    finally:
        endpoint.close()
    show(Output(settings), catalog, service, name, reply, as_hex)


def encode(catalog: Catalog, service: str, method: str, data: str, as_hex: bool) -> bytes:
    """Encode the request from JSON or hex."""
    from nri.cli.support.inputs import read_argument, unhex

    text = read_argument(data)
    if as_hex:
        return unhex(text)
    from nri.config import Source, parse_text
    from nri.trace.catalog import from_json

    types = catalog.method(service, method)
    value = parse_text(Source("-d", text, "json"))
    payload: bytes = from_json(types.request, {} if value is None else value, "-d").SerializeToString()
    return payload


def show(out: Output, catalog: Catalog, service: str, method: str, reply: bytes, as_hex: bool) -> None:
    """Print the reply as JSON, YAML or hex; nothing in quiet mode."""
    if as_hex and not out.human:
        out.document({"reply": reply.hex()})
    elif as_hex and not out.quiet:
        out.text(reply.hex())
    if as_hex:
        return
    from nri.trace.catalog import parse

    types = catalog.find(service, method)
    assert types is not None, "encode refuses unknown methods"
    value, problem = parse(types.reply, reply)
    if not (out.quiet and out.human):
        out.document(value)
    if problem:
        raise Failure(f"the reply is {problem}; its raw fields are printed above")
