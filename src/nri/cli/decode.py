"""`nri decode`: a capture explained frame by frame. `nri.cli.dissect` takes it apart; this file reads and prints."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri.cli.verb import Settings, Verb

if TYPE_CHECKING:
    from nri.cli.dissect import Entry
    from nri.cli.output import Output

EXAMPLES = [
    "nri decode 000000020000000a00000000000000010200",
    "nri decode capture.bin                  # the bytes of one direction, or frames of both",
    "nri decode reply.hex --method Plugin/CreateContainer",
    "tshark ... | nri decode - -o json       # one document with everything",
]

#: Messages are shown up to this length in tables; JSON has them whole.
LONGEST = 2000


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("capture", metavar="FILE|HEX|-")
@click.option(
    "--mux/--plain", "with_mux", default=None, help="With NRI's multiplexer, or plain ttRPC; default: find out."
)
@click.option("--method", metavar="SERVICE/METHOD", help="Of responses whose request is not in the capture.")
@click.option(
    "--descriptor-set",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Messages that NRI does not have, as protoc writes them.",
)
@click.pass_obj
def command(
    settings: Settings, capture: str, with_mux: bool | None, method: str | None, descriptor_set: Path | None
) -> int:
    """Explain captured bytes: mux headers, ttRPC headers, requests, responses, messages as JSON, each with its offset.

    A file may hold the bytes themselves, or hex. Broken and cut bytes are named and passed over; then the exit code
    is 1.
    """
    from nri.cli.catalog import Catalog
    from nri.cli.dissect import Dissector
    from nri.cli.errors import USAGE, Failure

    catalog = Catalog(descriptor_set)
    assume = None
    if method:
        service, name = catalog.resolve(method)
        assume = catalog.find(service, name)
        if assume is None:
            raise Failure(catalog.missing(service, name), USAGE)
    entries = Dissector(catalog, assume).run(read_capture(capture), with_mux=with_mux)
    out = settings.out
    if out.human:
        for entry in entries:
            explain(entry, out)
    else:
        out.document(entries)
    return int(any("problem" in entry for entry in entries))


def read_capture(capture: str) -> bytes:
    """The bytes: of a file, of standard input, or of the argument itself."""
    from nri.cli.call import unhex
    from nri.cli.errors import USAGE, Failure

    if capture == "-":
        raw = sys.stdin.buffer.read()
    elif os.path.isfile(capture):
        raw = Path(capture).read_bytes()
    else:
        try:
            return unhex(capture)
        except Failure as error:
            raise Failure(f"{capture[:60]}: no such file, and {error.message}", USAGE) from None
    text = raw.strip()
    is_hex = text and all(byte in b"0123456789abcdefABCDEFxX\\:|, \r\n\t" for byte in text)
    return unhex(text.decode()) if is_hex else raw


def explain(entry: Entry, out: Output) -> None:
    """One entry for people: what it is on one line, what is in it below."""
    title, lines = _EXPLAIN.get(entry["kind"], _message)(entry)
    indent = "" if entry["kind"] == "mux" else "  "
    style = "red" if entry["kind"] == "broken" else "bold"
    out.text(f"{entry['offset']:8}  {indent}{out.paint(title, style)}")
    problem = (
        [out.paint(f"problem: {entry['problem']}", "red")] if "problem" in entry and entry["kind"] != "broken" else []
    )
    for line in lines + problem:
        out.text(f"{'':8}  {indent}  {line}")


def _mux(entry: Entry) -> tuple[str, list[str]]:
    from nri.cli.dissect import way_of

    return f"mux frame, connection {entry['connection']} ({way_of(entry['connection'])}), {entry['length']} bytes", []


def _broken(entry: Entry) -> tuple[str, list[str]]:
    return f"broken: {entry['problem']}", []


def _message(entry: Entry) -> tuple[str, list[str]]:
    title = f"ttRPC {entry['kind']}, stream {entry['stream']}, {entry['length']} bytes"
    title += f", flags {entry['flags']:#04x}" if entry["flags"] else ""
    lines = []
    if "service" in entry:
        timeout = f", timeout {entry['timeout_s']:.3g} s" if "timeout_s" in entry else ""
        lines.append(f"{entry['service']}/{entry['method']}{timeout}")
    lines += [f"metadata {key}: {value}" for key, value in entry.get("metadata", ())]
    if "status" in entry:
        status = entry["status"]
        lines.append(f"status {status['code']} {status['name']}: {status['message']}")
    for key in ("message", "fields"):
        if key in entry:
            name = entry.get("type", "fields by number" if key == "fields" else "")
            lines.append(f"{name} {shorten(json.dumps(entry[key], ensure_ascii=False))}".strip())
    return title, lines


_EXPLAIN = {"mux": _mux, "broken": _broken}


def shorten(text: str) -> str:
    """Long messages cut, with a word on how to see all."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters; -o json shows all)"
