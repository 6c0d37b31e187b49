"""Split a list of the API into its objects while its bytes arrive.

Only one object at a time and the text around the objects are in memory. The time is linear in the number of bytes. Data
without the end of an object is skipped by methods of `bytes`, and only other data is tokenized.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

#: Limit for the JSON of one object. etcd accepts requests up to 1.5 MiB.
MAX_OBJECT_BYTES = 2 << 20
#: Limit for the text of a list around its objects: versions, and the token for the next page.
_MAX_FRAME_BYTES = 64 << 10
#: The name of an object that is too large is searched in this many bytes.
HEAD_BYTES = 4096
#: Pairs of brackets are removed at most this often; deeper nesting is handled bracket by bracket.
_MAX_ROUNDS = 8

# A single quote begins a string that continues in the next bytes. Possessive quantifiers would show that no byte is
# read twice, but they match incorrectly before Python 3.11.5.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_ITEMS = re.compile(rb'(?<!\\)"items"\s*:\s*\[\Z')
_NO_OBJECT = "not a list of objects: an item has another type"
_SEPARATORS = b" \t\r\n,"
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_HEAD_KEYS = tuple(
    re.compile(rb'"%b"\s*:\s*"([^"\\]{1,253})"' % key) for key in (b"namespace", b"name", b"resourceVersion", b"type")
)


class OversizedObject(NamedTuple):
    """An object above the size limit, with the metadata in its first bytes.

    Attributes:
        size: the size of its JSON in bytes.
        namespace: its namespace, or "" if it has none or is unknown.
        name: its name, or "" if unknown.
        version: its version, or "" if unknown.
        event_type: the type of the event that contains it, or "".
    """

    size: int
    namespace: str = ""
    name: str = ""
    version: str = ""
    event_type: str = ""

    @classmethod
    def of(cls, head: bytes, size: int) -> OversizedObject:
        """Parse the first bytes of an object, or of an event with an object."""
        matches = (key.search(head, 0, HEAD_BYTES) for key in _HEAD_KEYS)
        return cls(size, *(match[1].decode(errors="replace") if match else "" for match in matches))

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name. Raises ValueError if the name is unknown."""
        if not self.name:
            raise ValueError(f"an object of {self.size} bytes has no name at its beginning")
        return self.namespace, self.name

    @property
    def reason(self) -> str:
        """The reason why the object is omitted."""
        return f"its {self.size} bytes exceed the limit of {MAX_OBJECT_BYTES}"


