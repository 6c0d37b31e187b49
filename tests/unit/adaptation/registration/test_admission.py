"""Plugins that join concurrently or reconnect all the time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.adaptation.containers.inventory import Inventory
from nri.adaptation.peers.state import Signal, State
from nri.adaptation.peers.turns import FifoLock
from nri.adaptation.registration.admission import Admission
from nri.adaptation.registration.sync_gate import SyncGate
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.adapting import RawPlugin, register, response
from tests.support.waiting import wait_for


class Snapshots:
    """Stands in for the runtime's callback: counts the calls, and takes its time."""

    def __init__(self, runtime: FakeRuntime, seconds: float = 0.0) -> None:
        self.calls = 0
        self.seconds = seconds
        self.entered, self.go = threading.Event(), threading.Event()
        self.go.set()
        admission = parts_of(runtime.adaptation).handshake.admission
        self._original, admission.snapshot = admission.snapshot, self

    def __call__(self) -> object:
        self.calls += 1
        self.entered.set()
        self.go.wait(20)
        time.sleep(self.seconds)
        return self._original()


def configured(runtime: FakeRuntime, number: int) -> RawPlugin:
    """A plugin that has answered Configure and waits for the state."""
    raw = RawPlugin(runtime, f"raw{number}")
    answer_configure(raw)
    return raw


def answer_configure(raw: RawPlugin) -> None:
    raw.sock.sendall(register(raw.name, raw.idx))
    raw.wait_for(b"Configure")
    raw.sock.sendall(response(1, m.ConfigureResponse(events=raw.events)))


def waiting(runtime: FakeRuntime) -> int:
    return len(parts_of(runtime.adaptation).handshake.admission.waiting)


@pytest.fixture
def patient() -> Iterator[FakeRuntime]:
    """A runtime whose right of way and patience are longer than any test: only a turn lets anybody in."""
    with FakeRuntime(request_timeout_s=60.0) as runtime:
        yield runtime


def test_one_snapshot_serves_all_joining_plugins(patient: FakeRuntime) -> None:
    snapshots = Snapshots(patient)
    with patient.adaptation.block_sync():
        raws = [configured(patient, number) for number in range(12)]
        wait_for(lambda: waiting(patient) == len(raws), "all wait")
    for raw in raws:
        raw.wait_for(b"Synchronize")
        raw.sock.sendall(response(3))
    assert patient.adaptation.ready([raw.label for raw in raws], 20)
    assert snapshots.calls == 1
    for raw in raws:
        raw.close()


def test_a_plugin_that_comes_after_the_snapshot_gets_a_newer_one(patient: FakeRuntime) -> None:
    snapshots = Snapshots(patient)
    snapshots.go.clear()
    first = configured(patient, 1)
    assert snapshots.entered.wait(20)
    second = configured(patient, 2)
    wait_for(lambda: waiting(patient) == 1, "the second one waits")
    patient.containers["late"] = make_container(id="late")
    snapshots.go.set()
    assert second.wait_for(b"late")
    assert snapshots.calls == 2
    for raw in (first, second):
        raw.close()


def test_plugins_behind_a_leaving_leader_still_join(patient: FakeRuntime) -> None:
    with patient.adaptation.block_sync():
        leader = configured(patient, 1)
        wait_for(lambda: waiting(patient) == 1, "the leader waits")
        follower = configured(patient, 2)
        wait_for(lambda: waiting(patient) == 2, "the follower waits")
        leader.close()
        wait_for(lambda: patient.health("10-raw1").state == "gone", "the leader is gone")
    follower.wait_for(b"Synchronize")
    follower.close()


def test_a_connection_whose_end_is_noticed_while_the_runtime_stops_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeRuntime() as runtime:
        registry = parts_of(runtime.adaptation).registry
        remove, noticed = registry.monitor.remove, threading.Event()

        def remove_slowly(endpoint: Any) -> None:
            noticed.set()
            time.sleep(0.3)
            remove(endpoint)

        monkeypatch.setattr(registry.monitor, "remove", remove_slowly)
        raw = configured(runtime, 1)
        raw.wait_for(b"Synchronize")
        (peer,) = registry.peers()
        raw.close()
        assert noticed.wait(20)
    assert peer.endpoint.fileno() == -1


