"""The context of a call, and helpers for streams and for the filters of lists."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

#: The most items in one message of a stream: at about 2 KiB each, a message stays far below 16 MiB.
MAX_ITEMS = 500

T = TypeVar("T")


class Call(Protocol):
    """The context of one gRPC call that is being answered."""

    def time_left(self) -> float | None:
        """The seconds until the client's deadline; None without a deadline."""

    def metadata(self, key: str) -> bytes:
        """The client's metadata under a key that ends in ``-bin``; empty if there is none."""

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the call ends, for any reason; at once if it has already ended."""


def end_event(call: Call) -> threading.Event:
    """An event that is set when the call ends, for any reason; long waits end with it."""
    end = threading.Event()
    call.on_end(end.set)
    return end


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in portions for the messages of a stream; without items, one empty portion."""
    for begin in range(0, len(items) or 1, MAX_ITEMS):
        yield items[begin : begin + MAX_ITEMS]


def matches_id(identity: str, prefix: str) -> bool:
    """Whether an id starts with a filter's id; an empty one matches every id."""
    return identity.startswith(prefix)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether the labels include those of a selector; an empty one matches all labels."""
    return all(labels.get(key) == value for key, value in selector.items())
