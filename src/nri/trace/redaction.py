"""Values of env, args, annotations and configuration replaced in messages of NRI, whose names stay. Pure.

A field is found by its name in any message, so one that NRI gets tomorrow is covered. A value becomes
``<redacted 3f2a9c1b>``: equal values of one recording become equal, so one sees that a value has changed, and the key
of that is forgotten with the recording. Fields that this version does not know are dropped: they may hold anything.
Texts of errors stay; a plugin may write anything into them.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Any

__all__ = ["Redactor"]

_NAMES = frozenset(("env", "args", "annotations", "config"))


class Redactor:
    """Replaces values; one for each recording."""

    def __init__(self) -> None:
        self._key = os.urandom(16)

    def text(self, value: str) -> str:
        """Stand-in for a value; an empty one stays."""
        if not value:
            return value
        return f"<redacted {blake2b(value.encode(errors='replace'), key=self._key, digest_size=4).hexdigest()}>"

    def message(self, message: Any) -> bool:
        """Replace values in a message; whether there were any."""
        message.DiscardUnknownFields()
        changed = False
        waiting = [message]
        while waiting:
            here = waiting.pop()
            for field, value in here.ListFields():
                if field.name in _NAMES:
                    changed |= self._replace(here, field, value)
                elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
                    waiting.extend(value if hasattr(value, "append") else (value,))
        return changed

    def _replace(self, message: Any, field: Any, value: Any) -> bool:
        text = self.text
        if isinstance(value, str):
            setattr(message, field.name, text(value))
            return True
        if hasattr(value, "items"):  # annotations
            replaced = {key: text(each) for key, each in value.items()}
            changed = any(replaced.values())
            value.clear()
            value.update(replaced)
            return changed
        if field.message_type is not None:  # env of an adjustment
            for each in value:
                each.value = text(each.value)
            return any(each.value for each in value)
        # env of a container and of a hook, NAME=VALUE; of args the program stays
        words = list(value)
        if field.name == "env":
            made = [name + equals + text(rest) for name, equals, rest in (each.partition("=") for each in words)]
        else:
            made = [*words[:1], *map(text, words[1:])]
        value[:] = made
        return made != words
