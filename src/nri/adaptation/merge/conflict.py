"""What a merge can refuse, as values: `Conflict`, and how names are quoted in texts.

The text is the reference's, byte for byte: users search for it and tests of other projects match on it. The error that
carries a conflict is `nri.errors.ConflictError`. Next: `nri.adaptation.merge.ledger`.
"""

from __future__ import annotations

from typing import NamedTuple

from nri.adaptation.merge.fields import FIELD_NAMES

__all__ = ["Conflict", "quote"]

_ESCAPES = dict(zip('"\\\a\b\f\n\r\t\v', ('\\"', "\\\\", "\\a", "\\b", "\\f", "\\n", "\\r", "\\t", "\\v"), strict=True))


def quote(text: str) -> str:
    """Quote a name as the reference prints it: double quotes, and escapes for what does not print."""
    return f'"{text}"' if text.isalnum() else '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    known = _ESCAPES.get(char)
    if known is not None:
        return known
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class Conflict(NamedTuple):
    """Two plugins (or one, twice) set the same field of a container.

    Attributes:
        container: id of the container.
        field: number of the API's `Field` enum.
        key: the entry within a compound field; "" for a simple one.
        holder: ``NN-name`` of the plugin that holds the field.
        claimant: ``NN-name`` of the plugin that came second.
    """

    container: str
    field: int
    key: str
    holder: str
    claimant: str

    @property
    def field_name(self) -> str:
        """Name of the field as in the API's `Field` enum, such as ``CPUShares``."""
        return FIELD_NAMES[self.field]

    def __str__(self) -> str:
        # A simple field has no key: the text then ends in a blank, as it does in the reference.
        return f"plugins {quote(self.claimant)} and {quote(self.holder)} both tried to set {self.field_name} {self.key}"
