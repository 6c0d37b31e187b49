"""What does not hold yet, attack by attack, with what was seen; an entry that has become true fails its test."""

from __future__ import annotations

KNOWN: dict[str, str] = {}
