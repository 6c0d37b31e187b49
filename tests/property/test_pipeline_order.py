"""Random plugins, delays, failures, joins and leaves: events arrive one at a time and in one order.

A stop may overtake waiting events of other pods, different ones in each plugin, but never those of its own container.
An event that has waited too long for its turn continues without that plugin, and may overtake events that still wait.
Whatever goes wrong between them, every event ends, and leaves nothing behind that a later one would wait for.
"""

from __future__ import annotations

import itertools
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nri
from nri.adaptation.adaptation import parts_of
from nri.adaptation.peers.event_request import EventRequest
from nri.adaptation.peers.peer import Peer
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import State
from nri.adaptation.peers.turns import FifoLock
from nri.api import messages as m
from nri.api.events import BY_METHOD, BY_RPC, EventMask
from nri.errors import DeadlineExceeded, PluginError
from nri.stub.session.session import Session
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Interceptor
from nri.ttrpc.endpoint import LATER
from nri.ttrpc.envelope import Request
from tests.support.waiting import wait_for

EVENTS = ("create_container", "start_container", "stop_container")
RPCS = [BY_METHOD[event].rpc for event in EVENTS]
#: The event that all plugins get at once, in half of the cases.
STARTS, NONE = EventMask.of("StartContainer"), EventMask(0)


class Watched(nri.Plugin):
    """Notes what it gets, and whether it was ever sent an event while it was at work on another one."""

    def __init__(self, behaviour: dict[str, tuple[int, bool]]) -> None:
        self.behaviour = behaviour
        self.order: list[str] = []
        self.synchronized: set[str] = set()
        self.inside = 0
        self.overlaps = 0

    def _handle(self, event: str, container: nri.Container) -> None:
        self.order.append(f"{event} {container.id}")
        delay_ms, fails = self.behaviour.get(event, (0, False))
        if delay_ms:
            time.sleep(delay_ms / 1000)
        self.inside -= 1
        if fails and container.id.endswith("3"):
            raise nri.Reject("no threes")

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.synchronized = {container.id for container in containers}

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._handle("create_container", container)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._handle("start_container", container)

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._handle("stop_container", container)


class Arrivals(Interceptor):
    """Reads on while the plugin is at work, as no session does by itself, to see what comes meanwhile."""

    def __init__(self, plugin: Watched) -> None:
        self.plugin = plugin

    def serve(self, request: Request, proceed: Callable[[Request], object]) -> object:
        if request.method not in RPCS:
            return proceed(request)
        self.plugin.inside += 1
        self.plugin.overlaps += self.plugin.inside > 1
        threading.Thread(target=proceed, args=(request,), daemon=True).start()
        return LATER


def watched_session(plugin: Watched, sock: socket.socket, **options: Any) -> Session:
    return Session(plugin, sock, interceptors=[Arrivals(plugin)], **options)


class OnlyCreate(Watched):
    """Subscribes to one event: it must not be overtaken by those that it does not get."""

    start_container = nri.Plugin.start_container
    stop_container = nri.Plugin.stop_container


@dataclass
class Scene:
    plugins: list[tuple[str, type[Watched], dict[str, tuple[int, bool]]]]
    callers: int
    containers: int
    joins_late: list[bool]
    leaves: list[bool]
    at_once: bool


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    count = draw(st.integers(1, 4))
    behaviour = st.dictionaries(st.sampled_from(EVENTS), st.tuples(st.integers(0, 2), st.booleans()), max_size=2)
    plugins = [
        (f"{draw(st.integers(0, 3)):02}", draw(st.sampled_from([Watched, OnlyCreate])), draw(behaviour))
        for _ in range(count)
    ]
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    return Scene(
        plugins, draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(flags), draw(flags), draw(st.booleans())
    )


