"""The circumstances of one call, portions of streams, and filters of lists.

The server makes one `Call` for each gRPC call. All conditions of a filter have to be met; an empty one is always met.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

#: Items in one message of a stream: some 2 KiB each, so a message stays far below 16 MiB.
CHUNK = 500

T = TypeVar("T")


class Call(Protocol):
    """One call that is being answered."""

    def time_left(self) -> float | None:
        """The seconds that the client still waits; None for as long as it takes."""

    def metadata(self, key: str) -> bytes:
        """The value that the client sent beside the request under a key that ends in ``-bin``; empty for none."""

    def on_end(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the call ends, also because the client has gone; at once if it has already."""


def end_event(call: Call) -> threading.Event:
    """An event that is set when the call ends, also because the client has gone: what waits for long looks at it."""
    end = threading.Event()
    call.on_end(end.set)
    return end


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in portions for the messages of a stream; one that is empty if there are none."""
    for begin in range(0, len(items) or 1, CHUNK):
        yield items[begin : begin + CHUNK]


def matches_id(identity: str, prefix: str) -> bool:
    """Whether an id is, or begins with, the one that a filter has."""
    return identity.startswith(prefix)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether all labels of a selector are there with their values."""
    return all(labels.get(key) == value for key, value in selector.items())
