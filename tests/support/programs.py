"""Programs that a runtime may launch, written into a folder."""

from __future__ import annotations

from pathlib import Path


def write_program(folder: Path, name: str, text: str, mode: int = 0o755) -> Path:
    """Write a program with this text into a folder, which is made if need be."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def script(folder: Path, name: str, text: str, mode: int = 0o755) -> Path:
    """The same of a shell script."""
    return write_program(folder, name, "#!/bin/sh\n" + text, mode)
