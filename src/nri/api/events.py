"""The events of NRI, a row for each, and sets of events: `EventMask`, the subscription of a plugin.

This module imports nothing, not even the messages, because every import slows a plugin's start. So rows contain the
names of message classes (`getattr(messages, spec.request)`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import ClassVar, Final, Self, SupportsIndex


class EventSpec:
    """An event.

    Attributes:
        number: the number on the wire, 1 to 14 (enum `Event`).
        name: the name in the enum, `CREATE_CONTAINER`.
        rpc: the name of the ttRPC method, `CreateContainer`, also used in texts.
        method: the name in Python, `create_container`.
        request: the name of the request's message class.
        reply: the name of the reply's message class.
        kind: the subject: "pod", "container" or "validation".
        relayed: peers older than 0.12 know the event only inside a `StateChange` call.
        since: the release of NRI that introduced the event.
    """

    __slots__ = ("kind", "method", "name", "number", "relayed", "reply", "request", "rpc", "since")

    def __init__(self, number: int, name: str, kind: str, *, relayed: bool, since: str = "0.2.0") -> None:
        self.number: Final = number
        self.name: Final = name
        self.rpc: Final = "".join(word.capitalize() for word in name.split("_"))
        self.method: Final = name.lower()
        self.request: Final = self.rpc + "Request"
        self.reply: Final = self.rpc + "Response"
        self.kind: Final = kind
        self.relayed: Final = relayed
        self.since: Final = since

    @property
    def bit(self) -> int:
        """The bit of this event in a mask."""
        return 1 << (self.number - 1)

    def __repr__(self) -> str:
        return f"<event {self.number} {self.rpc}>"


#: Every event, in ascending order of the numbers.
EVENTS: Final = (
    EventSpec(1, "RUN_POD_SANDBOX", "pod", relayed=True),
    EventSpec(2, "STOP_POD_SANDBOX", "pod", relayed=True),
    EventSpec(3, "REMOVE_POD_SANDBOX", "pod", relayed=True),
    EventSpec(4, "CREATE_CONTAINER", "container", relayed=False),
    EventSpec(5, "POST_CREATE_CONTAINER", "container", relayed=True),
    EventSpec(6, "START_CONTAINER", "container", relayed=True),
    EventSpec(7, "POST_START_CONTAINER", "container", relayed=True),
    EventSpec(8, "UPDATE_CONTAINER", "container", relayed=False),
    EventSpec(9, "POST_UPDATE_CONTAINER", "container", relayed=True),
    EventSpec(10, "STOP_CONTAINER", "container", relayed=False),
    EventSpec(11, "REMOVE_CONTAINER", "container", relayed=True),
    EventSpec(12, "UPDATE_POD_SANDBOX", "pod", relayed=False, since="0.10.0"),
    EventSpec(13, "POST_UPDATE_POD_SANDBOX", "pod", relayed=True, since="0.10.0"),
    EventSpec(14, "VALIDATE_CONTAINER_ADJUSTMENT", "validation", relayed=False, since="0.10.0"),
)
#: An answer to CreateContainer without changes: an empty `adjust`, as Go plugins send it. iSulad's daemon crashes on an
#: answer without that field.
EMPTY_CREATION: Final = b"\n\x00"

BY_NUMBER: Final = {spec.number: spec for spec in EVENTS}
BY_METHOD: Final = {spec.method: spec for spec in EVENTS}
BY_RPC: Final = {spec.rpc: spec for spec in EVENTS}


class EventMask(int):
    """A set of events. Its number is the value of `ConfigureResponse.events`.

    `|`, `&`, `-`, `^` and `~` are set operations. Bits of unknown events are kept, so that a wrong mask can be
    reported; `~` and iteration use only known events. On the wire, 0 means every event.
    """

    __slots__ = ()

    #: Every event.
    ALL: ClassVar[EventMask]
    #: The events of runtimes before 0.10, which refuse a plugin that subscribes to further events.
    OLD: ClassVar[EventMask]

    def __new__(cls, value: int = 0) -> Self:
        """Create a mask from its number.

        Raises:
            ValueError: `value` is negative.
        """
        if value < 0:
            raise ValueError(f"event mask must not be negative: {value}")
        return super().__new__(cls, value)

    @classmethod
    def of(cls, *events: int | str | EventSpec) -> EventMask:
        """The mask of these events. Each is a row, a number, or a name (`CreateContainer`, `create_container`).

        Raises:
            ValueError: an event does not exist.
        """
        return cls(0).with_events(*events)

    @classmethod
    def parse(cls, *texts: str) -> EventMask:
        """Parse a subscription, for example `"pod,CreateContainer"`.

        Each text is a comma-separated list of names of events, ignoring case; or `all`; or `pod` (also `podsandbox`)
        for every event with "pod" in its name; or `container` for every event with "container" in its name, including
        validation. Blanks around names and underscores in names are ignored.

        Raises:
            ValueError: an item is not an event.
        """
        mask = 0
        for text in texts:
            for item in text.split(","):
                word = item.strip().lower().replace("_", "")
                if word not in _WORDS:
                    hint = "expected all, pod, container, or names of events, for example CreateContainer"
                    raise ValueError(f'unknown event "{item.strip()}": {hint}')
                mask |= _WORDS[word]
        return cls(mask)

    @classmethod
    def parse_names(cls, *texts: str) -> EventMask:
        """The events of a subscription (see `parse`) that are named directly, and not by a group such as `pod`.

        Raises:
            ValueError: an item is not an event.
        """
        words = [word for text in texts for word in text.split(",") if word.strip().lower() not in _GROUPS]
        return cls.parse(*words)

    def has(self, event: int | str | EventSpec) -> bool:
        """Whether the event is in the set.

        Raises:
            ValueError: the event does not exist.
        """
        return bool(int(self) & _find(event).bit)

    def with_events(self, *events: int | str | EventSpec) -> EventMask:
        """This set with more events."""
        value = int(self)
        for event in events:
            value |= _find(event).bit
        return EventMask(value)

    def without(self, *events: int | str | EventSpec) -> EventMask:
        """This set with fewer events."""
        return self - EventMask.of(*events)

    @property
    def unknown(self) -> int:
        """The bits without an event. A runtime refuses a plugin that sets such a bit."""
        return int(self) & ~_ALL_BITS

    def __str__(self) -> str:
        """The names in ascending order of the numbers, joined by commas, with unknown bits last: `unknown(0x4000)`."""
        names = [spec.rpc for spec in self]
        if self.unknown:
            names.append(f"unknown({self.unknown:#x})")
        return ",".join(names)

    def __iter__(self) -> Iterator[EventSpec]:
        value = int(self)
        return (spec for spec in EVENTS if value & spec.bit)

    def __or__(self, other: int) -> EventMask:
        return EventMask(int(self) | other)

    def __and__(self, other: int) -> EventMask:
        return EventMask(int(self) & other)

    def __xor__(self, other: int) -> EventMask:
        return EventMask(int(self) ^ other)

    def __sub__(self, other: int) -> EventMask:
        return EventMask(int(self) & ~other)

    def __invert__(self) -> EventMask:
        return EventMask(_ALL_BITS & ~int(self))

    __ror__, __rand__, __rxor__ = __or__, __and__, __xor__

    def __repr__(self) -> str:
        return f"<EventMask {int(self):#x} {str(self) or 'none'}>"

    def __reduce__(self) -> tuple[type[EventMask], tuple[SupportsIndex]]:
        return EventMask, (int(self),)


def _find(event: int | str | EventSpec) -> EventSpec:
    if isinstance(event, EventSpec):
        return event
    spec = BY_NUMBER.get(event) if isinstance(event, int) else BY_METHOD.get(event) or BY_RPC.get(event)
    if spec is None:
        raise ValueError(f"unknown event {event!r}")
    return spec


def _group(word: str) -> int:
    return sum(spec.bit for spec in EVENTS if word in spec.rpc.lower())


_ALL_BITS: Final = sum(spec.bit for spec in EVENTS)
_GROUPS: Final = {
    "all": _ALL_BITS,
    "pod": _group("pod"),
    "podsandbox": _group("pod"),
    "container": _group("container"),
}
_WORDS: Final = {spec.rpc.lower(): spec.bit for spec in EVENTS} | _GROUPS
ALL: Final = EventMask(_ALL_BITS)
OLD: Final = EventMask(sum(spec.bit for spec in EVENTS if spec.since == "0.2.0"))
EventMask.ALL = ALL
EventMask.OLD = OLD
