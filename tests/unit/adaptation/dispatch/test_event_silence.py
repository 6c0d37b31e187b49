"""A plugin that stays silent: the cost for the events that wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.adaptation.peers.peer import Peer
from nri.api.events import EventMask
from nri.errors import NriError
from nri.testing import FakeRuntime
from tests.support.adapting import RawPlugin
from tests.support.made_plugins import Mode, both
from tests.support.waiting import wait_for

THREADS = 4
#: Long enough for a thread of a busy machine to get its turn in it.
TIMEOUT_S = 0.3


class Asked:
    """Notes what plugins are asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        self.asked.append((plugin, event))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


@contextmanager
def waiting(runtime: FakeRuntime, ask: Callable[[], Any], timeout_s: float) -> Iterator[Peer]:
    """Four events that wait for the one plugin that there is, and are let go at the end.

    The timeout counts from then on. While they wait, it is long: an event that waits for two timeouts loses its turn,
    and a busy machine may take as long as that to start four threads.
    """
    runtime.timeout(60)
    (peer,) = parts_of(runtime.adaptation).chain.peers
    peer.lock.wait(peer.lock.place(), time.monotonic() + 10)  # the thread that has let it join may have it still
    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    wait_for(lambda: peer.lock.waiting == THREADS, "all wait")
    runtime.timeout(timeout_s)
    yield peer
    peer.lock.release()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


@both
@pytest.mark.parametrize("fan_out", ["", "StartContainer"])
def test_silence_counts_for_all(mode: Mode, fan_out: str) -> None:
    """Of four waiting events, one has the whole timeout and one half of it; in the reference each has the whole."""
    reporter = Asked()
    policy = "[defaults]\nkeep_connected = true\nbreaker = false\n"
    options = {"fan_out": EventMask.of(fan_out)} if fan_out else {}
    with FakeRuntime(compat=mode, policy=policy, reporters=[reporter], **options) as runtime:
        raw = RawPlugin(runtime).join()
        reporter.asked.clear()
        with waiting(runtime, runtime.start_container, TIMEOUT_S) as peer:
            pass
        if mode == "default":
            assert reporter.asked == [("10-raw", "StartContainer")] * 2
            assert peer.breaker.silence_s == pytest.approx(1.5 * TIMEOUT_S), "the sum of both waits, not wall time"
            assert runtime.health("10-raw").missed == 1, "half a timeout is not another miss"
        else:
            assert reporter.asked == [("10-raw", "StartContainer")] * THREADS
            assert runtime.health("10-raw").missed == THREADS
        raw.close()


def test_a_request_without_remaining_time_fails_if_the_policy_requires_it() -> None:
    failures: list[NriError] = []
    policy = '["10-raw"]\nfail_request = true\nbreaker = false\n'
    with FakeRuntime(policy=policy) as runtime:
        raw = RawPlugin(runtime).join()

        def ask() -> None:
            try:
                runtime.start_container()
            except NriError as error:
                failures.append(error)

        with waiting(runtime, ask, 0.1):
            pass
        text = "plugin 10-raw failed to handle StartContainer request: "
        assert [str(failure).startswith(text) for failure in failures] == [True] * THREADS
        raw.close()


def test_a_plugin_that_pauses_briefly_loses_one_of_the_waiting_requests() -> None:
    calls: list[str] = []
    go = threading.Event()

    class HeldUp(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            calls.append(container.id)
            go.wait(30)

    with FakeRuntime() as runtime:
        runtime.add(HeldUp())
        with waiting(runtime, runtime.start_container, 2.0):
            watching = threading.Thread(
                target=lambda: (wait_for(lambda: runtime.health("10-held-up").state == "late", "late"), go.set())
            )
            watching.start()
        watching.join(30)
        assert len(calls) == THREADS
        assert (runtime.health("10-held-up").state, runtime.health("10-held-up").missed) == ("active", 0)


def test_a_plugin_that_answers_many_requests_slowly_loses_none() -> None:
    """Four times four fifths of a timeout: waiting behind answered requests costs nothing."""
    calls: list[str] = []

    class Slow(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            threading.Event().wait(0.6)
            calls.append(container.id)

    with FakeRuntime() as runtime:
        runtime.add(Slow())
        with waiting(runtime, runtime.start_container, 1.6) as peer:
            pass
        assert len(calls) == THREADS
        assert (runtime.health("10-slow").state, peer.breaker.silence_s) == ("active", 0.0)


@both
def test_the_silence_at_a_creation_counts_at_its_validation(mode: Mode) -> None:
    reporter = Asked()
    policy = "[defaults]\nkeep_connected = true\nbreaker = false\n"
    events = EventMask.of("CreateContainer", "ValidateContainerAdjustment")
    with FakeRuntime(compat=mode, policy=policy, reporters=[reporter]) as runtime:
        raw = RawPlugin(runtime, events=events).join()
        runtime.timeout(0.1)
        with pytest.raises(NriError, match="10-raw"):
            runtime.create_container()
        requests = [event for _, event in reporter.asked if event != "Synchronize"]
        assert requests == ["CreateContainer", "ValidateContainerAdjustment"]
        row = runtime.health("10-raw")
        assert (row.missed, "earlier events used" in row.last_error) == ((1, True) if mode == "default" else (2, False))
        raw.close()


def test_partial_misses_of_a_silent_plugin_open_the_breaker() -> None:
    """Fractions of misses add up."""
    policy = '[defaults]\nbreaker = { misses = 3, retry = "1h" }\n'
    with FakeRuntime(policy=policy) as runtime:
        raw = RawPlugin(runtime).join()
        rounds = 0
        while runtime.health("10-raw").state != "open":
            rounds += 1
            with waiting(runtime, runtime.start_container, TIMEOUT_S):
                pass
            assert rounds <= 3, "the breaker does not open"
        assert rounds == 2, "two rounds of one and a half timeouts are three misses"
        raw.close()
