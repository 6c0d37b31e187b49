"""Recordings and captures with any number of whatever others can put into them. Pure but for a file in memory."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from nri.trace import blocks
from nri.trace.catalog import Catalog, raw_fields
from nri.trace.dissection import Dissector
from nri.trace.history import Trace
from nri.trace.pb import api_pb2 as t
from nri.wire import bytes_field
from tests.support.growing.big import Case

__all__ = ["CASES"]


def steps(n: int) -> Callable[[], object]:
    """One event with answers of many plugins, none of which was asked."""
    records = [t.Record(kind=t.ANSWERED, serial=1, event="X", plugin=f"{number}-p") for number in range(n)]
    raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.nritrace"
            path.write_bytes(blocks.MAGIC + blocks.pack(raw, n, 0, 0))
            list(Trace(path).events())

    return run


def recordings(n: int) -> Callable[[], object]:
    """A folder of files, each of a recording of its own with an event that is not over."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            for number in range(n):
                opened = t.Record(kind=t.OPENED, about={"recording": str(number)})
                raw = b"".join(bytes_field(1, entry.SerializeToString()) for entry in (opened, t.Record(serial=1)))
                (Path(folder) / f"{number:06}.nritrace").write_bytes(blocks.MAGIC + blocks.pack(raw, 2, 0, 0))
            list(Trace(folder).events())

    return run


def no_blocks(n: int) -> Callable[[], object]:
    """A file of nothing but places at which a block could begin."""
    data = blocks.MAGIC + b"NRIB" * n
    return lambda: list(blocks.scan(io.BytesIO(data)))


def repeated(n: int) -> Callable[[], object]:
    """A message that no program knows, with one field very often."""
    data = b"\x08\x01" * n
    return lambda: raw_fields(data)


def captured(piece: bytes) -> Case:
    """A capture that is one piece again and again."""

    def case(n: int) -> Callable[[], object]:
        return lambda: Dissector(Catalog()).run(piece * n)

    return case


CASES: dict[str, Case] = {
    "trace: steps of one event": steps,
    "trace: recordings of a folder": recordings,
    "trace: places that are no blocks": no_blocks,
    "capture: a field again and again": repeated,
    "capture: mux frames of one byte": captured(bytes.fromhex("000000010000000100")),
    "capture: responses": captured(bytes.fromhex("000000010000000a00000000000000010200")),
    "capture: what is no frame": captured(bytes.fromhex("0000000100000000ff")),
}
