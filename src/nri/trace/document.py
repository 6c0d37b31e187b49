"""An event of a recording as JSON, and in a few words for a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nri.trace.catalog import to_json
from nri.trace.history import parsed

if TYPE_CHECKING:
    from nri.trace.history import Event, Step
    from nri.trace.pb import api_pb2 as t

__all__ = ["event_document", "outcome", "time_text"]


def time_text(time_ns: int) -> str:
    """A time, UTC, to the microsecond. 64 bits of nanoseconds end in the year 2554, which a calendar has."""
    seconds, rest = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:06}Z"


def outcome(event: Event) -> str:
    """How an event ended; the errors of plugins where it went on without them."""
    if event.error is not None:
        return event.error.text
    wrong = [(step.plugin, step.error or step.refused) for step in event.steps]
    missed = [f"{plugin}: {error.text}" for plugin, error in wrong if error is not None]
    return "; ".join(missed) or ("ok" if event.whole else "a part is missing")


def event_document(event: Event) -> dict[str, Any]:
    """An event as JSON, with all that was kept of it."""
    return {
        "time": time_text(event.began_ns),
        "event": event.name,
        "serial": event.serial,
        "recording": event.recording,
        "duration_ms": event.duration_ns / 1e6,
        "whole": event.whole,
        "redacted": event.redacted,
        "request": _message(event.name, event.request, reply=False),
        "plugins": [_step(step) for step in event.steps],
        "reply": _message(event.name, event.reply, reply=True),
        "error": _error(event.error),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "plugin": step.plugin,
        "event": step.event,
        "duration_ms": step.duration_ns / 1e6,
        "request": _message(step.event, step.request, reply=False),
        "reply": None if step.reply is None else _message(step.event, step.reply, reply=True),
        "merged": step.merged,
        "error": _error(step.error),
        "refused": _error(step.refused),
    }


def _message(event: str, data: bytes, *, reply: bool) -> dict[str, Any]:
    """A message as JSON; only its length if this version cannot read it."""
    message = parsed(event, data, reply=reply)
    return {"unreadable_bytes": len(data)} if message is None else to_json(message)


def _error(error: t.Error | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"kind": error.kind, "text": error.text, "code": error.code, "plugin": error.plugin}
