"""The context of a call, and helpers for streams and for the filters of lists."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

#: The maximum number of items in one message of a stream. An item has about 2 KiB, and gRPC's limit is 16 MiB.
MAX_ITEMS = 500

T = TypeVar("T")


class Call(Protocol):
    """The context of a gRPC call."""

    def time_left(self) -> float | None:
        """Return the seconds until the client's deadline, or None if the client has set no deadline."""

    def metadata(self, key: str) -> bytes:
        """Return the value of a key that ends in ``-bin`` in the client's metadata, or b"" if the key is missing."""

    def on_end(self, callback: Callable[[], None]) -> None:
        """Run `callback` when the gRPC call ends for any reason, or at once if the call has already ended."""


def end_event(call: Call) -> threading.Event:
    """Return an event that is set when the call ends for any reason, so that waits for its client can end."""
    end = threading.Event()
    call.on_end(end.set)
    return end


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in portions for the messages of a stream. Without items, one empty portion is yielded."""
    for begin in range(0, len(items) or 1, MAX_ITEMS):
        yield items[begin : begin + MAX_ITEMS]


def matches_id(identity: str, prefix: str) -> bool:
    """Return whether an id starts with the id of a filter. An empty filter matches every id."""
    return identity.startswith(prefix)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return whether the labels include all labels of a selector. An empty selector matches all labels."""
    return all(labels.get(key) == value for key, value in selector.items())