class ListSplitter:
    """Cuts a list into its objects.

    Args:
        max_object_bytes: larger objects become `OversizedObject`.
    """

    def __init__(self, max_object_bytes: int = MAX_OBJECT_BYTES) -> None:
        self._max_object_bytes = max_object_bytes
        self._frame = bytearray()
        self._object = bytearray()
        self._object_bytes = 0
        self._depth = 0  # of brackets around the next byte
        self._objects_depth = 0  # the depth between two objects; 0 outside the list of them
        self._in_object = self._in_string = self._ended = False
        self._half_escape = b""

    def feed(self, data: bytes) -> Iterator[bytes | OversizedObject]:
        """Yield the objects that end in these bytes. Raises ValueError if the data is not a list of objects."""
        data = self._half_escape + data
        self._half_escape = b"\\" * ((len(data) - len(data.rstrip(b"\\"))) % 2)
        data = data[: len(data) - len(self._half_escape)]
        place = 0
        while place < len(data):
            if not self._in_object:
                place = self._object_start(data, place)
                continue
            end = self._object_end(data, place)
            self._add_text(data[place:end])
            place = len(data) if end is None else end
            if end is not None:
                yield self._take_object()

    def end(self) -> bytes:
        """Return the text around the objects, which is the list without objects. Raises ValueError if incomplete."""
        if not self._ended or self._half_escape:
            raise ValueError("not JSON: the data ends too early")
        return bytes(self._frame)

    def _object_start(self, data: bytes, place: int) -> int:
        """Read the text up to the next object. Returns the start of that object, or the end of the data."""
        begin, place = place, self._behind_string(data, place)
        for token in _TOKEN.finditer(data, place):
            text = token[0]
            if self._between_objects and text not in (b"{", b"]"):
                raise ValueError(_NO_OBJECT)
            if text == b'"':
                self._in_string = True
                break
            if text in b"{[":
                if self._between_objects:
                    self._keep_frame(data[begin : token.start()])
                    self._in_object = True
                    return token.start()
                self._open(data[begin : token.end()], text)
                begin = token.end()
            elif text in b"}]":
                self._keep_frame(data[begin : token.end()])
                begin = token.end()
                self._close()
        self._keep_frame(data[begin:])
        return len(data)

    def _object_end(self, data: bytes, place: int) -> int | None:
        """Return the end of the current object. Returns None if the object continues in later data."""
        if self._depth > self._objects_depth and not self._ends_in(data):
            return None
        for token in _TOKEN.finditer(data, self._behind_string(data, place)):
            text = token[0]
            if text == b'"':
                self._in_string = True
                break
            if text in b"{[":
                self._depth += 1
            elif text in b"}]":
                self._depth -= 1
                if self._depth == self._objects_depth:
                    self._in_object = False
                    return token.end()
        return None

    @property
    def _between_objects(self) -> bool:
        return 0 < self._depth == self._objects_depth and not self._in_object

    def _behind_string(self, data: bytes, place: int) -> int:
        """Return the position after a string that began in earlier data."""
        if not self._in_string:
            return place
        match = _REST_OF_STRING.match(data, place)
        self._in_string = match is None
        return len(data) if match is None else match.end()

    def _open(self, text: bytes, bracket: bytes) -> None:
        if self._ended:
            raise ValueError("not JSON: text after its end")
        self._keep_frame(text)
        self._depth += 1
        if self._depth == 2 and bracket == b"[" and _ITEMS.search(self._frame):
            self._objects_depth = 2

    def _close(self) -> None:
        self._depth -= 1
        if self._depth < 0:
            raise ValueError("not JSON: unmatched closing bracket")
        if self._depth < self._objects_depth:
            self._objects_depth = 0
        self._ended = not self._depth

    def _ends_in(self, data: bytes) -> bool:
        """Whether the object ends in these bytes. Otherwise they are skipped."""
        if b"\\" in data:
            data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = data.split(b'"')
        brackets = b"".join(parts[self._in_string :: 2]).translate(None, _NO_BRACKETS)
        for _ in range(_MAX_ROUNDS):
            brackets, before = brackets.replace(b"{}", b"").replace(b"[]", b""), brackets
            if len(brackets) == len(before):
                break
        depth = self._depth
        for bracket in brackets:
            depth += 1 if bracket in b"{[" else -1
            if depth == self._objects_depth:
                return True
        self._depth = depth
        self._in_string ^= len(parts) % 2 == 0
        return False

    def _keep_frame(self, text: bytes) -> None:
        if self._between_objects:
            if text.strip(_SEPARATORS + b"]"):
                raise ValueError(_NO_OBJECT)
            text = text.strip(_SEPARATORS)
        self._frame += text
        if len(self._frame) > _MAX_FRAME_BYTES:
            raise ValueError(f"it is not a list of objects: more than {_MAX_FRAME_BYTES} bytes are around them")

    def _add_text(self, text: bytes) -> None:
        self._object_bytes += len(text)
        if self._object_bytes <= self._max_object_bytes:
            self._object += text
        elif len(self._object) < HEAD_BYTES:
            self._object += text[:HEAD_BYTES]
        else:
            self._object = self._object[:HEAD_BYTES]

    def _take_object(self) -> bytes | OversizedObject:
        content, size = bytes(self._object), self._object_bytes
        self._object, self._object_bytes = bytearray(), 0
        return content if size <= self._max_object_bytes else OversizedObject.of(content, size)
