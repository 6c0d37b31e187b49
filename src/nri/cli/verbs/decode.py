"""`nri decode`: explain a capture of NRI or ttRPC bytes, frame by frame."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri.cli.output import Output, PaintedText
from nri.cli.settings import FILE, Settings
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from nri.trace.dissection import Frame

EXAMPLES = [
    "nri decode 000000020000000a00000000000000010200",
    "nri decode capture.bin                  # the bytes of one or both directions",
    "nri decode reply.hex --method Plugin/CreateContainer",
    "tshark ... | nri decode - -o json       # one document with everything",
]

#: Longer messages are cut in tables, but not in JSON.
MAX_MESSAGE_CHARS = 2000


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("capture", metavar="FILE|HEX|-")
@click.option(
    "--mux/--plain", "with_mux", default=None, help="Expect NRI's multiplexer, or plain ttRPC. Default: detect."
)
@click.option("--method", metavar="SERVICE/METHOD", help="The method of responses without a request in the capture.")
@click.option(
    "--descriptor-set",
    type=FILE,
    metavar="FILE",
    help="A file with the definitions of other services and their messages, written by protoc --descriptor_set_out.",
)
@click.pass_obj
def command(
    settings: Settings, capture: str, with_mux: bool | None, method: str | None, descriptor_set: Path | None
) -> int:
    """Explain captured bytes: mux and ttRPC headers, requests, responses, and messages as JSON, each with its offset.

    A file may contain raw bytes or hex digits. Broken and truncated parts are reported and skipped, and the exit code
    is then 1. -q prints only the methods of the requests, one per line.
    """
    from nri.cli.support.inputs import read_capture
    from nri.trace.catalog import Catalog
    from nri.trace.dissection import Dissector

    catalog = Catalog(descriptor_set)
    assume = catalog.method(*catalog.resolve(method)) if method else None
    frames = Dissector(catalog, assume).run(read_capture(capture), with_mux=with_mux)
    out = Output(settings)
    if out.human and out.quiet:
        out.names(f"{frame['service']}/{frame['method']}" for frame in frames if frame["kind"] == "request")
    elif out.human:
        for frame in frames:
            explain(frame, out)
    else:
        out.document(frames)
    return int(any("problem" in frame for frame in frames))


def explain(frame: Frame, out: Output) -> None:
    """Print one frame as a heading with its content below."""
    title, lines = _EXPLAIN.get(frame["kind"], _message)(frame)
    indent = "" if frame["kind"] == "mux" else "  "
    style = "red" if frame["kind"] == "broken" else "bold"
    out.text(f"{frame['offset']:8}  {indent}", PaintedText(title, style))
    for line in lines:
        out.text(f"{'':8}  {indent}  {line}")
    if "problem" in frame and frame["kind"] != "broken":
        out.text(f"{'':8}  {indent}  ", PaintedText(f"problem: {frame['problem']}", "red"))


def _mux(frame: Frame) -> tuple[str, list[str]]:
    from nri.trace.dissection import way_of

    return f"mux frame, connection {frame['connection']} ({way_of(frame['connection'])}), {frame['length']} bytes", []


def _broken_frame_text(frame: Frame) -> tuple[str, list[str]]:
    return f"broken: {frame['problem']}", []


def _message(frame: Frame) -> tuple[str, list[str]]:
    title = f"ttRPC {frame['kind']}, stream {frame['stream']}, {frame['length']} bytes"
    title += f", flags {frame['flags']:#04x}" if frame["flags"] else ""
    lines = []
    if "service" in frame:
        timeout = f", timeout {frame['timeout_s']:.3g} s" if "timeout_s" in frame else ""
        lines.append(f"{frame['service']}/{frame['method']}{timeout}")
    lines += [f"metadata {key}: {value}" for key, value in frame.get("metadata", ())]
    if "status" in frame:
        status = frame["status"]
        lines.append(f"status {status['code']} {status['name']}: {status['message']}")
    for key in ("message", "fields"):
        if key in frame:
            name = frame.get("type", "fields by number" if key == "fields" else "")
            lines.append(f"{name} {shorten(json.dumps(frame[key], ensure_ascii=False))}".strip())
    return title, lines


_EXPLAIN = {"mux": _mux, "broken": _broken_frame_text}


def shorten(text: str) -> str:
    """Cut a long message, and add a hint how to print the whole message."""
    return (
        text
        if len(text) <= MAX_MESSAGE_CHARS
        else f"{text[:MAX_MESSAGE_CHARS]}... ({len(text)} characters; -o json shows all)"
    )