def test_plugins_that_leave_while_they_wait_leave_no_thread(patient: FakeRuntime) -> None:
    with patient.adaptation.block_sync():
        before = threading.active_count()
        for number in range(8):
            configured(patient, number).close()
        wait_for(lambda: not waiting(patient), "nobody waits any more")
        wait_for(lambda: threading.active_count() <= before, "no thread waits for a plugin that has left")


def test_a_failed_snapshot_is_an_error_for_all_waiting_plugins_and_the_next_one_succeeds(patient: FakeRuntime) -> None:
    admission = parts_of(patient.adaptation).handshake.admission
    original = admission.snapshot

    def broken() -> object:
        raise OSError("no state")

    admission.snapshot = broken
    with patient.adaptation.block_sync():
        raws = [configured(patient, number) for number in range(2)]
        wait_for(lambda: waiting(patient) == 2, "both wait")
    for number, raw in enumerate(raws):
        assert raw.ended()
        assert "no state" in patient.health(f"10-raw{number}").last_error
        raw.close()
    admission.snapshot = original
    RawPlugin(patient, "again").join().close()


class Comers:
    """Connections that join, hang up and come back at once, for as long as the test runs."""

    def __init__(self, runtime: FakeRuntime, count: int) -> None:
        self.runtime = runtime
        self.joins = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]

    def _run(self, number: int) -> None:
        while not self._stop.is_set():
            raw = configured(self.runtime, number)
            raw.wait_for(b"Synchronize")
            self.joins += 1
            raw.close()
            label = f"10-raw{number}"
            wait_for(lambda label=label: self.runtime.health(label).state == "gone", "it is gone")

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Watches(nri.Plugin):
    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...


def test_reconnecting_plugins_delay_neither_requests_nor_each_other(patient: FakeRuntime) -> None:
    patient.add(Watches(), idx="50")
    snapshots = Snapshots(patient, 0.02)
    adaptation = patient.adaptation
    pod, container = make_pod(), make_container(id="c")
    adaptation.create_container(pod, container)
    worst_s = 0.0
    with Comers(patient, 16) as comers:
        wait_for(lambda: snapshots.calls >= 2, "they have begun")
        before = comers.joins
        for _ in range(40):
            began = time.monotonic()
            with adaptation.block_sync(timeout_s=20):
                adaptation.start_container(pod, container, timeout_s=20)
            adaptation.start_container(pod, container, timeout_s=20)
            adaptation.stop_container(pod, container, timeout_s=20)
            worst_s = max(worst_s, time.monotonic() - began)
        wait_for(lambda: comers.joins > before + 16, "the others join as well")
    assert worst_s < 20, "half of the shortest deadline that anybody has here"


