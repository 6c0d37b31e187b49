"""All attacks of hostile plugins, by name: each module has some, and its rows."""

from tests.torture.attack import Attack
from tests.torture.attacks import floods, malformed, operators, registration, replies, silence, texts

ROWS: tuple[Attack, ...] = (
    *replies.ROWS,
    *silence.ROWS,
    *floods.ROWS,
    *registration.ROWS,
    *texts.ROWS,
    *malformed.ROWS,
    *operators.ROWS,
)
ATTACKS = {row.name: row for row in ROWS}

__all__ = ["ATTACKS", "ROWS"]
