"""A link applies its faults to each direction separately."""

from __future__ import annotations

import time

from nri.testing.wire import Link
from tests.support.waiting import wait_for


def test_a_link_delays_splits_corrupts_cuts_and_swallows() -> None:
    with Link() as link:
        link.to_plugin.split(2)
        link.to_plugin.corrupt(1, mask=1)
        link.runtime.sendall(b"abcdef")
        received = b""
        while len(received) < 6:
            received += link.plugin.recv(16)
        assert received == b"accdef"
        link.to_plugin.drop()
        link.runtime.sendall(b"gone")
        wait_for(lambda: link.to_plugin.dropped == 4, "it is swallowed")
        link.to_plugin.drop(False)
        link.to_plugin.cut_after(2)
        link.runtime.sendall(b"xyz")
        received = b""
        while data := link.plugin.recv(16):
            received += data
        assert received == b"xy"


def test_a_link_can_be_closed_in_one_direction() -> None:
    with Link() as link:
        link.to_plugin.half_close()
        assert link.plugin.recv(1) == b""
        link.plugin.sendall(b"still here")
        assert link.runtime.recv(16) == b"still here"


def test_a_delay_applies_to_all_bytes() -> None:
    with Link() as link:
        link.to_runtime.delay(0.05)
        began = time.monotonic()
        link.plugin.sendall(b"late")
        assert link.runtime.recv(16) == b"late"
        assert time.monotonic() - began >= 0.05
        assert link.to_runtime.passed == 4


def test_a_cut_ends_both_directions_at_once() -> None:
    with Link() as link:
        link.cut()
        assert link.plugin.recv(1) == b"" == link.runtime.recv(1)
