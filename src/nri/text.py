"""Texts of others, made fit to be one short line of a log or a terminal. Pure, and imports nothing.

Names, versions, reasons, error texts and file names come from plugins, runtimes and people; what they hold must not
steer a terminal, forge a line of a log, or fill either. So they go through `plain` once, where they come in, and are
passed on as they are from there. Texts that have to stay exact (messages for a plugin's or runtime's code, JSON) do
not: there the one printer escapes it (`nri.cli.output`, the formatter of `nri.stub.support.logs`).

Fit is what `str.isprintable` says: no control characters (C0, C1, DEL, ESC), no ends of lines or paragraphs, no
marks that turn the direction of writing or cannot be seen, no halves of surrogates, no blank but the one of ASCII.
A text that is fit stays the same, so `plain` may be passed twice.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["LINE_LENGTH", "count", "cut", "escape", "json_text", "lines", "plain", "quote", "size"]

#: Characters of a text of others in an error or a line of a log, if nothing else is said.
LINE_LENGTH: Final = 1024

_NAMED: Final = dict(zip("\a\b\f\n\r\t\v", ("\\a", "\\b", "\\f", "\\n", "\\r", "\\t", "\\v"), strict=True))
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_QUOTED: Final = {'"': '\\"', "\\": "\\\\"}


def plain(text: str, length: int = LINE_LENGTH) -> str:
    """A text as one line of at most `length` characters: `escape` and `cut`, at a cost that `length` bounds."""
    if len(text) <= length and text.isprintable():
        return text
    return _cut(escape(text[:length]), len(text), length)


def escape(text: str) -> str:
    r"""A text on one line: what does not print is written as Python and Go write it, `\n`, `\x1b`, `\u202e`."""
    return text if text.isprintable() else "".join(map(_escape, text))


def cut(text: str, length: int = LINE_LENGTH) -> str:
    """A text of at most `length` characters, which says at its end if it was cut, and how long it was."""
    return _cut(text[: length + 1], len(text), length)


def lines(text: str, length: int = LINE_LENGTH) -> str:
    """A text of several lines, each of them `plain`. Only a line feed ends a line."""
    return "\n".join([plain(line, length) for line in text.split("\n")])


def json_text(text: str) -> str:
    r"""JSON in which what does not print is escaped as JSON has it, so that it holds the same data; lines stay lines.

    JSON's own writers escape the control characters below 32, or else all that is not ASCII.
    """
    return text if text.isprintable() else "".join(map(_escape_in_json, text))


def size(number: float) -> str:
    """A number of bytes in three digits or so: ``12 GiB``, ``1.5 MiB``."""
    power = 0
    while abs(number) >= 1024 and power < len(_UNITS) - 1:
        number, power = number / 1024, power + 1
    return f"{number:.{int(abs(number) < 100)}f}".removesuffix(".0") + f" {_UNITS[power]}"


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quote(text: str) -> str:
    """Quote a name as the reference prints it: double quotes, and escapes for what does not print."""
    return f'"{text}"' if text.isalnum() else '"' + "".join([_QUOTED.get(char) or _escape(char) for char in text]) + '"'


def _cut(shown: str, whole: int, length: int) -> str:
    """`shown`, the beginning of a text of `whole` characters, in `length` of them; with a mark if that is not all."""
    if len(shown) <= length and whole <= length:
        return shown
    mark = f"... (cut: {whole} characters)"
    return shown[: max(0, length - len(mark))] + mark


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
    named = _NAMED.get(char)
    if named is not None:
        return named
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
