"""Read texts and bytes that a command line names: the argument itself, a file, standard input, or hex digits."""

from __future__ import annotations

import re
import sys

from nri.cli.errors import USAGE, Failure
from nri.config import Source, read_file
from nri.errors import ConfigError
from nri.files import is_file, read_regular

#: The largest file that is read; the limit keeps a wrong path from filling the memory.
_MAX_BYTES = 256 << 20


def read_argument(data: str) -> str:
    """Return the argument itself, the content of a file (@FILE), or standard input (-)."""
    if data == "-":
        return sys.stdin.read()
    if not data.startswith("@"):
        return data
    try:
        return read_regular(data[1:], _MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise Failure(f"{data[1:]}: not UTF-8 text", USAGE) from None


def read_source(path: str) -> Source:
    """Read a file or standard input (-), with its name for errors. Raises ConfigError if it cannot be read."""
    if path != "-":
        return read_file(path)
    try:
        return Source("standard input", sys.stdin.read())
    except UnicodeDecodeError as error:
        raise ConfigError("standard input", "", f"not UTF-8 text: byte {error.start}") from None


def read_capture(capture: str) -> bytes:
    """Return the bytes of a file, of standard input (-), or of the argument itself; files may contain hex digits."""
    if capture == "-":
        raw = sys.stdin.buffer.read()
    elif is_file(capture):
        raw = read_regular(capture, _MAX_BYTES)
    else:
        try:
            return unhex(capture)
        except Failure as error:
            raise Failure(f"{capture[:60]}: no such file, and {error.message}", USAGE) from None
    text = raw.strip()
    is_hex = text and all(byte in b"0123456789abcdefABCDEFxX\\:|, \r\n\t" for byte in text)
    return unhex(text.decode()) if is_hex else raw


def unhex(text: str) -> bytes:
    """Read bytes from hex digits. Blanks, colons, bars and 0x between the digits are ignored."""
    digits = re.sub(r"0x|\\x|[\s:|,]", "", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        bad = re.search(r"[^0-9a-fA-F]", digits)
        reason = f'"{bad[0]}" is not a hex digit' if bad else "an odd number of digits"
        raise Failure(f"not hex: {reason}", USAGE) from None


def pair_of(text: str) -> tuple[str, str]:
    """Read a metadata pair, KEY=VALUE; keys are sent in lower case."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Failure(f'--metadata "{text}" is not KEY=VALUE', USAGE)
    return key.lower(), value