class Play:
    """Callers that send events while plugins come and go."""

    def __init__(self, runtime: FakeRuntime, scene: Scene) -> None:
        self.runtime, self.scene = runtime, scene
        self.plugins = [kind(behaviour) for _, kind, behaviour in scene.plugins]
        self.created: set[str] = set()
        self.failures: list[BaseException] = []
        runtime.timeout(20)

    def add(self, late: bool) -> None:
        for number, plugin in enumerate(self.plugins):
            if self.scene.joins_late[number] == late:
                self.runtime.add(plugin, idx=self.scene.plugins[number][0], name=f"p{number}")

    def leave(self) -> None:
        for number, (index, _, _) in enumerate(self.scene.plugins):
            if self.scene.leaves[number] and not self.scene.joins_late[number]:
                self.runtime.disconnect(f"{index}-p{number}")

    def send(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        for event in EVENTS:
            try:
                getattr(self.runtime, event)(pod, container)
            except PluginError:
                continue
            if event == "create_container":
                self.created.add(container.id)

    def call(self, caller: int) -> None:
        try:
            for number in range(self.scene.containers):
                self.send(make_pod(), make_container(id=f"c{caller}-{number}"))
        except BaseException as error:
            self.failures.append(error)

    def run(self) -> None:
        self.add(late=False)
        callers = [threading.Thread(target=self.call, args=(number,)) for number in range(self.scene.callers)]
        for thread in callers:
            thread.start()
        self.add(late=True)
        self.leave()
        for thread in callers:
            thread.join(60)
            assert not thread.is_alive(), "an event hangs"
        assert not self.failures, repr(self.failures[0])


def check_same_order(one: list[str], other: list[str]) -> None:
    """What two plugins both got, they got in one order; a stop only within its own container's events."""
    both = set(one) & set(other)
    first, second = ([event for event in order if event in both] for order in (one, other))
    passing = [[event for event in order if not re.match("stop|Stop", event)] for order in (first, second)]
    assert passing[0] == passing[1], "orders differ"
    for container in {event.split()[1] for event in both}:
        own_entry = [[event for event in order if event.split()[1] == container] for order in (first, second)]
        assert own_entry[0] == own_entry[1], f"orders of {container} differ"


@pytest.fixture(autouse=True, scope="module")
def threads_that_switch_often() -> Iterator[None]:
    """The interpreter switches between threads only now and then; a race in between would hardly ever show.

    And now and then a thread that has left a plugin stalls for longer than the next one needs there.
    """
    before, release, turns = sys.getswitchinterval(), FifoLock.release, itertools.count(1)

    def stalling(lock: FifoLock) -> None:
        release(lock)
        if not next(turns) % 5:
            time.sleep(0.003)

    sys.setswitchinterval(1e-6)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FifoLock, "release", stalling)
        yield
    sys.setswitchinterval(before)


@settings(deadline=None)
@given(scenes())
def test_events_arrive_one_at_a_time_and_in_the_same_order_everywhere(scene: Scene) -> None:
    fan_out = STARTS if scene.at_once else NONE
    with pytest.MonkeyPatch.context() as patched, FakeRuntime(fan_out=fan_out) as runtime:
        patched.setattr("nri.testing.plugin_connection.Session", watched_session)
        play = Play(runtime, scene)
        play.run()
        plugins, created = play.plugins, play.created
        for plugin in plugins:
            assert plugin.overlaps == 0, "a plugin was in two events at once"
            assert len(plugin.order) == len(set(plugin.order)), "a plugin got an event twice"
        for one, other in itertools.combinations(plugins, 2):
            check_same_order(one.order, other.order)
        for number, plugin in enumerate(plugins):
            if not scene.leaves[number] or scene.joins_late[number]:
                heard = {event.split()[1] for event in plugin.order if event.startswith("create_container")}
                missed = created - heard - plugin.synchronized
                assert not missed, f"containers neither in Synchronize nor in an event: {missed}"


# --- where plugins are late, hang up or ask for something themselves, and callers give up

TROUBLES = ("none", "none", "late", "hangs up", "asks")
REQUEST_TIMEOUT_S = 0.01


class Troubled(Watched):
    """Gets into trouble at containers whose id ends with a 2."""

    def __init__(self, trouble: str, delay_ms: int) -> None:
        super().__init__(dict.fromkeys(EVENTS, (delay_ms, False)))
        self.trouble = trouble
        self.hang_up = threading.Event()

    def _handle(self, event: str, container: nri.Container) -> None:
        super()._handle(event, container)
        if not container.id.endswith("2") or self.trouble == "none":
            return
        if self.trouble == "late":
            time.sleep(REQUEST_TIMEOUT_S * 2)
        elif self.trouble == "asks":
            self.runtime.update(nri.Update("nobody").set_cpu_shares(5))
        else:
            self.hang_up.set()


class Impatient:
    """A reporter that notes which events went on without a plugin that was busy with earlier ones."""

    def __init__(self) -> None:
        self.begin_result: dict[int, str] = {}
        self.events: set[str] = set()

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        if event in BY_RPC:
            container = getattr(m, BY_RPC[event].request).FromString(request).container
            self.begin_result[serial] = f"{BY_RPC[event].method} {container.id}"

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        if isinstance(error, DeadlineExceeded) and "busy with earlier events" in str(error):
            self.events.add(self.begin_result[serial])

    def _nothing(self, *_: object) -> None: ...

    plugin_asked = plugin_answered = reply_merged = event_ends = _nothing


