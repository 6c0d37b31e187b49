"""What does not hold yet, attack by attack, with what was seen. An entry that has become true fails its test: remove it."""

from __future__ import annotations

KNOWN: dict[str, str] = {}
