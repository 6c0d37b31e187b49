"""One event in provenance: the part that concerns each container."""

from typing import Any

from nri.adaptation.audit.record import Record, packed, parts_of, unpacked, updates_of
from nri.adaptation.containers.answer_order import SequenceNumbers
from nri.api import messages as m


def reply(*containers: str, adjust: bool = False) -> bytes:
    response: Any = m.CreateContainerResponse(update=[m.ContainerUpdate(container_id=id_) for id_ in containers])
    if adjust:
        response.adjust.annotations["a"] = "b"
    encoded: bytes = response.SerializeToString()
    return encoded


def record(*replies: tuple[str, bytes], **more: Any) -> Record:
    return Record(1.0, "CreateContainer", "own", b"request", replies, **more)


def test_every_container_gets_its_updates_and_the_events_container_the_rest() -> None:
    complete = record(("10-a", reply("x", "y", "x", adjust=True)), ("20-b", reply("y", "nobody's")))
    parts = dict(parts_of(complete, ["x", "y"]))
    assert sorted(parts) == ["own", "x", "y"]
    holder = {
        target: [
            (plugin, [one.container_id for one in updates_of("CreateContainer", raw)]) for plugin, raw in part.replies
        ]
        for target, part in parts.items()
    }
    assert holder == {
        "own": [("10-a", []), ("20-b", [])],
        "x": [("10-a", ["x", "x"])],
        "y": [("10-a", ["y"]), ("20-b", ["y"])],
    }
    assert m.CreateContainerResponse.FromString(parts["own"].replies[0][1]).adjust.annotations == {"a": "b"}
    assert (parts["own"].request, parts["x"].request) == (b"request", b"")


def test_outcomes_belong_to_their_container() -> None:
    rows = [("x", "cpu", "applied", ""), ("own", "memory", "stale", "gone")]
    parts = dict(parts_of(record(("10-a", reply("x")), outcomes=rows), ["x"]))
    assert (list(parts["x"].outcomes), list(parts["own"].outcomes)) == ([rows[0]], [rows[1]])


def test_an_unreadable_reply_belongs_only_to_the_events_container() -> None:
    parts = dict(parts_of(record(("10-a", b"\xff\xff")), ["x"]))
    assert parts["own"].replies == [("10-a", b"\xff\xff")]
    assert parts["x"].replies == []


def test_updates_of_an_event_without_updates_are_empty() -> None:
    assert updates_of("RunPodSandbox", b"\xff") == []


def test_a_packed_record_is_small_and_unpacks_unchanged() -> None:
    rows = [("own", "memory", "stale", "gone")]
    complete = record(("10-a", reply("x") * 50), ("20-b", b""), outcomes=rows, numbers={"10-a": 7, "": 3})
    data = packed(complete)
    assert data is not None
    assert len(data) < 300
    assert unpacked(data) == complete._replace(replies=(("10-a", reply("x") * 50), ("20-b", b"")))
    assert unpacked(packed(record()) or b"") == record()


def test_a_record_with_sequence_numbers_of_fields_is_not_packed() -> None:
    assert packed(record(numbers={"10-a": SequenceNumbers(7, {"cpu": 8})})) is None
