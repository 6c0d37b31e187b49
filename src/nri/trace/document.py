"""Convert an event of a recording to JSON, and describe its outcome."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from nri.trace.message_json import MAX_STEPS, MessageJson

if TYPE_CHECKING:
    from nri.trace.history import Event, Step
    from nri.trace.pb import api_pb2 as t


def time_text(time_ns: int) -> str:
    """Format a time in UTC with microseconds."""
    seconds, nanoseconds = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1000:06}Z"


def outcome(event: Event, max_errors: int) -> str:
    """Describe how an event ended: its error, or the errors of up to `max_errors` plugins, or "ok"."""
    if event.error is not None:
        return event.error.text
    errors = ((step.plugin, step.error or step.refused) for step in event.steps)
    texts = islice((f"{plugin}: {error.text}" for plugin, error in errors if error is not None), max_errors)
    return "; ".join(texts) or ("ok" if event.whole else "incomplete")


def event_document(event: Event) -> dict[str, Any]:
    """Return an event as JSON, with its messages within the limits of a document."""
    messages = MessageJson(event)
    request = messages.table(event.name, event.request, reply=False)
    steps = [_step(step, messages) for step in event.steps[:MAX_STEPS]]
    if len(event.steps) > MAX_STEPS:
        event.leave_out("step")
    return {
        "time": time_text(event.began_ns),
        "event": event.name,
        "serial": event.serial,
        "recording": event.recording,
        "duration_ms": event.duration_ns / 1e6,
        "whole": event.whole,
        "redacted": event.redacted,
        "request": request,
        "plugins": steps,
        "reply": messages.table(event.name, event.reply, reply=True),
        "error": _error(event.error, messages),
    }


def _step(step: Step, messages: MessageJson) -> dict[str, Any]:
    return {
        "plugin": step.plugin,
        "event": step.event,
        "duration_ms": step.duration_ns / 1e6,
        "request": messages.table(step.event, step.request, reply=False),
        "reply": None if step.reply is None else messages.table(step.event, step.reply, reply=True),
        "merged": step.merged,
        "error": _error(step.error, messages),
        "refused": _error(step.refused, messages),
    }


def _error(error: t.Error | None, messages: MessageJson) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"kind": error.kind, "text": messages.text(error.text), "code": error.code, "plugin": error.plugin}
