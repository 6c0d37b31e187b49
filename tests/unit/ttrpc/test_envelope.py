"""The envelope of requests and responses. Its bytes are tested in tests/wire."""

from __future__ import annotations

import copy

import pytest

from nri import wire
from nri.errors import RemoteProtocolError
from nri.ttrpc import envelope
from nri.ttrpc.envelope import (
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_prefix,
)


def test_fields_may_have_any_order_and_the_last_value_counts() -> None:
    data = (
        wire.bytes_field(3, b"p") + wire.bytes_field(2, b"m") + wire.bytes_field(1, b"old") + wire.bytes_field(1, b"s")
    )
    request = decode_request(data)
    assert (request.service, request.method, request.payload) == ("s", "m", b"p")


def test_metadata_keeps_order_and_repetitions() -> None:
    data = encode_request(request_prefix("s", "m"), b"", 0, [("a", "1"), ("b", "2"), ("a", "3")])
    data += wire.bytes_field(5, wire.varint_field(1, 7) + wire.bytes_field(9, b"?"))
    assert decode_request(data).metadata == (("a", "1"), ("b", "2"), ("a", "3"), ("", ""))


def test_long_names_and_payloads_are_read() -> None:
    data = encode_request(request_prefix("s" * 300, "m" * 200), bytes(70_000), 1 << 40)
    request = decode_request(data)
    assert (len(request.service), len(request.method), len(request.payload)) == (300, 200, 70_000)
    assert request.timeout_ns == 1 << 40


@pytest.mark.parametrize("names", [False, True])
def test_a_negative_timeout_counts_as_none(names: bool) -> None:
    prefix = request_prefix("s", "negative")
    if names:
        decode_request(encode_request(prefix, b"x"))
    assert decode_request(encode_request(prefix, b"x") + b"\x20" + wire.varint((1 << 64) - 5)).timeout_ns == 0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x0a\x05ab", "field 1 is cut short"),
        (b"\x0a\x01\xff", "text is not UTF-8"),
        (b"\x2a\x03\x0a\x01\xff", "text is not UTF-8"),
        (b"\x00\x01", "field number 0 is not allowed"),
        (b"\x33", "field 6 has wire type 3"),
        (b"\x32\x05ab", "field 6 at offset 0 is cut short"),
        (b"\x31\x00\x00", "field 6 at offset 0 is cut short"),
        (b"\x35\x00", "field 6 at offset 0 is cut short"),
        (b"\x2a\x00" * 5000, "more than 4096 fields"),
        (b"\x0a\x00" * 5000, "more than 4096 fields"),
        (wire.bytes_field(5, b"\x0a\x00" * 17), "more than 16 fields"),
    ],
)
def test_an_invalid_request_is_an_error_that_names_the_field(data: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        decode_request(data)


def test_the_cache_of_names_is_bounded() -> None:
    for number in range(300):
        decode_request(encode_request(request_prefix("s", f"made-up-{number}"), b"x"))
    assert len(envelope.names_by_prefix) <= 257
    envelope.names_by_prefix.clear()
    decode_request(encode_request(request_prefix("s", "m" * 100_000), b"x"))
    assert not envelope.names_by_prefix, "names that are too long to be looked for are kept"


def test_the_cache_of_written_timeouts_is_bounded() -> None:
    for number in range(1, 5000):
        encode_request(b"", b"x", number)
    assert len(envelope.encoded_timeouts) <= 4097
    assert encode_request(b"", b"x") == b"\x1a\x01x"


def test_the_cache_of_received_timeouts_is_bounded() -> None:
    prefix = request_prefix("s", "m")
    decode_request(encode_request(prefix, b"x"))  # from now on these names are known
    for number in range(1, 600):
        for timeout_ns in (number, number * 1_000_000):
            assert decode_request(encode_request(prefix, b"x", timeout_ns)).timeout_ns == timeout_ns
    assert len(envelope.timeout_by_bytes) <= 257


@pytest.mark.parametrize("length", [1, 127, 128, 16_383, 16_384, 70_000])
def test_a_payload_of_any_length_is_read_with_and_without_a_timeout(length: int) -> None:
    prefix, payload = request_prefix("s", "m"), b"\x20" * length
    for timeout_ns in (0, 1, 2_000_000_000):
        for _ in range(2):  # the second time with what the first one has left
            request = decode_request(b"\0\0" + encode_request(prefix, payload, timeout_ns), 2)
            assert (request.payload, request.timeout_ns) == (payload, timeout_ns)


def test_a_status_has_code_and_text_and_its_details_are_dropped() -> None:
    status = wire.varint_field(1, 5) + wire.bytes_field(2, b"gone") + wire.bytes_field(3, b"details")
    response = decode_response(wire.bytes_field(1, status) + wire.bytes_field(2, b"p") + wire.varint_field(9, 1))
    assert (response.code, response.message, response.payload) == (5, "gone", b"p")


def test_a_status_with_wrong_types_is_ignored() -> None:
    response = decode_response(
        wire.varint_field(1, 5) + wire.bytes_field(1, wire.bytes_field(1, b"5")) + wire.varint_field(2, 1)
    )
    assert (response.code, response.message, response.payload) == (0, "", b"")


def test_repeated_status_fields_are_merged() -> None:
    parts = (wire.varint_field(1, 5), wire.bytes_field(2, b"gone"), wire.varint_field(1, 7))
    response = decode_response(b"".join(wire.bytes_field(1, part) for part in parts))
    assert (response.code, response.message) == (7, "gone")


@pytest.mark.parametrize("data", [b"\x0a\x00" * 5000, b"\x22\x00" * 5000, wire.bytes_field(1, b"\x08\x01" * 5000)])
def test_a_response_with_too_many_fields_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="more than 4096 fields"):
        decode_response(data)


def test_a_text_that_is_not_unicode_reaches_the_caller() -> None:
    assert decode_response(encode_response(code=2, message="name \udcff")).message == "name ?"


def test_a_status_without_a_text_has_only_its_code() -> None:
    assert encode_response(code=5) == b"\x0a\x02\x08\x05"


def test_requests_and_responses_can_be_copied_and_are_readable() -> None:
    request = Request("s", "m", b"abc", 5, (("k", "v"),), 7, 2)
    twin = copy.copy(request)
    assert (twin.service, twin.payload, twin.metadata, twin.flags) == ("s", b"abc", (("k", "v"),), 2)
    assert repr(twin) == "Request(s/m, stream 7, 3 bytes)"
    response = copy.copy(Response(b"abc", 0, "", 7))
    assert repr(response) == "Response(stream 7, 3 bytes)"
    assert repr(Response(code=5, message="gone", stream_id=9)) == "Response(stream 9, code 5 'gone')"
