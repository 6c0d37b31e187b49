"""Reads, writes and their deadlines, and busy polling before a read sleeps."""

import _socket
import os
import posix
import select
import signal
import threading
import time
from contextlib import closing

import pytest

from nri import stream
from nri.signals import Stop, wake_fd
from tests.support.signals import signal_in_a_wait


class Kernel:
    """Stands in for the kernel's poll and for the clock: a look in vain takes ten seconds, everything else no time."""

    def __init__(self):
        self.looks = 0
        self.readable = True
        self.now_s = 100.0
        self.late_s = 0.0

    def register(self, *_):
        pass

    def poll(self, _timeout):
        self.looks += 1
        if self.readable:
            self.now_s += self.late_s
            return [1]
        self.now_s += 10.0
        return []


@pytest.fixture
def pair(monkeypatch):
    created = []
    kernel = Kernel()
    real, thread_id = select.poll, threading.get_ident()
    monkeypatch.setattr(stream, "monotonic", lambda: kernel.now_s)
    # Threads that earlier tests have left behind may poll as well, and do not count.
    monkeypatch.setattr(select, "poll", lambda: kernel if threading.get_ident() == thread_id else real())

    def make(busy_poll_s=5.0):
        local, remote = _socket.socketpair()
        created.extend((local, remote))
        return stream.Stream(local, busy_poll_s=busy_poll_s), remote, kernel

    yield make
    for resource in created:
        resource.close()


def pause_after_polling_in_vain(one, peer, kernel):
    """How many reads do not poll after one that did so in vain."""
    kernel.readable = False
    for looks in (kernel.looks, kernel.looks + 1):
        reads = 0
        while kernel.looks == looks:
            short_reads(one, peer, 1)
            reads += 1
    return reads - 1


def short_reads(one, peer, count):
    for _ in range(count):
        peer.send(b"x")
        assert one.read(10, None) == b"x"


def test_a_first_read_sleeps(pair):
    one, peer, kernel = pair()
    short_reads(one, peer, 1)
    assert kernel.looks == 0, "a connection that nobody knows yet was polled"


def test_a_read_polls_after_short_waits(pair):
    one, peer, kernel = pair()
    short_reads(one, peer, 5)
    assert kernel.looks == 3, "the first two find out, the others poll"


def test_after_a_long_wait_reads_sleep_again(pair, monkeypatch):
    one, peer, kernel = pair()
    short_reads(one, peer, 1)
    with monkeypatch.context() as patched:
        times = iter((100.0, 200.0))
        patched.setattr(stream, "monotonic", lambda: next(times))
        short_reads(one, peer, 1)
    short_reads(one, peer, 2)
    assert kernel.looks == 0, "two short waits in a row are asked for, and there were not"


def test_each_poll_in_vain_doubles_the_pause_without_polling(pair):
    one, peer, kernel = pair()
    pauses = []
    for _ in range(10):
        kernel.readable, before = False, kernel.looks
        reads = 0
        while kernel.looks == before:
            short_reads(one, peer, 1)
            reads += 1
        pauses.append(reads - 1)
    assert pauses == [2, 2, 4, 8, 16, 32, 64, 128, 256, 256]


def test_a_slow_reply_does_not_shorten_the_pause(pair, monkeypatch):
    one, peer, kernel = pair()
    kernel.readable = False
    short_reads(one, peer, 30)
    kernel.readable, kernel.late_s = True, 4.0
    short_reads(one, peer, 100)
    assert pause_after_polling_in_vain(one, peer, kernel) == 32


def test_quick_replies_shorten_the_pause_again(pair):
    one, peer, kernel = pair()
    kernel.readable = False
    short_reads(one, peer, 30)
    kernel.readable = True
    short_reads(one, peer, 100)
    assert pause_after_polling_in_vain(one, peer, kernel) == 2


def test_with_busy_polling_disabled_no_read_polls(pair):
    one, peer, kernel = pair(busy_poll_s=0.0)
    short_reads(one, peer, 10)
    assert kernel.looks == 0


def test_on_one_core_no_read_polls(pair, monkeypatch):
    monkeypatch.setattr(stream, "sched_getaffinity", lambda pid: {0})
    one, peer, kernel = pair()
    short_reads(one, peer, 10)
    assert kernel.looks == 0, "the peer could not run while we poll"


def test_a_poll_notices_the_end_of_the_connection():
    local, peer = _socket.socketpair()
    with closing(local), closing(peer):
        one = stream.Stream(local, busy_poll_s=5.0)
        short_reads(one, peer, 3)
        peer.close()
        with pytest.raises(stream.ConnectionClosed):
            one.read(10, None)


