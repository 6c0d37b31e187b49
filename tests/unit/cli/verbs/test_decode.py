"""`nri decode` explains captures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.mux import frames as mux
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_response
from tests.support.captured import CONFIGURE, CONFIGURED, GOLDEN, REGISTER, REGISTERED, request


def test_frames_of_the_reference_are_explained_with_offsets(nri) -> None:
    result = nri("decode", f"{REGISTER} {REGISTERED} {CONFIGURE} {CONFIGURED}")
    assert result.returncode == 0, result.stdout
    assert result.stdout == (
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
def test_a_capture_can_be_a_file_hex_or_standard_input(nri, tmp_path: Path, form: str) -> None:
    path = tmp_path / "capture"
    path.write_bytes(GOLDEN if form == "binary" else REGISTER.encode())
    result = nri("decode", "-", stdin=REGISTER) if form == "stdin" else nri("decode", str(path))
    assert result.returncode == 0, result.stderr
    assert '"pluginName": "foo"' in result.stdout


def test_quiet_prints_the_methods_of_the_requests(nri) -> None:
    result = nri("decode", "-q", f"{REGISTER} {REGISTERED} {CONFIGURE} {CONFIGURED}")
    assert result.stdout.splitlines() == [
        "nri.pkg.api.v1alpha1.Runtime/RegisterPlugin",
        "nri.pkg.api.v1alpha1.Plugin/Configure",
    ]


def test_json_is_one_document_of_frames(nri) -> None:
    document = json.loads(nri("decode", REGISTER, "-o", "json").stdout)
    assert [frame["kind"] for frame in document] == ["mux", "request"]
    assert document[1]["message"]["pluginIdx"] == "00"


def test_a_reply_without_its_method_is_shown_by_field_numbers(nri) -> None:
    assert 'fields by number {"2": 137}' in nri("decode", CONFIGURED).stdout
    assert 'ConfigureResponse {"events": 137}' in nri("decode", CONFIGURED, "--method", "Plugin/Configure").stdout


def test_a_status_is_shown_with_its_name(nri) -> None:
    data = mux.cut(1, frames.pack(1, frames.RESPONSE, encode_response(b"", 12, "method Foo")))
    assert "status 12 Unimplemented: method Foo" in nri("decode", data.hex()).stdout


def test_plain_ttrpc_is_recognized(nri) -> None:
    data = request("StopContainer", m.StopContainerRequest(container=m.Container(id="c")))
    result = nri("decode", data.hex())
    assert result.stdout.startswith("       0    ttRPC request, stream 1")
    assert '{"container": {"id": "c"}}' in result.stdout


def test_garbage_between_frames_is_reported_with_its_offset_and_skipped(nri) -> None:
    result = nri("decode", REGISTER + "deadbeef00" + CONFIGURE)
    assert result.returncode == 1
    assert "      90    broken: not a mux frame (connection 3735928559, 0 bytes); 5 bytes left out\n" in result.stdout
    assert "ConfigureRequest" in result.stdout


@pytest.mark.parametrize(
    ("capture", "reason"),
    [
        ("xyz", 'xyz: no such file, and not hex: "x" is not a hex digit'),
        ("abc", "abc: no such file, and not hex: an odd number of digits"),
    ],
)
def test_a_capture_that_is_neither_file_nor_hex_is_an_error(nri, capture: str, reason: str) -> None:
    result = nri("decode", capture)
    assert (result.returncode, result.stderr) == (2, f"error: {reason}\n")
