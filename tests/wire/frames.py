"""The files of captured frames: read, write.

A file is text: ``#`` lines say what it is, a line ``R->P`` (runtime to plugin), ``P->R``, ``C->S`` (client to server)
or ``S->C`` begins one mux frame, or without a mux one ttRPC frame; hex lines follow with its bytes, headers included.
``capture.py`` makes the files from the peers of other implementations; ``test_captured_frames.py`` reads them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "captured"
DIRECTIONS = frozenset({"R->P", "P->R", "C->S", "S->C"})
LINE_BYTES = 56


@dataclass(frozen=True, slots=True)
class Frame:
    """One captured frame: which way it went and its bytes."""

    direction: str
    data: bytes


def read(path: Path) -> list[Frame]:
    """The frames of a file, in order."""
    frames: list[tuple[str, list[str]]] = []
    for line in path.read_text().splitlines():
        if line in DIRECTIONS:
            frames.append((line, []))
        elif line and not line.startswith("#"):
            frames[-1][1].append(line)
    return [Frame(direction, bytes.fromhex("".join(lines))) for direction, lines in frames]


def write(path: Path, header: Iterable[str], frames: Iterable[Frame]) -> None:
    """Write a file; `header` are its comment lines."""
    lines = [f"# {line}" for line in header]
    for frame in frames:
        lines.append(frame.direction)
        lines += [frame.data[at : at + LINE_BYTES].hex() for at in range(0, len(frame.data), LINE_BYTES)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
