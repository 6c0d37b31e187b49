"""Where the engine spends its time: spans of a traced engine within the calls of one client.

Each moment of a call counts once, for the innermost activity of any thread at that moment, by the order of `KINDS`.
Time in the handler without a span is the engine's code; time outside the handler belongs to gRPC and the client.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.studies.engine.cycle import CALLS, CYCLE, cycle
from bench.studies.engine.sides import traced

#: The innermost first; a row of the table each.
KINDS = (
    "fork", "runc create", "runc start", "runc exec", "runc update", "runc kill", "runc delete", "conmon starts", "CNI",
    "mounts", "fsync", "files", "NRI", "wait for the end", "handler", "call",
)  # fmt: skip
TITLES = {
    "fork": "starting processes (vfork, exec)",
    "runc create": "runc create, by conmon",
    "conmon starts": "conmon starts",
    "files": "records, bundles and other files",
    "NRI": "NRI (no plugin: making the messages)",
    "wait for the end": "the kernel and conmon end the container",
    "handler": "the engine's own code, locks, threads",
    "call": "gRPC, both sides, and the client",
}
Span = tuple[str, int, int]


def shares(windows: Iterable[Span], spans: Sequence[Span]) -> dict[str, dict[str, float]]:
    """Milliseconds by call and kind, summed over all windows. Pure."""
    times: dict[str, dict[str, float]] = {}
    for name, begin, end in windows:
        row = times.setdefault(name, {})
        inside = [("call", begin, end)]
        inside += [(kind, max(a, begin), min(b, end)) for kind, a, b in spans if a < end and b > begin]
        moments = sorted({moment for _, a, b in inside for moment in (a, b)})
        for a, b in itertools.pairwise(moments):
            kind = min((kind for kind, x, y in inside if x <= a and y >= b), key=KINDS.index)
            row[kind] = row.get(kind, 0.0) + (b - a) / 1e6
    return times


def measure(cycles: int, folder: Path, *, compiled: bool, disk: bool, **pod: bool) -> dict[str, dict[str, float]]:
    """Mean milliseconds by call and kind of this many lives on its own traced engine."""
    file = folder / "spans.json"
    with traced(file, compiled=compiled, own_network="own_network" in pod, disk=disk) as side:
        for _ in range(3):
            cycle(side.cri, **pod)
        side.cri.windows.clear()
        for _ in range(cycles):
            cycle(side.cri, **pod)
        windows = [window for window in side.cri.windows if window[0] in CALLS]
        side.runtime.stop()
    spans = [(kind, begin, end) for kind, begin, end in json.loads(file.read_text())]
    first = windows[0][1]
    result = shares(windows, [span for span in spans if span[2] >= first])
    result[CYCLE] = {kind: sum(row.get(kind, 0.0) for row in result.values()) for kind in KINDS}
    return {name: {kind: value / cycles for kind, value in row.items()} for name, row in result.items()}
