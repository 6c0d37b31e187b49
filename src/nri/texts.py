"""Texts of the other side: error messages, reasons, ids. Who sent them chose their length; it is not ours. Pure.

A text is cut where it comes in, so that nothing behind that place (errors, records, logs) holds more than that. Next:
`nri.errors`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["LONGEST", "cut"]

#: Characters of a text of the other side that are kept: a traceback fits, a dump does not.
LONGEST: Final = 2048


def cut(text: str, longest: int = LONGEST) -> str:
    """The text, or its beginning with the number of characters that are left out."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}... ({len(text) - longest} more characters)"
