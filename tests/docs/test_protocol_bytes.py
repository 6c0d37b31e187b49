"""The byte examples of docs/protocol equal what `nri.mux`, `nri.ttrpc` and `nri.api` write and read.

A block ```` ```text bytes=NAME ```` holds one whole message as it travels: hex digits, then after two blanks what they
mean. `MESSAGES` has the message of each name.
"""

import re
from pathlib import Path

import pytest

import nri
from nri.api import messages as m
from nri.api.naming import PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.mux import Demux
from nri.mux.frames import cut
from nri.ttrpc import envelope, frames
from tests.support.pages import read_blocks

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs/protocol").glob("*.md"))
LINE = re.compile(r"(?P<hex>(?:[0-9a-f]{2,} ?)+)(?:  .*)?")


def request(conn_id, stream_id, service, method, message, timeout_ns):
    """A request as it travels."""
    prefix = envelope.request_prefix(service, method)
    data = envelope.encode_request(prefix, message.SerializeToString(deterministic=True), timeout_ns)
    return cut(conn_id, frames.pack(stream_id, frames.REQUEST, data))


def reply(conn_id, stream_id, message=None, *, code=0, text=""):
    """A reply as it travels."""
    payload = b"" if message is None else message.SerializeToString(deterministic=True)
    data = envelope.encode_response(payload, code, text)
    return cut(conn_id, frames.pack(stream_id, frames.RESPONSE, data))


MASK = nri.EventMask.of("RunPodSandbox", "CreateContainer", "UpdateContainer")
POD = m.PodSandbox(id="pod0", name="web", uid="u0", namespace="default")
ADJUSTMENT = nri.Adjustment().add_env("POD_NAME", "web").remove_annotation("k0").set_cpu_shares(5)
MESSAGES = {
    "register": request(
        2,
        1,
        RUNTIME_SERVICE,
        "RegisterPlugin",
        m.RegisterPluginRequest(plugin_name="foo", plugin_idx="10", NRI_version="v0.12.5"),
        5_000_000_000,
    ),
    "register-reply": reply(2, 1),
    "configure": request(
        1,
        1,
        PLUGIN_SERVICE,
        "Configure",
        m.ConfigureRequest(
            runtime_name="rt",
            runtime_version="v1",
            registration_timeout=5000,
            request_timeout=2000,
            NRI_version="v0.12.5",
        ),
        2_000_000_000,
    ),
    "configure-reply": reply(1, 1, m.ConfigureResponse(events=MASK)),
    "synchronize-part": reply(1, 3, m.SynchronizeResponse(more=True)),
    "run-pod": request(1, 5, PLUGIN_SERVICE, "RunPodSandbox", m.RunPodSandboxRequest(pod=POD), 2_000_000_000),
    "create-reply": reply(1, 9, m.CreateContainerResponse(adjust=ADJUSTMENT.message)),
    "error-reply": reply(1, 9, code=2, text="boom"),
    "state-change": request(
        1, 5, PLUGIN_SERVICE, "StateChange", m.StateChangeEvent(event=m.Event.RUN_POD_SANDBOX, pod=POD), 2_000_000_000
    ),
}


def written(text: str) -> bytes:
    """The bytes of a block. Every line is hex, or an error."""
    data = b""
    for line in text.splitlines():
        if not line.strip():
            continue
        match = LINE.fullmatch(line)
        assert match, f"not hex digits and then words: {line!r}"
        data += bytes.fromhex(match["hex"])
    return data


BLOCKS = {
    block.action.removeprefix("bytes="): (page, block)
    for page in PAGES
    for block in read_blocks(page)
    if block.action.startswith("bytes=")
}


def test_every_message_has_a_block_and_every_block_a_message() -> None:
    assert sorted(BLOCKS) == sorted(MESSAGES), "docs/protocol and MESSAGES must name the same blocks"


@pytest.mark.parametrize("name", MESSAGES)
def test_the_library_writes_the_bytes_on_the_page(name: str) -> None:
    page, block = BLOCKS[name]
    assert written(block.text).hex(" ") == MESSAGES[name].hex(" "), f"{page.name}:{block.line}"


@pytest.mark.parametrize("name", MESSAGES)
def test_the_library_reads_the_bytes_on_the_page_in_parts_of_any_size(name: str) -> None:
    demux, reader = Demux((1, 2)), frames.FrameReader()
    received = []
    for byte in MESSAGES[name]:
        for _, chunk in demux.receive(bytes([byte])):
            received += reader.receive(chunk)
    assert len(received) == 1, f"{name} is {len(received)} ttRPC messages, not one"
    _, kind, flags, data, _ = received[0]
    assert flags == 0
    decoded = envelope.decode_request(data) if kind == frames.REQUEST else envelope.decode_response(data)
    assert decoded.payload in MESSAGES[name]


def test_a_long_message_is_split_as_documented() -> None:
    message = frames.pack(1, frames.REQUEST, bytes(10168))
    sent = cut(1, message)
    assert sent[:8].hex() == "0000000100001000", "the first frame holds 4096 bytes"
    assert sent[8 + 4096 : 16 + 4096].hex() == "00000001000017c2", "the second frame holds all the rest"
