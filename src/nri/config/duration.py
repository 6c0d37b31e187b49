"""Durations in Go's format ("5s", "1m30s", "250ms"). In Python a duration is a float of seconds."""

from __future__ import annotations

import re
from typing import Annotated

#: Seconds per unit, in the order in which Go prints them.
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|μs|ns)")  # Go takes both signs for micro

#: Maximum length of a duration. A duration that Go can represent is shorter.
_MAX_CHARACTERS = 200
#: Go's maximum: it counts nanoseconds in 64 bits.
_MAX_S = 2**63 / 1e9

#: The marker that `nri.config.typed` looks for.
DURATION = "nri.duration"

#: Annotation for a key with a duration: a float of seconds, written as a number or as a Go duration.
Duration = Annotated[float, DURATION]

#: The shortest timeout in seconds. A timeout of 0 would disable the call that it limits.
_MIN_TIMEOUT_S = 0.001


def check_timeouts(table: object, *names: str) -> None:
    """Raise ValueError if one of these attributes, in seconds, is too short for a timeout."""
    for name in names:
        value = getattr(table, name)
        if value < _MIN_TIMEOUT_S:
            raise ValueError(f"{name} {value:g} s is too short for a timeout; write 1ms or more")


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as ``1m30s``. Raises ValueError with the reason and a fix.

    Source: the grammar of Go's ``time.ParseDuration``: optional sign, then numbers with units, or a bare ``0``.
    """
    sign = -1.0 if text.startswith("-") else 1.0
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0.0
    end, seconds = 0, 0.0
    # The length is limited because a long row of digits without a unit would be matched in each split: hours for 10 kB.
    while len(body) <= _MAX_CHARACTERS and (part := _PART.match(body, end)):
        seconds += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    if not body or end != len(body):
        raise ValueError(f'"{text}" is not a duration; write a number with a unit, such as 2s, 500ms or 1m30s')
    if seconds >= _MAX_S:
        raise ValueError(f'"{text}" exceeds the longest duration, 292 years; write, for example, 2s, 500ms or 1m30s')
    return sign * seconds


def format_duration(seconds: float) -> str:
    """A duration in Go's format: ``1m30s``, ``250ms``, ``0s``. It is rounded to nanoseconds."""
    nanos = round(abs(seconds) * 1e9)
    sign = "-" if seconds < 0 and nanos else ""
    if nanos < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanos >= size:
                return f"{sign}{_short_decimal(nanos, size)}{unit}"
        return "0s"
    minutes, seconds_nanos = divmod(nanos, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_short_decimal(seconds_nanos, 1_000_000_000)}s"


def _short_decimal(value: int, size: int) -> str:
    """value/size as a decimal without trailing zeros, by integer arithmetic."""
    quotient, remainder = divmod(value, size)
    digits = str(remainder).rjust(len(str(size)) - 1, "0").rstrip("0")
    return f"{quotient}.{digits}" if remainder else str(quotient)
