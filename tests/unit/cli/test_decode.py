"""`nri decode`: captures explained, and nothing in a capture that can make it fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri import mux
from nri.api import messages as m
from nri.api.naming import PLUGIN_SERVICE
from nri.cli.catalog import Catalog
from nri.cli.dissect import Dissector
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_request, encode_response, request_prefix

#: Captured from the reference: registration and its reply, configuration and its reply.
REGISTER = (
    "00000002 00000052 | 00000048 00000001 01 00 | 0a1c 6e72692e706b672e6170692e7631616c706861312e52756e74696d65 "
    "120e 5265676973746572506c7567696e 1a12 0a03666f6f 12023030 1a0776302e31322e32 20b48788d012"
)
REGISTERED = "00000002 0000000a | 00000000 00000001 02 00"
CONFIGURE = (
    "00000001 00000051 | 00000047 00000001 01 00 | 0a1b 6e72692e706b672e6170692e7631616c706861312e506c7567696e "
    "1209 436f6e666967757265 1a17 12027274 1a027631 208827 28d00f 320776302e31322e32 2091f5d3b907"
)
CONFIGURED = "00000001 0000000f | 00000005 00000001 02 00 | 1203 108901"
GOLDEN = bytes.fromhex("".join(REGISTER + REGISTERED + CONFIGURE + CONFIGURED).replace("|", ""))


def dissect(data: bytes, **kwargs: bool) -> list[dict]:
    return Dissector(Catalog()).run(data, **kwargs)


def request(method: str, message: object, stream: int = 1) -> bytes:
    return frames.pack(
        stream, frames.REQUEST, encode_request(request_prefix(PLUGIN_SERVICE, method), message.SerializeToString())
    )


def test_frames_of_the_reference_are_explained_with_offsets(nri) -> None:
    done = nri("decode", f"{REGISTER} {REGISTERED} {CONFIGURE} {CONFIGURED}")
    assert done.returncode == 0, done.stdout
    assert done.stdout == (
        "       0  mux frame, connection 2 (the plugin calls the runtime), 82 bytes\n"
        "       8    ttRPC request, stream 1, 72 bytes\n"
        "              nri.pkg.api.v1alpha1.Runtime/RegisterPlugin, timeout 5 s\n"
        '              RegisterPluginRequest {"pluginName": "foo", "pluginIdx": "00", "NRIVersion": "v0.12.2"}\n'
        "      90  mux frame, connection 2 (the plugin calls the runtime), 10 bytes\n"
        "      98    ttRPC response, stream 1, 0 bytes\n"
        "              nri.pkg.api.v1alpha1.Runtime/RegisterPlugin\n"
        "              Empty {}\n"
        "     108  mux frame, connection 1 (the runtime calls the plugin), 81 bytes\n"
        "     116    ttRPC request, stream 1, 71 bytes\n"
        "              nri.pkg.api.v1alpha1.Plugin/Configure, timeout 2 s\n"
        '              ConfigureRequest {"runtimeName": "rt", "runtimeVersion": "v1", "registrationTimeout": "5000", '
        '"requestTimeout": "2000", "NRIVersion": "v0.12.2"}\n'
        "     197  mux frame, connection 1 (the runtime calls the plugin), 15 bytes\n"
        "     205    ttRPC response, stream 1, 5 bytes\n"
        "              nri.pkg.api.v1alpha1.Plugin/Configure\n"
        '              ConfigureResponse {"events": 137}\n'
    )


@pytest.mark.parametrize("form", ["binary", "hex", "stdin"])
def test_a_capture_may_be_a_file_of_bytes_or_hex_or_standard_input(nri, tmp_path: Path, form: str) -> None:
    path = tmp_path / "capture"
    path.write_bytes(GOLDEN if form == "binary" else REGISTER.encode())
    done = nri("decode", "-", stdin=REGISTER) if form == "stdin" else nri("decode", str(path))
    assert done.returncode == 0, done.stderr
    assert '"pluginName": "foo"' in done.stdout


def test_json_is_one_document_of_entries(nri) -> None:
    found = json.loads(nri("decode", REGISTER, "-o", "json").stdout)
    assert [entry["kind"] for entry in found] == ["mux", "request"]
    assert found[1]["message"]["pluginIdx"] == "00"


def test_a_message_in_two_mux_frames_is_put_together() -> None:
    message = m.CreateContainerRequest(pod=m.PodSandbox(name="p" * 9000))
    entries = dissect(mux.cut(1, request("CreateContainer", message)))
    assert [entry["kind"] for entry in entries] == ["mux", "request", "mux"]
    assert entries[1]["message"]["pod"]["name"] == "p" * 9000
    assert entries[1]["offset"] == 8


def test_a_reply_alone_shows_its_fields_unless_its_method_is_given(nri) -> None:
    assert 'fields by number {"2": 137}' in nri("decode", CONFIGURED).stdout
    assert 'ConfigureResponse {"events": 137}' in nri("decode", CONFIGURED, "--method", "Plugin/Configure").stdout


def test_a_status_is_shown_with_its_name(nri) -> None:
    data = mux.cut(1, frames.pack(1, frames.RESPONSE, encode_response(b"", 12, "method Foo")))
    assert "status 12 Unimplemented: method Foo" in nri("decode", data.hex()).stdout


def test_plain_ttrpc_is_recognized(nri) -> None:
    data = request("StopContainer", m.StopContainerRequest(container=m.Container(id="c")))
    done = nri("decode", data.hex())
    assert done.stdout.startswith("       0    ttRPC request, stream 1")
    assert '{"container": {"id": "c"}}' in done.stdout


def test_unknown_services_show_their_fields() -> None:
    data = frames.pack(1, frames.REQUEST, encode_request(request_prefix("a.B", "C"), b"\x08\x05\x12\x02hi"))
    entry = dissect(data)[0]
    assert (entry["service"], entry["method"], entry["fields"]) == ("a.B", "C", {"1": 5, "2": "hi"})


def test_a_capture_cut_anywhere_is_explained_up_to_there() -> None:
    whole = {8: 90, 98: 108, 116: 197, 205: 220}  # where messages begin, and the offset after them
    for length in range(1, len(GOLDEN)):
        entries = dissect(GOLDEN[:length], with_mux=True)
        good = {entry["offset"] for entry in entries if entry["kind"] in ("request", "response")}
        assert good == {offset for offset, end in whole.items() if end <= length}, f"cut after {length} bytes"
        told = any(entry["kind"] == "broken" for entry in entries)
        assert told is (length not in whole.values()), f"cut after {length} bytes"


def test_garbage_between_frames_is_named_with_its_offset_and_passed_over(nri) -> None:
    done = nri("decode", REGISTER + "deadbeef00" + CONFIGURE)
    assert done.returncode == 1
    assert "      90    broken: not a mux frame (connection 3735928559, 0 bytes); 5 bytes left out\n" in done.stdout
    assert "ConfigureRequest" in done.stdout


def test_a_payload_that_is_no_message_is_shown_raw_and_reading_goes_on() -> None:
    bad = mux.cut(
        1, frames.pack(1, frames.REQUEST, encode_request(request_prefix(PLUGIN_SERVICE, "Configure"), b"\xff\xff"))
    )
    entries = dissect(bad + GOLDEN)
    assert "varint is cut short" in entries[1]["problem"]
    assert entries[-1]["message"] == {"events": 137}


def test_an_envelope_that_is_no_protobuf_is_named() -> None:
    entries = dissect(mux.cut(1, frames.pack(1, frames.REQUEST, b"\xff\xff\xff")) + GOLDEN)
    assert entries[1]["problem"].startswith("not a ttRPC request: ")
    assert entries[-1]["message"] == {"events": 137}


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    for with_mux in (None, True, False):
        assert all(entry["offset"] <= len(data) for entry in dissect(data, with_mux=with_mux))


@given(st.binary(max_size=30), st.integers(0, len(GOLDEN)))
def test_no_damage_to_a_capture_makes_it_fail(damage: bytes, place: int) -> None:
    for entry in dissect(GOLDEN[:place] + damage + GOLDEN[place + len(damage) :], with_mux=True):
        json.dumps(entry)


@pytest.mark.parametrize(
    ("capture", "reason"),
    [
        ("xyz", 'xyz: no such file, and not hex: "x" is no hex digit'),
        ("abc", "abc: no such file, and not hex: an odd number of digits"),
    ],
)
def test_what_is_neither_file_nor_hex_is_wrong_usage(nri, capture: str, reason: str) -> None:
    done = nri("decode", capture)
    assert (done.returncode, done.stderr) == (2, f"error: {reason}\n")