class Sent:
    """What the runtime sends to each plugin, and how much of it is under way at a time."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.order: dict[Peer, list[str]] = {}
        self.under_way: dict[Peer, int] = {}
        self.overlaps = 0
        begin, invoke, collect = RemotePeer.begin, RemotePeer.invoke, RemotePeer.collect

        def noting_begin(peer: RemotePeer, question: EventRequest, deadline: float) -> object:
            sent = begin(peer, question, deadline)
            if sent is not None:
                self._starts(peer, question)
            return sent

        def noting_invoke(peer: RemotePeer, question: EventRequest, deadline: float) -> bytes:
            self._starts(peer, question)
            try:
                return invoke(peer, question, deadline)
            finally:
                self.under_way[peer] -= 1

        def noting_collect(peer: RemotePeer, *arguments: object) -> bytes:
            try:
                return collect(peer, *arguments)  # type: ignore[arg-type]
            finally:
                self.under_way[peer] -= 1

        patched.setattr(RemotePeer, "begin", noting_begin)
        patched.setattr(RemotePeer, "invoke", noting_invoke)
        patched.setattr(RemotePeer, "collect", noting_collect)

    def _starts(self, peer: Peer, question: EventRequest) -> None:
        assert question.container is not None
        self.order.setdefault(peer, []).append(f"{question.spec.method} {question.container.id}")
        self.under_way[peer] = self.under_way.get(peer, 0) + 1
        self.overlaps += self.under_way[peer] > 1

    def check(self, impatient: set[str]) -> None:
        assert self.overlaps == 0, "a plugin was asked two things at once"
        for order in self.order.values():
            assert len(order) == len(set(order)), "a plugin was asked the same twice"
        patient = [[event for event in order if event not in impatient] for order in self.order.values()]
        for one, other in itertools.combinations(patient, 2):
            check_same_order(one, other)


@dataclass
class Trouble:
    plugins: list[tuple[str, int]]
    patience_ms: list[int]
    containers: int
    intercepted: bool
    at_once: bool


troubles = st.builds(
    Trouble,
    plugins=st.lists(st.tuples(st.sampled_from(TROUBLES), st.integers(0, 2)), min_size=1, max_size=4),
    patience_ms=st.lists(st.sampled_from([0, 1, 2, 5, 10_000]), min_size=1, max_size=5),
    containers=st.integers(1, 5),
    intercepted=st.booleans(),
    at_once=st.booleans(),
)


def send_all(runtime: FakeRuntime, trouble: Trouble, caller: int, failures: list[BaseException]) -> None:
    """Send one caller's events; after the caller's timeout, continue with the next event."""
    try:
        for number, event in itertools.product(range(trouble.containers), EVENTS):
            try:
                patience_s = trouble.patience_ms[caller] / 1000
                getattr(runtime, event)(make_pod(), make_container(id=f"c{caller}-{number}"), timeout_s=patience_s)
            except (PluginError, DeadlineExceeded):
                continue
    except BaseException as error:
        failures.append(error)


def check_at_rest(runtime: FakeRuntime, plugins: list[Troubled]) -> None:
    """Nobody holds anything, and whoever is connected answers."""
    chain = parts_of(runtime.adaptation).chain
    for peer in chain.peers:
        assert isinstance(peer, RemotePeer)
        wait_for(lambda peer=peer: not peer.lock.held and not peer.lock.waiting, f"the lock of {peer.label} is free")
        wait_for(lambda peer=peer: not peer.endpoint.link.reader.locked(), f"nobody reads from {peer.label}")
        assert not peer.endpoint.link.waiters, "an answer is waited for by nobody"
    runtime.timeout(20)
    for peer in chain.peers:
        peer.breaker.configure(0, 0.0)
    runtime.start_container(make_pod(), make_container(id="last"), timeout_s=20)
    for peer in chain.peers:
        plugin = plugins[int(peer.name)]
        assert peer.state is State.ACTIVE or plugin.trouble == "hangs up", f"{peer.label} is {peer.state.value}"
        assert peer.state is State.GONE or plugin.order[-1] == "start_container last", "a plugin is not asked any more"


@settings(deadline=None)
@given(troubles)
def test_every_event_ends_and_healthy_plugins_answer_despite_failures(trouble: Trouble) -> None:
    plugins = [Troubled(*entry) for entry in trouble.plugins]
    interceptors = [Interceptor()] if trouble.intercepted else []
    failures: list[BaseException] = []
    fan_out = STARTS if trouble.at_once else NONE
    impatient = Impatient()
    options: dict[str, Any] = {"interceptors": interceptors, "fan_out": fan_out, "reporters": [impatient]}
    with pytest.MonkeyPatch.context() as patched, FakeRuntime(**options) as runtime:
        for number, plugin in enumerate(plugins):
            runtime.add(plugin, idx=f"{number:02}", name=str(number))
        runtime.timeout(REQUEST_TIMEOUT_S)
        sent = Sent(patched)
        callers = [
            threading.Thread(target=send_all, args=(runtime, trouble, number, failures), daemon=True)
            for number in range(len(trouble.patience_ms))
        ]
        for thread in callers:
            thread.start()
        for number, plugin in enumerate(plugins):
            if plugin.trouble == "hangs up" and plugin.hang_up.wait(0.01):
                runtime.disconnect(f"{number:02}-{number}")
        for thread in callers:
            thread.join(30)
            assert not thread.is_alive(), "an event hangs"
        assert not failures, repr(failures[0])
        sent.check(impatient.events)
        check_at_rest(runtime, plugins)
