"""The dissection of captures never fails."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.api import messages as m
from nri.api.naming import PLUGIN_SERVICE
from nri.mux import frames as mux
from nri.trace.catalog import Catalog
from nri.trace.dissection import Dissector, Frame, begins_with_mux, looks_like_mux, way_of
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_request, encode_response, request_prefix
from tests.support.captured import GOLDEN, request


def dissect(data: bytes, **kwargs: bool) -> list[Frame]:
    return Dissector(Catalog()).run(data, **kwargs)


def test_a_message_in_two_mux_frames_is_put_together() -> None:
    message = m.CreateContainerRequest(pod=m.PodSandbox(name="p" * 9000))
    frames = dissect(mux.cut(1, request("CreateContainer", message)))
    assert [frame["kind"] for frame in frames] == ["mux", "request", "mux"]
    assert frames[1]["message"]["pod"]["name"] == "p" * 9000
    assert frames[1]["offset"] == 8


def test_unknown_services_show_their_fields() -> None:
    data = frames.pack(1, frames.REQUEST, encode_request(request_prefix("a.B", "C"), b"\x08\x05\x12\x02hi"))
    frame = dissect(data)[0]
    assert (frame["service"], frame["method"], frame["fields"]) == ("a.B", "C", {"1": 5, "2": "hi"})


def test_a_truncated_capture_is_explained_up_to_its_end() -> None:
    message_ends = {8: 90, 98: 108, 116: 197, 205: 220}  # where messages begin, and the offset after them
    for length in range(1, len(GOLDEN)):
        frames = dissect(GOLDEN[:length], with_mux=True)
        good = {frame["offset"] for frame in frames if frame["kind"] in ("request", "response")}
        assert good == {offset for offset, end in message_ends.items() if end <= length}, f"cut after {length} bytes"
        lines = any(frame["kind"] == "broken" for frame in frames)
        assert lines is (length not in message_ends.values()), f"cut after {length} bytes"


def test_an_invalid_payload_is_shown_raw_and_reading_continues() -> None:
    bad = mux.cut(
        1, frames.pack(1, frames.REQUEST, encode_request(request_prefix(PLUGIN_SERVICE, "Configure"), b"\xff\xff"))
    )
    dissected = dissect(bad + GOLDEN)
    assert "varint is cut short" in dissected[1]["problem"]
    assert dissected[-1]["message"] == {"events": 137}


def test_an_envelope_that_is_not_protobuf_is_reported() -> None:
    dissected = dissect(mux.cut(1, frames.pack(1, frames.REQUEST, b"\xff\xff\xff")) + GOLDEN)
    assert dissected[1]["problem"].startswith("not a ttRPC request: ")
    assert dissected[-1]["message"] == {"events": 137}


@given(st.binary(max_size=200))
def test_random_bytes_never_raise(data: bytes) -> None:
    for with_mux in (None, True, False):
        assert all(frame["offset"] <= len(data) for frame in dissect(data, with_mux=with_mux))


@given(st.binary(max_size=30), st.integers(0, len(GOLDEN)))
def test_damaged_captures_never_raise(damage: bytes, place: int) -> None:
    for frame in dissect(GOLDEN[:place] + damage + GOLDEN[place + len(damage) :], with_mux=True):
        assert json.dumps(frame)


def test_the_first_bytes_decide_whether_a_capture_has_the_multiplexer() -> None:
    plain = request("Configure", m.ConfigureRequest())
    assert begins_with_mux(GOLDEN)
    assert begins_with_mux(mux.cut(1, plain))
    assert not begins_with_mux(plain)
    assert not begins_with_mux(b"")
    assert not looks_like_mux(GOLDEN, len(GOLDEN) - 4)


def test_a_response_belongs_to_the_request_of_its_connection_and_stream() -> None:
    answer = frames.pack(3, frames.RESPONSE, encode_response(m.ConfigureResponse(events=5).SerializeToString()))
    dissected = dissect(
        mux.cut(1, request("Configure", m.ConfigureRequest(), 3)) + mux.cut(2, answer) + mux.cut(1, answer)
    )
    replies = [frame for frame in dissected if frame["kind"] == "response"]
    assert [frame.get("method") for frame in replies] == [None, "Configure"]
    assert replies[1]["message"] == {"events": 5}


def test_a_given_method_explains_a_response_without_a_request() -> None:
    catalog = Catalog()
    answer = frames.pack(1, frames.RESPONSE, encode_response(m.ConfigureResponse(events=5).SerializeToString()))
    assumed = catalog.find(*catalog.resolve("Plugin/Configure"))
    assert Dissector(catalog, assumed).run(answer)[0]["message"] == {"events": 5}


@pytest.mark.parametrize(
    ("connection", "way"),
    [(1, "the runtime calls the plugin"), (2, "the plugin calls the runtime"), (9, "not one of NRI's")],
)
def test_a_connection_has_a_direction_in_words(connection: int, way: str) -> None:
    assert way_of(connection) == way
