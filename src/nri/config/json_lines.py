"""Recorded cases: files with one JSON object per line, plain or compressed with xz, bounded in size."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nri.config.syntax import parse_json
from nri.errors import ConfigError
from nri.files import read_regular

_XZ_MAGIC = b"\xfd7zXZ\x00"
#: Maximum size of the file, and of its unpacked content.
MAX_FILE_BYTES = MAX_UNPACKED_BYTES = 512 << 20
_MAX_STREAMS = 1000


def read_json_lines(path: str | Path, problem_of: Callable[[Any], str]) -> Iterator[dict[str, Any]]:
    """Yield the cases of a file. Raises ConfigError that names file and line if it cannot be read.

    Args:
        path: JSON lines, plain or compressed with xz.
        problem_of: returns why a line is not a case, or "" for a case.
    """
    try:
        raw = read_regular(path, MAX_FILE_BYTES)
        text = (_unpacked_content(raw, str(path)) if raw.startswith(_XZ_MAGIC) else raw).decode()
    except OSError as error:
        raise ConfigError(str(path), "", error.strerror or "cannot be read", "specify a file of cases") from error
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), "", f"neither JSON lines nor xz: {error}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _case(line, f"{path}:{number}", problem_of)


def _unpacked_content(raw: bytes, path: str) -> bytes:
    """The content of an xz file, limited in size, because a file of a few bytes could fill memory."""
    pieces: list[bytes] = []
    remaining_bytes = MAX_UNPACKED_BYTES
    while raw.startswith(_XZ_MAGIC):  # concatenated xz files have several streams
        unpacker = lzma.LZMADecompressor()
        pieces.append(unpacker.decompress(raw, remaining_bytes))
        remaining_bytes -= len(pieces[-1])
        if not unpacker.eof:
            limit = f"larger than {MAX_UNPACKED_BYTES >> 20} MiB"
            raise ConfigError(path, "", "the file ends too early" if remaining_bytes > 0 else limit)
        if len(pieces) > _MAX_STREAMS:
            raise ConfigError(path, "", f"more than {_MAX_STREAMS} xz streams")
        raw = unpacker.unused_data
    return b"".join(pieces)


def _case(line: str, where: str, problem_of: Callable[[Any], str]) -> dict[str, Any]:
    try:
        case = parse_json(line)
    except json.JSONDecodeError as error:
        raise ConfigError(where, "", f"not a JSON object: {error.msg} at column {error.colno}") from error
    except ValueError as error:  # too many digits, too deep
        raise ConfigError(where, "", f"not a JSON object: {str(error).partition(';')[0]}") from error
    if reason := problem_of(case):
        raise ConfigError(where, "", f"not a case: {reason}")
    return case  # type: ignore[no-any-return]  # an object, as `problem_of` says
