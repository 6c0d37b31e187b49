"""Convert untrusted texts to short printable lines for logs and terminals.

Names, versions, reasons, error messages and file names come from plugins, runtimes and users. They must not control a
terminal, forge a log line, or flood either. So `plain` is applied to them once, when they are received. Texts that must
stay exact (messages for code of plugins or runtimes, JSON) are escaped when they are printed (`nri.cli.output`, the
formatter of `nri.stub.support.logs`).

A text is printable if `str.isprintable` is true: it has no control characters (C0, C1, DEL, ESC), no line or paragraph
separators, no invisible or bidirectional marks, no lone surrogates, and no blank except the ASCII space. `plain` does
not change a short printable text, so it may be applied twice.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

#: The default maximum length of an untrusted text in an error or a log line.
LINE_LENGTH: Final = 1024

#: The minimum similarity (0 to 1) of a misspelt name to a valid one, and of a name that others may read.
_MIN_SIMILARITY: Final = 0.66
_MIN_FOREIGN_SIMILARITY: Final = 0.87
#: The maximum length of a name that is compared, in characters: comparing takes quadratic time.
_MAX_COMPARED: Final = 200
_NAMED_ESCAPES: Final = dict(zip("\a\b\f\n\r\t\v", ("\\a", "\\b", "\\f", "\\n", "\\r", "\\t", "\\v"), strict=True))
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_QUOTED: Final = {'"': '\\"', "\\": "\\\\"}


def plain(text: str, length: int = LINE_LENGTH) -> str:
    """Convert a text to one line of at most `length` characters: `escape` and `cut`, in time limited by `length`."""
    if len(text) <= length and text.isprintable():
        return text
    return _cut(escape(text[:length]), len(text), length)


def escape(text: str) -> str:
    r"""Convert a text to one line, with unprintable characters escaped as in Python and Go: `\n`, `\x1b`, `\u202e`."""
    return text if text.isprintable() else "".join(map(_escape, text))


def cut(text: str, length: int = LINE_LENGTH) -> str:
    """Cut a text to `length` characters, with a note of its original length at the end."""
    return _cut(text[: length + 1], len(text), length)


def lines(text: str, length: int = LINE_LENGTH) -> str:
    """Make each line of a text `plain`. Only a line feed ends a line."""
    return "\n".join([plain(line, length) for line in text.split("\n")])


def json_text(text: str) -> str:
    r"""Escape unprintable characters in JSON by JSON's own rules, except line feeds. The data stay the same.

    JSON writers escape only control characters below 32, or all characters that are not ASCII.
    """
    return text if text.isprintable() else "".join(map(_escape_in_json, text))


def size(number: float) -> str:
    """Format a number of bytes in about three digits: ``12 GiB``, ``1.5 MiB``."""
    power = 0
    while abs(number) >= 1024 and power < len(_UNITS) - 1:
        number, power = number / 1024, power + 1
    return f"{number:.{int(abs(number) < 100)}f}".removesuffix(".0") + f" {_UNITS[power]}"


def count(number: int, noun: str) -> str:
    """Format a number with its noun: ``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def nearest(name: str, known_names: Iterable[str], *, may_be_foreign: bool = False) -> str:
    """Return the known name that resembles a misspelt name most, without regard to case, `-` and `_`.

    Returns "" if no known name is similar. With `may_be_foreign` an unknown name may be valid for another program, so
    that it must be very similar.
    """
    import difflib

    folded_names = {_folded_name(known_name): known_name for known_name in known_names}
    similarity = _MIN_FOREIGN_SIMILARITY if may_be_foreign else _MIN_SIMILARITY
    matches = difflib.get_close_matches(_folded_name(name[:_MAX_COMPARED]), folded_names, 1, similarity)
    return folded_names[matches[0]] if matches else ""


def _folded_name(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()


def quote(text: str) -> str:
    """Quote a name as in Go: double quotes, and escapes for unprintable characters."""
    return f'"{text}"' if text.isalnum() else '"' + "".join([_QUOTED.get(char) or _escape(char) for char in text]) + '"'


def _cut(beginning: str, length_before: int, length: int) -> str:
    """Cut the beginning of a text of `length_before` characters to `length`, with a note if it is incomplete."""
    if len(beginning) <= length and length_before <= length:
        return beginning
    mark = f"... (cut: {length_before} characters)"
    return beginning[: max(0, length - len(mark))] + mark


def _escape_in_json(char: str) -> str:
    if char.isprintable() or char == "\n":
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _escape(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    escape_ = _NAMED_ESCAPES.get(char)
    if escape_ is not None:
        return escape_
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
