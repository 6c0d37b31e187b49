"""Tell a reporter of an event's steps one by one, as if each had just happened."""

from __future__ import annotations

from time import monotonic
from typing import Any


def begins(reporter: Any, event: str, serial: int, request: bytes) -> None:
    """An event has come in."""
    reporter.note(event, serial, request, [("begins", monotonic(), "", b"", None, 0.0)])


def asked(reporter: Any, plugin: str, event: str, serial: int, request: bytes) -> None:
    """A plugin is asked."""
    reporter.note(event, serial, request, [("asked", monotonic(), plugin, b"", None, 0.0)])


def answered(reporter: Any, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
    """A plugin has answered."""
    reporter.note(event, serial, b"", [("answered", monotonic(), plugin, reply, None, duration_s)])


def failed(reporter: Any, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
    """A plugin gave no answer, or an error."""
    reporter.note(event, serial, b"", [("failed", monotonic(), plugin, b"", error, duration_s)])


def ends(
    reporter: Any, event: str, serial: int, reply: bytes = b"", error: Exception | None = None, duration_s: float = 0.0
) -> None:
    """An event is over."""
    reporter.note(event, serial, b"", [("ends", monotonic(), "", reply, error, duration_s)])
