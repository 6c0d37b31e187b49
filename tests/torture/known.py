"""What does not hold yet, attack by attack, with what was seen; an entry that has become true fails its test."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "silent-fail-request": "Stop and Remove fail while a plugin that only declared fail_request is left out",
    "asks-and-does-not-read": "a polite plugin gets 4 answers in 2 s beside four that do not read theirs",
    "guard-by-name": "130 of 289 containers were created with 99-`10-guard` in place of 10-guard",
    "not-allowed": "a traceback for a reply to Synchronize that is not allowed; an empty linux.rdt is taken",
}
