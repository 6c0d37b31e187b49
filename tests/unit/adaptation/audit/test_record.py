"""One event as provenance keeps it: the part that concerns each container."""

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


def test_each_container_gets_its_own_updates_and_the_events_own_one_the_rest() -> None:
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


def test_outcomes_go_to_the_container_that_they_are_about() -> None:
    rows = [("x", "cpu", "applied", ""), ("own", "memory", "stale", "gone")]
    parts = dict(parts_of(record(("10-a", reply("x")), outcomes=rows), ["x"]))
    assert (list(parts["x"].outcomes), list(parts["own"].outcomes)) == ([rows[0]], [rows[1]])


def test_a_reply_that_cannot_be_read_concerns_the_event_alone() -> None:
    parts = dict(parts_of(record(("10-a", b"\xff\xff")), ["x"]))
    assert parts["own"].replies == [("10-a", b"\xff\xff")]
    assert parts["x"].replies == []


def test_an_event_without_updates_in_its_reply_has_none() -> None:
    assert updates_of("RunPodSandbox", b"\xff") == []


def test_a_packed_record_is_small_and_comes_out_as_it_was() -> None:
    rows = [("own", "memory", "stale", "gone")]
    complete = record(("10-a", reply("x") * 50), ("20-b", b""), outcomes=rows, numbers={"10-a": 7, "": 3})
    data = packed(complete)
    assert data is not None
    assert len(data) < 300
    assert unpacked(data) == complete._replace(replies=(("10-a", reply("x") * 50), ("20-b", b"")))
    assert unpacked(packed(record()) or b"") == record()


def test_a_record_whose_fields_have_numbers_of_their_own_is_not_packed() -> None:
    assert packed(record(numbers={"10-a": SequenceNumbers(7, {"cpu": 8})})) is None
