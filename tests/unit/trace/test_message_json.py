"""Messages of an event as JSON: equal messages are converted once, and a document has a size limit."""

from __future__ import annotations

from nri.api import messages as m
from nri.trace.allowance import Allowance
from nri.trace.history import Event
from nri.trace.message_json import MessageJson
from nri.wire import bytes_field


def event_that_counts(lost: list[str]) -> Event:
    return Event("CreateContainer", 1, 1, 1, Allowance(lost.append))


def creation(words: int, length: int = 10) -> bytes:
    return m.CreateContainerRequest(container=m.Container(env=["w" * length] * words)).SerializeToString()


def test_a_message_has_its_json_names() -> None:
    messages = MessageJson(event_that_counts([]))
    assert messages.table("CreateContainer", creation(1), reply=False) == {"container": {"env": ["w" * 10]}}
    assert messages.table("NoSuchEvent", b"abc", reply=False) == {"unreadable_bytes": 3}
    assert messages.table("CreateContainer", b"\xff\xff", reply=False) == {"unreadable_bytes": 2}


def test_equal_messages_are_converted_once() -> None:
    messages = MessageJson(event_that_counts([]))
    first, second = (messages.table("CreateContainer", creation(20_000), reply=False) for _ in range(2))
    assert first is second and len(first["container"]["env"]) == 20_000


def test_messages_above_the_limits_are_skipped_and_reported() -> None:
    lost: list[str] = []
    messages = MessageJson(event_that_counts(lost))
    assert "container" in messages.table("CreateContainer", creation(20_000), reply=False)
    event = creation(20_001)
    assert messages.table("CreateContainer", event, reply=False) == {"left_out_bytes": len(event)}
    long = creation(1, 1 << 20)
    assert MessageJson(event_that_counts(lost)).table("CreateContainer", long, reply=False) == {
        "left_out_bytes": len(long)
    }
    assert lost == ["message", "message"]


def test_texts_count_against_the_limit() -> None:
    messages = MessageJson(event_that_counts([]))
    assert messages.text("a" * 100) == "a" * 100
    messages.table("NoSuchEvent", bytes_field(1, b"x" * ((1 << 20) - 200)), reply=False)
    assert len(messages.text("b" * 1000)) < 100
