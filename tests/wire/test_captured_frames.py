"""Frames captured from Go and Rust peers: we read all of them and write the same bytes.

The files are in captured/, made by capture.py; those named v0.12.2 are the protocol document's examples.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from nri.api import messages
from nri.api.events import EVENTS
from nri.mux import frames as mux
from nri.mux.demux import Demux
from nri.ttrpc import envelope
from nri.ttrpc import frames as ttrpc
from tests.wire.frames import FOLDER, Frame, read

NRI_FILES = sorted(FOLDER.glob("*.hex"))
TTRPC_FILES = sorted((FOLDER / "ttrpc").glob("*.hex"))
PARTS = FOLDER / "parts" / "v0.12.5-Synchronize.hex"
EMPTY_REPLIES = {"RegisterPlugin": "Empty", "StateChange": "Empty"}
# Go writes these maps' entries in random order.
SEVERAL_MAP_ENTRIES = {"v0.12.2-CreateContainer-reply", "v0.12.5-ValidateContainerAdjustment"}
REQUESTS = {"StateChange": "StateChangeEvent"}


class Message:
    """One ttRPC message with where it came from."""

    def __init__(self, direction: str, conn: int, frame: tuple[int, int, int, bytes | None, int]) -> None:
        self.direction, self.conn = direction, conn
        self.stream, self.kind, self.flags, data, _ = frame
        assert data is not None, "a captured message is never too long"
        self.data = data

    def bytes(self) -> bytes:
        """As we write it."""
        return ttrpc.pack(self.stream, self.kind, self.data, self.flags)


def decode(frames: list[Frame], *, with_mux: bool = True, step: int = 1 << 30) -> list[Message]:
    """Through our readers, `step` bytes at a time."""
    demuxes: defaultdict[str, Demux] = defaultdict(lambda: Demux((1, 2)))
    readers: defaultdict[tuple[str, int], ttrpc.FrameReader] = defaultdict(ttrpc.FrameReader)
    matches = []
    for frame in frames:
        for at in range(0, len(frame.data), step):
            piece = frame.data[at : at + step]
            chunks = demuxes[frame.direction].receive(piece) if with_mux else [(0, piece)]
            for conn, chunk in chunks:
                received = readers[frame.direction, conn].receive(chunk)
                matches += [Message(frame.direction, conn, entry) for entry in received]
    return matches


def method_of(path: Path) -> str:
    return path.read_text().splitlines()[0].rpartition("/")[2]


def payload_class(method: str, *, request: bool) -> Any:
    name = REQUESTS.get(method, method + "Request") if request else EMPTY_REPLIES.get(method, method + "Response")
    return getattr(messages, name)


@pytest.mark.parametrize("path", NRI_FILES, ids=lambda path: path.stem)
def test_a_captured_call_is_written_with_the_same_bytes(path: Path) -> None:
    frames = read(path)
    decoded = decode(frames)
    assert decoded, "the file holds no message"
    by_direction: defaultdict[str, bytes] = defaultdict(bytes)
    for message in decoded:
        by_direction[message.direction] += mux.cut(message.conn, message.bytes())
    for direction, local in by_direction.items():
        text = b"".join(frame.data for frame in frames if frame.direction == direction)
        assert local == text, f"{direction}: we would frame this message differently"


@pytest.mark.parametrize("path", NRI_FILES, ids=lambda path: path.stem)
def test_a_captured_call_is_read_one_byte_at_a_time(path: Path) -> None:
    frames = read(path)
    complete = [message.bytes() for message in decode(frames)]
    assert [message.bytes() for message in decode(frames, step=1)] == complete


@pytest.mark.parametrize("path", [*NRI_FILES, *TTRPC_FILES], ids=lambda path: path.stem)
def test_a_captured_envelope_is_encoded_the_same(path: Path) -> None:
    for message in decode(read(path), with_mux=path in NRI_FILES):
        if message.kind == ttrpc.REQUEST:
            request = envelope.decode_request(message.data)
            assert f"# {request.service}/{request.method}" == path.read_text().splitlines()[0]
            prefix = envelope.request_prefix(request.service, request.method)
            local = envelope.encode_request(prefix, request.payload, request.timeout_ns, request.metadata)
        else:
            response = envelope.decode_response(message.data)
            local = envelope.encode_response(response.payload, response.code, response.message)
        assert _normal(local, message) == _normal(message.data, message)


def _normal(data: bytes, message: Message) -> bytes:
    """The Rust library writes an empty status where we and Go write none; both mean OK."""
    return data.removeprefix(b"\x0a\x00") if message.kind == ttrpc.RESPONSE else data


@pytest.mark.parametrize("path", NRI_FILES, ids=lambda path: path.stem)
def test_a_captured_message_is_serialised_the_same(path: Path) -> None:
    method = method_of(path)
    for message in decode(read(path)):
        request = message.kind == ttrpc.REQUEST
        payload = _payload(message)
        parsed = payload_class(method, request=request).FromString(payload)
        encoded = parsed.SerializeToString(deterministic=True)
        if path.stem in SEVERAL_MAP_ENTRIES:
            assert type(parsed).FromString(encoded) == parsed
            assert sorted(encoded) == sorted(payload)
        else:
            assert encoded == payload
        assert not _unknown(parsed), "our messages lack a field that the reference sends"


def _payload(message: Message) -> bytes:
    if message.kind == ttrpc.REQUEST:
        return envelope.decode_request(message.data).payload
    return envelope.decode_response(message.data).payload


def _unknown(message: Any) -> bool:
    copy = type(message).FromString(message.SerializeToString())
    before = copy.SerializeToString()
    copy.DiscardUnknownFields()
    return bool(copy.SerializeToString() != before)


def test_every_call_of_both_services_is_captured() -> None:
    methods = {method_of(path) for path in NRI_FILES}
    expected = {event.rpc for event in EVENTS} | {"RegisterPlugin", "UpdateContainers", "Configure", "Synchronize"}
    assert expected <= methods, f"not captured: {expected - methods}"


def test_an_old_plugin_answers_new_calls_with_unimplemented() -> None:
    (_, answer) = decode(read(FOLDER / "old-plugin-RunPodSandbox.hex"))
    assert envelope.decode_response(answer.data).code == 12


def test_a_failing_handler_is_an_unknown_status_with_its_text() -> None:
    (_, answer) = decode(read(FOLDER / "v0.12.5-StartContainer-error.hex"))
    response = envelope.decode_response(answer.data)
    assert (response.code, response.message) == (2, "boom")


def test_a_long_request_is_split_into_a_frame_of_4096_bytes_and_the_rest() -> None:
    lengths = [len(frame.data) - 8 for frame in read(FOLDER / "v0.12.5-CreateContainer-large.hex")][:2]
    assert lengths[0] == mux.MAX_FIRST_FRAME
    assert lengths[1] > mux.MAX_FIRST_FRAME


def test_a_synchronization_in_parts_has_two_frames_per_part_and_replies_repeat_more() -> None:
    requests, answers = [], []
    for frame in read(PARTS):
        length = int.from_bytes(frame.data[4:8], "big")
        if frame.direction == "R->P":
            requests.append((length, frame.data[8:]))
        else:
            answers += decode([frame])
    totals = []
    while requests:
        length, start = requests.pop(0)
        total = ttrpc.HEADER_LENGTH + int.from_bytes(start[:4], "big")
        assert total - ttrpc.HEADER_LENGTH <= ttrpc.MAX_DATA
        if total > mux.MAX_FIRST_FRAME:
            length += requests.pop(0)[0]
        assert length == total, "a part is one frame of 4096 bytes and one with the rest"
        totals.append(total)
    more = [messages.SynchronizeResponse.FromString(_payload(answer)).more for answer in answers]
    assert len(totals) == len(more) > 1
    assert more == [True] * (len(more) - 1) + [False]
