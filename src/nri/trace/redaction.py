"""Replace values in messages of NRI by stand-ins. Names are kept.

Replaced are the values of environment variables, arguments of containers and hooks, annotations, sysctls, mount options
of the form NAME=VALUE, seccomp listener metadata and the configuration of a plugin.

A value becomes ``<redacted 3f2a9c1b>``. Equal values of a recording have equal stand-ins, so that changes are visible;
the key of the hash is not stored. Fields are selected by name in any message, so future messages are covered, and
unknown fields are removed. Texts of errors, refusals and evictions are kept, although a plugin may write anything into
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

from google.protobuf.message_factory import GetMessageClass

from nri.wire import bytes_field, iter_fields

_NAMES: Final = frozenset(("env", "args", "annotations", "config", "options", "sysctl", "listener_metadata"))
#: Repeated strings of the form NAME=VALUE, whose name is kept. In other repeated strings, the first string is kept.
_ASSIGNMENTS: Final = frozenset(("env", "options"))
#: The stand-ins of at most this many values are stored.
_MAX_VALUES = 8192
#: The stand-in of a longer value is not stored.
_MAX_VALUE_CHARACTERS = 256

#: At most this many encoded pods and containers are stored, which come with each of their events.
_MAX_PARTS = 64
#: A larger pod or container is not stored.
_MAX_PART_BYTES = 64 << 10

#: Replaces the values of a field of a message. Returns whether the field had values.
Replace = Callable[[Any], bool]


class Redactor:
    """Replaces values in the messages of a recording."""

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._texts: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._plans: dict[str, list[Replace]] = {}
        self._kinds: dict[str, dict[int, Any]] = {}
        self._parts: dict[tuple[str, bytes], tuple[bytes, bool]] = {}

    def text(self, value: str) -> str:
        """Return the stand-in of a value. An empty value is kept."""
        stand_in = self._texts.get(value)
        if stand_in is not None or not value:
            return stand_in or value
        digest = blake2b(value.encode(errors="replace"), key=self._key, digest_size=4).hexdigest()
        return _remember(self._texts, value, f"<redacted {digest}>")

    def _variable(self, word: str) -> str:
        """``NAME=VALUE`` with a stand-in for the value."""
        stand_in = self._variables.get(word)
        if stand_in is not None:
            return stand_in
        name, equals, value = word.partition("=")
        return _remember(self._variables, word, name + equals + self.text(value))

    def encoded(self, kind: Any, data: bytes) -> tuple[bytes, bool]:
        """Return an encoded message with replaced values, and whether it had any. Raises the decoder's errors."""
        inside = self._part_classes(kind.DESCRIPTOR)
        fields = list(iter_fields(data)) if inside else []
        numbers = [number for number, _, value in fields if isinstance(value, bytes)]
        if not fields or not inside.keys() >= set(numbers) or not len(set(numbers)) == len(numbers) == len(fields):
            return self._part(kind, data)
        parts = [(number, self._part(inside[number], value)) for number, _, value in fields]  # type: ignore[arg-type]
        return b"".join(bytes_field(number, part) for number, (part, _) in parts), any(
            changed for _, (_, changed) in parts
        )

    def _part_classes(self, kind: Any) -> dict[int, Any]:
        """The fields of a message type by number, if all of them are single messages; else empty."""
        classes = self._kinds.get(kind.full_name)
        if classes is None:
            alone = all(field.message_type and not field.is_repeated and not _is_value(field) for field in kind.fields)
            classes = {field.number: GetMessageClass(field.message_type) for field in kind.fields} if alone else {}
            self._kinds[kind.full_name] = classes
        return classes

    def _part(self, kind: Any, data: bytes) -> tuple[bytes, bool]:
        """Redact an inner message, or a message without inner messages.

        The result is stored, because many are repeated.
        """
        key = kind.DESCRIPTOR.full_name, data
        outcome = self._parts.get(key)
        if outcome is None:
            outcome = self._redacted_message(kind, data)
            if len(data) <= _MAX_PART_BYTES:
                if len(self._parts) >= _MAX_PARTS:
                    self._parts.clear()
                self._parts[key] = outcome
        return outcome

    def _redacted_message(self, kind: Any, data: bytes) -> tuple[bytes, bool]:
        parsed = kind.FromString(data)
        changed = self.message(parsed)
        return parsed.SerializeToString(), changed

    def message(self, message: Any) -> bool:
        """Replace values in a message. Returns whether it had any."""
        message.DiscardUnknownFields()
        return self._apply(message)

    def _apply(self, message: Any) -> bool:
        changed = False
        for replace in self._plan(message.DESCRIPTOR):
            changed |= replace(message)
        return changed

    def _plan(self, kind: Any) -> list[Replace]:
        """The replacements for a message type."""
        plan = self._plans.get(kind.full_name)
        if plan is None:
            plan = self._plans[kind.full_name] = [
                self._replacement(field) for field in kind.fields if _is_value(field) or _leads_to_any(field, set())
            ]
        return plan

    def _replacement(self, field: Any) -> Replace:
        """Return the function that replaces the values in a field."""
        name, inside = field.name, field.message_type
        if not _is_value(field):
            apply, repeated = self._apply, field.is_repeated

            def below(message: Any) -> bool:
                if not repeated:
                    return message.HasField(name) and apply(getattr(message, name))
                changed = [
                    apply(part) for part in getattr(message, name)
                ]  # a list, because `any` would stop at the first
                return any(changed)

            return below
        if inside is None:
            return self._texts_replacement(name) if field.is_repeated else self._text_replacement(name)
        return self._map_replacement(name) if inside.GetOptions().map_entry else self._pairs_replacement(name)

    def _text_replacement(self, name: str) -> Replace:
        def replace(message: Any) -> bool:
            value = getattr(message, name)
            setattr(message, name, self.text(value))
            return bool(value)

        return replace

    def _map_replacement(self, name: str) -> Replace:
        text, remembered = self.text, self._texts.get

        def replace(message: Any) -> bool:  # annotations
            entries = getattr(message, name)
            replaced = {key: remembered(value) or text(value) for key, value in entries.items()}
            entries.update(replaced)
            return any(replaced.values())

        return replace

    def _pairs_replacement(self, name: str) -> Replace:
        def replace(message: Any) -> bool:  # env of an adjustment
            changed = False
            for pair in getattr(message, name):
                pair.value = self.text(pair.value)
                changed |= bool(pair.value)
            return changed

        return replace

    def _texts_replacement(self, name: str) -> Replace:
        is_assignment = name in _ASSIGNMENTS
        stay, replaced = (0, self._variable) if is_assignment else (1, self.text)
        remembered = (self._variables if is_assignment else self._texts).get

        def replace(message: Any) -> bool:
            entries = getattr(message, name)
            words = list(entries)
            stand_ins = [*words[:stay], *[remembered(word) or replaced(word) for word in words[stay:]]]
            if stand_ins == words:
                return False
            entries[:] = stand_ins
            return True

        return replace


def _is_value(field: Any) -> bool:
    """Whether the values of a field are replaced: the field has one of the names, and its values are strings."""
    kind = field.message_type
    if field.name not in _NAMES:
        return False
    return kind is None or kind.fields_by_name["value"].type == kind.fields_by_name["value"].TYPE_STRING


def _leads_to_any(field: Any, visited: set[str]) -> bool:
    """Whether the messages in a field have a field to replace at any depth."""
    kind = field.message_type
    if kind is None or kind.GetOptions().map_entry or kind.full_name in visited:
        return False
    visited.add(kind.full_name)
    return any(_is_value(inner_field) or _leads_to_any(inner_field, visited) for inner_field in kind.fields)


def _remember(stand_ins: dict[str, str], value: str, stand_in: str) -> str:
    if len(value) <= _MAX_VALUE_CHARACTERS:
        if len(stand_ins) >= _MAX_VALUES:
            stand_ins.clear()
        stand_ins[value] = stand_in
    return stand_in
