"""Convert the messages of an event to JSON, with limits for the document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nri.trace.allowance import kind_of
from nri.trace.catalog import to_json

if TYPE_CHECKING:
    from nri.trace.history import Event

#: A document has at most this many steps of an event.
MAX_STEPS: Final = 1024
#: A document has encoded messages of at most this many bytes. Their JSON is twenty times larger.
_MAX_BYTES = 1 << 20
#: The different messages in a document have at most this many values.
_MAX_VALUES = 30_000


class MessageJson:
    """Converts the messages of an event to JSON. Equal messages are converted only once."""

    def __init__(self, event: Event) -> None:
        self._event = event
        self._bytes, self._values = _MAX_BYTES, _MAX_VALUES
        self._tables: dict[tuple[str, bytes, bool], dict[str, Any]] = {}

    def table(self, event: str, data: bytes, *, reply: bool) -> dict[str, Any]:
        """A message as a JSON object; only its length if it is invalid or above the limits."""
        self._bytes -= len(data)
        if self._bytes < 0:
            self._event.leave_out("message")
            return {"left_out_bytes": len(data)}
        key = event, data, reply
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._new_table(event, data, reply=reply)
        return table

    def _new_table(self, event: str, data: bytes, *, reply: bool) -> dict[str, Any]:
        kind = kind_of(event, reply=reply)
        if kind is None:
            return {"unreadable_bytes": len(data)}
        values = self._event.json_values(kind, data, self._values)
        if values is None:
            self._event.leave_out("message")
            return {"left_out_bytes": len(data)}
        self._values -= values
        message = self._event.parse(event, data, reply=reply)
        return {"unreadable_bytes": len(data)} if message is None else to_json(message)

    def text(self, text: str) -> str:
        """A text, cut to the remaining bytes."""
        cut = text[: max(0, self._bytes)]
        self._bytes -= len(cut)
        return cut