def test_a_read_without_a_deadline_misses_no_signal_and_continues():
    local, remote = _socket.socketpair()
    with closing(local), closing(remote), signal_in_a_wait(signal.SIGTERM, 0.1):
        Stop(lambda: remote.send(b"stopped")).listen()
        assert stream.Stream(local, busy_poll_s=0.0, wake_fd=wake_fd()).read(10, None) == b"stopped"


@pytest.mark.parametrize("busy_poll_s", [0.0, 5.0])
def test_an_ignored_signal_does_not_end_a_read(busy_poll_s):
    local, remote = _socket.socketpair()
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with closing(local), closing(remote):
        try:
            Stop().listen()
            one = stream.Stream(local, busy_poll_s=busy_poll_s, wake_fd=wake_fd())
            short_reads(one, remote, 3)
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(stream.DeadlineExceeded):
                one.read(10, time.monotonic() + 0.05)
            os.kill(os.getpid(), signal.SIGTERM)
            remote.send(b"here")
            assert one.read(10, None) == b"here"
            os.kill(os.getpid(), signal.SIGTERM)
            remote.close()
            with pytest.raises(stream.ConnectionClosed):
                one.read(10, None)
        finally:
            signal.signal(signal.SIGTERM, before[0])
            signal.signal(signal.SIGINT, before[1])


def test_after_a_signal_a_read_waits_for_the_rest_of_its_time(monkeypatch):
    now, waits = [1000.0], []

    class Poll:
        """Each wait takes two seconds, and the first one is ended by a signal."""

        def register(self, *_): ...

        def poll(self, most_ms):
            waits.append(most_ms)
            now[0] += 2.0
            return [(wake_fd(), select.POLLIN)] if len(waits) == 1 else []

    real_poll, thread = select.poll, threading.get_ident()  # threads of earlier tests may still wait
    monkeypatch.setattr(select, "poll", lambda: Poll() if threading.get_ident() == thread else real_poll())
    monkeypatch.setattr(stream, "monotonic", lambda: now[0])
    local, remote = _socket.socketpair()
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with closing(local), closing(remote):
        try:
            Stop().listen()
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(stream.DeadlineExceeded):
                stream.Stream(local, wake_fd=wake_fd()).read(10, 1010.0)
        finally:
            signal.signal(signal.SIGTERM, before[0])
            signal.signal(signal.SIGINT, before[1])
    assert waits == [10_001, 8_001, 6_001, 4_001, 2_001]


def test_a_signal_just_before_a_wait_is_not_lost():
    local, remote = _socket.socketpair()
    with closing(local), closing(remote), signal_in_a_wait(signal.SIGINT, 0.1):
        signal.signal(signal.SIGINT, lambda *_: remote.send(b"it came"))
        began = time.monotonic()
        assert stream.Stream(local, busy_poll_s=0.0).read(10, began + 20.0) == b"it came"
        assert time.monotonic() - began < 15.0, "it looks up each second, else this waits until the deadline"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, 0.0003), (b"0", 0.0), (b"50", 5e-5), (b"5000", 0.0003), (b"-1", 0.0003), (b"x", 0.0003)],
)
def test_the_environment_sets_the_polling_time(monkeypatch, text, seconds):
    environ = dict(posix.environ)
    environ.pop(b"NRI_BUSY_POLL_US", None)
    if text is not None:
        environ[b"NRI_BUSY_POLL_US"] = text
    monkeypatch.setattr(stream, "environ", environ)
    assert stream.busy_poll_from_environment() == pytest.approx(seconds)


@pytest.fixture
def ticking():
    """A signal every 20 ms: system calls are interrupted, and begin again. Ends a test that would wait for ever."""
    remainder = [500]

    def tick(*_):
        remainder[0] -= 1
        if not remainder[0]:
            raise TimeoutError("still waiting after 500 signals")

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_signals_do_not_extend_the_deadline_of_a_read(ticking):
    local, remote = _socket.socketpair()
    with pytest.raises(stream.DeadlineExceeded):
        stream.Stream(local).read(10, time.monotonic() + 0.2)
    local.close()
    remote.close()


def test_signals_do_not_extend_the_deadline_of_a_write(ticking):
    local, remote = _socket.socketpair()
    one = stream.Stream(local)
    with pytest.raises(stream.SentInPart):
        one.write(bytes(8 << 20), time.monotonic() + 0.2)
    with pytest.raises(stream.DeadlineExceeded):
        one.write(b"x", time.monotonic() + 0.2)
    local.close()
    remote.close()
