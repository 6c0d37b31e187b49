"""Texts of others, made fit to be one short line of a log or a terminal. Pure, and imports nothing.

Who sent them chose their length; it is not ours. A text is cut where it comes in, so that errors, records and logs
behind that place hold no more than that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["LINE_LENGTH", "cut"]

#: Characters of a text of others in an error or a line of a log, if nothing else is said.
LINE_LENGTH: Final = 1024


def cut(text: str, length: int = LINE_LENGTH) -> str:
    """A text of at most `length` characters, which says at its end if it was cut, and how long it was."""
    return _cut(text[: length + 1], len(text), length)


def _cut(shown: str, whole: int, length: int) -> str:
    """`shown`, the beginning of a text of `whole` characters, in `length` of them; with a mark if that is not all."""
    if len(shown) <= length and whole <= length:
        return shown
    mark = f"... (cut: {whole} characters)"
    return shown[: max(0, length - len(mark))] + mark
