"""Synchronization of the runtime's state in one message or in parts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nri.adaptation.peers.synchronize import ENVELOPE_BYTES, hand_over, parts
from nri.api import messages as m
from nri.errors import NriError, RemoteProtocolError
from nri.testing import make_container, make_pod
from nri.ttrpc.frames import MAX_DATA


def decoded(pods: list[m.PodSandbox], containers: list[m.Container]) -> list[tuple[m.SynchronizeRequest, bool]]:
    return [(m.SynchronizeRequest.FromString(part), more) for part, more in parts(pods, containers)]


def big(count: int, size: int) -> list[m.Container]:
    return [make_container(annotations={"padding": "x" * size}) for _ in range(count)]


def test_a_state_that_fits_is_sent_in_one_message_for_old_plugins() -> None:
    pods, containers = [make_pod()], big(40, 100_000)
    ((request, more),) = decoded(pods, containers)
    assert not more
    assert not request.more
    assert [len(request.pods), len(request.containers)] == [1, 40]


def test_an_empty_state_is_one_empty_message() -> None:
    assert list(parts([], [])) == [(b"", False)]


def test_a_larger_state_is_sent_in_complete_parts_in_order() -> None:
    pods, containers = [make_pod() for _ in range(30)], big(100, 60_000)
    requests = decoded(pods, containers)
    assert len(requests) > 2
    assert [request.more for request, _ in requests] == [more for _, more in requests]
    assert [more for _, more in requests] == [True] * (len(requests) - 1) + [False]
    assert [pod for request, _ in requests for pod in request.pods] == pods
    assert [container for request, _ in requests for container in request.containers] == containers
    assert all(request.ByteSize() <= MAX_DATA - ENVELOPE_BYTES for request, _ in requests)


def test_an_oversized_object_is_a_separate_part() -> None:
    containers = big(3, 2_000_000)
    requests = decoded([], containers)
    assert [len(request.containers) for request, _ in requests] == [1, 1, 1]


def answering(*, echo: bool, updates: int = 0) -> object:
    def call(part: bytes, deadline: float, meanwhile: Callable[[], None]) -> bytes:
        meanwhile()
        more = m.SynchronizeRequest.FromString(part).more
        reply = m.SynchronizeResponse(more=more and echo)
        for number in range(0 if more else updates):
            reply.update.add(container_id=f"c{number}")
        encoded: bytes = reply.SerializeToString()
        return encoded

    return call


def test_the_updates_of_the_last_reply_are_returned() -> None:
    call = answering(echo=True, updates=2)
    updates = hand_over(call, [], big(10, 600_000), 5.0)  # type: ignore[arg-type]
    assert [update.container_id for update in updates] == ["c0", "c1"]


def test_a_slow_plugin_has_at_most_ten_timeouts_for_all_parts() -> None:
    """Events for it wait meanwhile."""
    now = [0.0]
    deadlines: list[float] = []

    def call(part: bytes, deadline: float, meanwhile: Callable[[], None]) -> bytes:
        deadlines.append(deadline)
        now[0] += 0.9
        meanwhile()
        encoded: bytes = m.SynchronizeResponse(more=m.SynchronizeRequest.FromString(part).more).SerializeToString()
        return encoded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nri.adaptation.peers.synchronize.monotonic", lambda: now[0])
        hand_over(call, [], big(20, 600_000), 1.0)
    assert len(deadlines) == 20
    assert deadlines[1] == 1.9
    assert max(deadlines) == 10.0


def test_a_plugin_without_support_for_parts_is_an_error_with_the_references_text() -> None:
    call = answering(echo=False)
    with pytest.raises(RemoteProtocolError, match="plugin does not handle split sync requests"):
        hand_over(call, [], big(10, 600_000), 5.0)  # type: ignore[arg-type]


def test_an_unreadable_reply_is_an_error_of_the_plugin() -> None:
    with pytest.raises(RemoteProtocolError, match="the reply to Synchronize is invalid"):
        hand_over(lambda part, deadline, meanwhile: b"\xff\xff", [], [], 5.0)


def test_the_next_part_is_encoded_while_the_plugin_reads_the_previous_one() -> None:
    encoded = 0
    steps: list[tuple[int, int]] = []

    class Counted:
        def SerializeToString(self) -> bytes:
            nonlocal encoded
            encoded += 1
            return bytes(1_500_000)

    def call(part: bytes, deadline: float, meanwhile: Callable[[], None]) -> bytes:
        before = encoded
        meanwhile()
        steps.append((before, encoded))
        return b"\x10\x01"

    hand_over(call, [], [Counted()] * 6, 5.0)  # type: ignore[list-item]
    # Three exceed a message, so it is to be parts; of each part the one behind it has to be known.
    assert steps == [(3, 3), (3, 4), (4, 5), (5, 6), (6, 6), (6, 6)]


@pytest.mark.parametrize("times", [0, 1, 2], ids=["answered in its place", "called", "called again"])
def test_parts_stay_in_order_if_an_interceptor_repeats_a_call(times: int) -> None:
    ids: list[str] = []

    def call(part: bytes, deadline: float, meanwhile: Callable[[], None]) -> bytes:
        for _ in range(times):
            meanwhile()
        request = m.SynchronizeRequest.FromString(part)
        ids.extend(container.id for container in request.containers)
        return b"\x10\x01" if request.more else b""

    everything = big(12, 600_000)
    hand_over(call, [], everything, 5.0)
    assert ids == [entry.id for entry in everything]


def test_a_state_that_cannot_be_encoded_is_an_error_of_the_runtime() -> None:
    class Broken:
        def SerializeToString(self) -> bytes:
            raise ValueError("not valid UTF-8")

    containers = [*big(10, 600_000), Broken()]
    with pytest.raises(NriError, match="cannot be encoded: not valid UTF-8"):
        hand_over(answering(echo=True), [], containers, 5.0)  # type: ignore[arg-type]


def test_an_oversized_reply_is_refused_before_decoding() -> None:
    encoded = m.SynchronizeResponse(update=[m.ContainerUpdate()] * 50).SerializeToString()
    assert len(hand_over(lambda part, deadline, meanwhile: encoded, [], [], 5.0, max_entries=50)) == 50
    assert len(hand_over(lambda part, deadline, meanwhile: encoded, [], [], 5.0)) == 50
    with pytest.raises(RemoteProtocolError, match="the reply to Synchronize has more than 49 entries"):
        hand_over(lambda part, deadline, meanwhile: encoded, [], [], 5.0, max_entries=49)


@pytest.mark.parametrize("entry", [True, False])
def test_synchronize_timeout_per_message(entry: bool) -> None:
    """`Rules.synchronize_timeout_per_message` is `timeout_per_part` of `hand_over`."""
    deadlines: list[float] = []

    def call(part: bytes, deadline: float, meanwhile: Callable[[], None]) -> bytes:
        import time

        deadlines.append(deadline)
        time.sleep(0.002)
        meanwhile()
        more = m.SynchronizeRequest.FromString(part).more
        encoded: bytes = m.SynchronizeResponse(more=more).SerializeToString()
        return encoded

    containers = [make_container(annotations={"padding": "x" * 500_000}) for _ in range(10)]
    hand_over(call, [], containers, 5.0, timeout_per_part=entry)
    assert len(deadlines) > 3
    assert len(set(deadlines)) == (len(deadlines) if entry else 1)