def test_continuous_events_do_not_keep_plugins_from_joining(patient: FakeRuntime) -> None:
    """There is always an active event, and yet plugins join again and again."""

    class Slow(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            time.sleep(0.005)

    patient.add(Slow(), idx="50")
    adaptation = patient.adaptation
    stop = threading.Event()
    finished = [0] * 8

    def events(number: int) -> None:
        pod, container = make_pod(id=f"p{number}"), make_container(id=f"c{number}")
        while not stop.is_set():
            adaptation.start_container(pod, container)
            finished[number] += 1

    threads = [threading.Thread(target=events, args=(number,)) for number in range(len(finished))]
    for thread in threads:
        thread.start()
    try:
        with Comers(patient, 2) as comers:
            for _ in range(3):
                before, events_before = comers.joins, list(finished)
                wait_for(lambda before=before: comers.joins >= before + 2, "plugins join")
                wait_for(
                    lambda events_before=events_before: all(
                        a > b for a, b in zip(finished, events_before, strict=True)
                    ),
                    "every thread's events continue",
                )
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_plugins_that_never_accept_the_state_leave_half_of_the_time_to_events() -> None:
    """Each may take the request timeout, and events wait for it, but not for one plugin after the other."""
    with FakeRuntime(request_timeout_s=0.2) as runtime:
        runtime.timeout(20).add(Watches(), idx="50").timeout(0.2)
        adaptation = runtime.adaptation
        stop = threading.Event()

        def come_back(number: int) -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                raw = RawPlugin(runtime, f"raw{100 * turn + number}")
                with raw.sock, contextlib.suppress(OSError):  # a slow machine may even be late to configure it
                    answer_configure(raw)
                    raw.ended()  # it never answers Synchronize

        threads = [threading.Thread(target=come_back, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        wait_for(
            lambda: parts_of(adaptation).chain.active < len(parts_of(adaptation).chain.peers),
            "one of them takes its time",
        )
        quick = 0
        for _ in range(2000):
            peers = len(parts_of(adaptation).chain.peers)
            adaptation.start_container(make_pod(), make_container(id="c"))
            quick += peers == 1
            if quick > 40:
                break
        stop.set()
        for thread in threads:
            thread.join()
    assert quick > 40, "events pass while none of them is in the way"


def test_a_leaving_follower_does_not_block_its_leader(patient: FakeRuntime) -> None:
    with patient.adaptation.block_sync():
        leader = configured(patient, 1)
        wait_for(lambda: waiting(patient) == 1, "the leader waits")
        follower = configured(patient, 2)
        wait_for(lambda: waiting(patient) == 2, "the follower waits")
        follower.close()
        wait_for(lambda: waiting(patient) == 1, "the follower waits no more")
    leader.wait_for(b"Synchronize")
    leader.close()


class Waits:
    """A plugin that waits to join, as far as admission needs it."""

    def __init__(self, state: State = State.CONFIGURED) -> None:
        self.state = state
        self.lock = FifoLock()
        self.signals: list[Signal] = []

    def signal(self, signal: Signal) -> None:
        self.signals.append(signal)


def admitting(
    snapshot: Any = lambda: ([], []), joined: Any = lambda peer: None, inventory: Inventory | None = None
) -> tuple[Admission, Any]:
    """An admission with its own chain."""
    peers: list[Any] = []
    chain = SimpleNamespace(gate=SyncGate(), peers=peers, add=peers.append, refresh=lambda: None)
    return Admission(chain, inventory or Inventory(), snapshot, joined), chain  # type: ignore[arg-type]


def test_an_interrupted_snapshot_ends_all_waits_and_reaches_the_caller() -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    admission, chain = admitting(interrupted)
    peer: Any = Waits()
    with pytest.raises(KeyboardInterrupt):
        admission.enter(peer)
    assert chain.peers == []
    with pytest.raises(KeyboardInterrupt):
        admission.enter(peer)  # the gate is free again


def test_a_plugin_that_cannot_enter_the_chain_fails_alone_and_the_state_is_kept() -> None:
    def joined(peer: Any) -> None:
        raise ValueError("its policy cannot be worked out")

    inventory = Inventory()
    state = [make_pod(id="p")], [make_container(id="c", pod_sandbox_id="p")]
    admission, _ = admitting(lambda: state, joined, inventory)
    peer: Any = Waits()
    with pytest.raises(ValueError, match="worked out"):
        admission.enter(peer)
    assert peer.lock.place() is None, "its lock is free"
    assert "c" in inventory.known


def test_without_waiting_plugins_no_state_is_read() -> None:
    calls: list[int] = []
    admission, chain = admitting(lambda: (calls.append(1), ([], []))[1])
    peer: Any = Waits(State.GONE)
    assert admission.enter(peer) is None
    assert (calls, chain.peers) == ([], [])


def test_a_leader_that_leaves_continues_for_a_new_follower() -> None:
    admission, chain = admitting()
    leaves: Any = Waits()
    comes: Any = Waits()
    tried: list[int] = []
    original = chain.gate.join

    def join(stopping: Any) -> bool:
        tried.append(1)
        if len(tried) > 1:
            return bool(original(stopping))
        leaves.state = State.GONE
        thread = threading.Thread(target=lambda: entries.append(admission.enter(comes)))
        thread.start()
        wait_for(lambda: len(admission.waiting) == 2, "another one waits")
        threads.append(thread)
        return False

    entries: list[Any] = []
    threads: list[threading.Thread] = []
    chain.gate = SimpleNamespace(join=join, joined=chain.gate.joined)
    assert admission.enter(leaves) is None
    threads[0].join()
    assert [entry is not None for entry in entries] == [True]
    assert chain.peers == [comes]
