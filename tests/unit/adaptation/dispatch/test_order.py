"""The order in which plugins receive events: in turn, all at once, and the wait for a turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nri
from nri.adaptation import Adaptation
from nri.adaptation.adaptation import parts_of
from nri.adaptation.dispatch.invoker import Invoker
from nri.adaptation.peers.peer import Peer
from nri.adaptation.peers.turns import FifoLock, Ticket
from nri.api.events import EventMask
from nri.errors import DeadlineExceeded, LocalProtocolError, NriError, PluginError, PluginTimeout, PluginUnavailable
from nri.stub.session.service import PluginService
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc.envelope import Request
from tests.support.made_plugins import Mode, both
from tests.support.waiting import wait_for


class Started(nri.Plugin):
    """Does something when a container has started."""

    def __init__(self, act: Callable[[nri.Container], None] = lambda _: None) -> None:
        self.act = act
        self.seen: list[str] = []

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen.append(container.id)
        self.act(container)


class Reporter(nri.Plugin):
    """Says which events it heard."""

    def __init__(self, act: Callable[[nri.Container], None] = lambda _: None) -> None:
        self.act = act
        self.heard: list[str] = []

    def _hear(self, event: str, container: nri.Container) -> None:
        self.heard.append(event)
        self.act(container)

    def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._hear("post_create", container)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._hear("start", container)

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._hear("post_start", container)

    def post_update_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._hear("post_update", container)


class OnlyStop(nri.Plugin):
    """Is not subscribed."""

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...


@pytest.fixture
def node() -> Iterator[Callable[..., FakeRuntime]]:
    created: list[FakeRuntime] = []

    def make(*plugins: nri.Plugin, **options: object) -> FakeRuntime:
        runtime = FakeRuntime(**options)
        created.append(runtime)
        runtime.timeout(20)
        for number, plugin in enumerate(plugins):
            runtime.add(plugin, idx=f"{number}0", name=f"p{number}")
        return runtime

    yield make
    for runtime in created:
        runtime.close()


def refuse(_: nri.Container) -> None:
    raise nri.Reject("no")


def test_with_fan_out_all_plugins_work_at_the_same_time(node) -> None:
    meeting = threading.Barrier(3, timeout=10)
    runtime = node(*[Started(lambda _: meeting.wait()) for _ in range(3)])
    runtime.start_container()  # passes all of them: the last one's synchronization is over, which would be waited for
    runtime.post_start_container()
    assert not meeting.broken, "a plugin got the event only after another one had answered"


@pytest.mark.parametrize("compat", ["default", "reference"])
def test_a_process_with_several_connections_receives_reports_in_turn(compat: str, node) -> None:
    """`reports_at_once`: the Go differ compares the order of arrival at its connections, in either mode."""
    order: list[str] = []

    def slowly(_: nri.Container) -> None:
        time.sleep(0.05)
        order.append("00")

    runtime = node(Started(slowly), Started(), Started(lambda _: order.append("20")), compat=compat)
    for peer in parts_of(runtime.adaptation).chain.peers:
        peer.pid = 1 if peer.label in ("00-p0", "20-p2") else 2
    runtime.post_start_container()
    assert order == ["00", "20"]


def test_without_fan_out_events_pass_from_plugin_to_plugin(node) -> None:
    order: list[str] = []

    class Two(nri.Plugin):
        def __init__(self, name: str) -> None:
            self.label = name

        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            time.sleep(0.02)
            order.append(self.label)

    node(Two("a"), Two("b"), Two("c")).start_container()
    assert order == ["a", "b", "c"]


def test_the_error_of_the_lowest_index_is_raised_after_all_plugins_were_called(node) -> None:
    plugins = [Started(), Started(refuse), Started(refuse), Started()]
    with pytest.raises(PluginError) as caught:
        node(*plugins).post_start_container()
    assert caught.value.plugin == "10-p1"
    assert [len(plugin.seen) for plugin in plugins] == [1, 1, 1, 1]


@pytest.mark.parametrize("compat", ["default", "reference"])
def test_an_error_hides_a_report_from_later_plugins_only_in_reference_mode(compat: str, node) -> None:
    """`reports_at_once`; events that can be prevented never reach later plugins."""
    plugins = [Reporter(), Reporter(refuse), Reporter()]
    runtime = node(*plugins, compat=compat)
    for report in (
        runtime.post_create_container,
        runtime.post_start_container,
        runtime.post_update_container,
        runtime.start_container,
    ):
        with pytest.raises(NriError, match="no"):
            report()
    reports = ["post_create", "post_start", "post_update"]
    behind = reports if compat == "default" else []
    assert [plugin.heard for plugin in plugins] == [[*reports, "start"], [*reports, "start"], behind]


def test_plugins_without_a_subscription_are_skipped(node) -> None:
    plugins = [OnlyStop(), Started(), OnlyStop(), Started(), OnlyStop()]
    node(*plugins).post_start_container(make_pod(), make_container(id="c"))
    assert [plugin.seen for plugin in plugins if isinstance(plugin, Started)] == [["c"], ["c"]]


@pytest.mark.pure
def test_a_late_plugin_does_not_delay_the_others(node, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    plugins = [Started(lambda _: go.wait(20)), Started(), Started()]
    policy = '["00-p0"]\ntimeout = "600ms"\n["10-p1"]\ntimeout = "500ms"\n["20-p2"]\ntimeout = "500ms"\n'
    ask, serve, answered = Invoker.ask, PluginService.serve, set[str]()

    def answering(self: PluginService, request: Request) -> object:
        created = serve(self, request)
        answered.add(f"{threading.current_thread().name} {request.method}")
        return created

    monkeypatch.setattr(PluginService, "serve", answering)
    runtime = node(*plugins, policy=policy)

    def hearing(self: Invoker, peer: Peer, *arguments: Any, **named: Any) -> bytes | None:
        """Hear those who are not late when they have answered, however slow the machine is: they had half a second."""
        if peer.label != "00-p0":
            wait_for(lambda: f"plugin-{peer.label} PostStartContainer" in answered, "it answers")
        return ask(self, peer, *arguments, **named)

    monkeypatch.setattr(Invoker, "ask", hearing)
    try:
        runtime.post_start_container()
        rows = {row.plugin: row.missed for row in runtime.adaptation.plugins}
        assert rows == {"00-p0": 1, "10-p1": 0, "20-p2": 0}, "what had arrived in time was read late, and counts"
    finally:
        go.set()


def test_the_callers_deadline_ends_a_fan_out(node) -> None:
    go = threading.Event()
    runtime = node(Started(), Started(lambda _: go.wait(20)), Started())
    try:
        with pytest.raises(DeadlineExceeded):
            runtime.post_start_container(timeout_s=0.2)
    finally:
        go.set()
    wait_for(lambda: runtime.post_start_container() is None, "the plugins answer again")
    assert all(row.state == "active" for row in runtime.adaptation.plugins)


def test_the_policy_for_missing_answers_applies_to_fan_out(node) -> None:
    go = threading.Event()
    last = Started()
    runtime = node(
        Started(), Started(lambda _: go.wait(20)), last, policy='["10-p1"]\ntimeout = "300ms"\nfail_request = true\n'
    )
    try:
        with pytest.raises(PluginTimeout, match="10-p1"):
            runtime.post_start_container()
    finally:
        go.set()
    assert last.seen, "the plugin behind it got the event"


def test_a_disconnected_plugin_does_not_affect_the_others(node) -> None:
    plugins = [Started(), Started(), Started()]
    runtime = node(*plugins)
    runtime.disconnect("10-p1")
    runtime.post_start_container()
    assert [len(plugin.seen) for plugin in plugins] == [1, 0, 1]


def test_an_event_that_waits_for_a_busy_plugin_blocks_no_other_event(node) -> None:
    """A third event passes the first plugin while the second waits for the last one: nothing is locked."""
    go, inside = threading.Event(), threading.Event()

    def slow(container: nri.Container) -> None:
        if container.id == "slow":
            inside.set()
            go.wait(20)

    first, last = Started(), Started(slow)
    runtime = node(first, last)
    callers = [
        threading.Thread(target=runtime.post_start_container, args=(make_pod(), make_container(id=name)))
        for name in ("slow", "second", "third")
    ]
    callers[0].start()
    assert inside.wait(10)
    callers[1].start()
    callers[2].start()
    try:
        wait_for(lambda: sorted(first.seen) == ["second", "slow", "third"], "the first plugin is free for others")
    finally:
        go.set()
    for caller in callers:
        caller.join(20)
    assert sorted(last.seen) == ["second", "slow", "third"]


def test_a_missing_required_plugin_is_an_error_before_any_call(node) -> None:
    plugin = Started()
    runtime = node(plugin, policy='["50-gone"]\nrequired = true\n')
    with pytest.raises(PluginUnavailable, match="50-gone"):
        runtime.start_container()
    runtime.post_start_container()
    assert plugin.seen, "events that report are never refused"


def test_fan_out_with_an_event_that_has_an_answer_is_an_error() -> None:
    with pytest.raises(LocalProtocolError, match="fan_out must not contain CreateContainer"):
        Adaptation(
            "r", "1", synchronize=lambda: ((), ()), update=lambda _: None, fan_out=EventMask.of("CreateContainer")
        )


@pytest.mark.pure
def test_an_event_queues_at_the_next_plugin_before_it_leaves_a_skipped_one(node) -> None:
    """Otherwise a later event could overtake it there."""
    steps: list[str] = []

    class Telling(FifoLock):
        __slots__ = ("name",)

        def place(self, pod: str = "", urgent: bool = False) -> Ticket | None:
            steps.append(f"place {self.name}")
            return super().place(pod, urgent)

        def release(self) -> None:
            steps.append(f"leave {self.name}")
            super().release()

    runtime = node(Started(), OnlyStop(), Started())
    for peer in parts_of(runtime.adaptation).chain.peers:
        peer.lock.acquire()  # its handshake may hold it a moment longer than the plugin is active
        peer.lock = Telling()
        peer.lock.name = peer.name
    runtime.post_start_container()
    assert steps == ["place p0", "place p1", "place p2", "leave p1", "leave p0", "leave p2"]


class Notes(nri.Plugin):
    """Notes what it is asked, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.asked.append(f"start {container.id}")

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.asked.append(f"stop {container.id}")


class Busy:
    """A runtime whose one plugin is at an earlier event; further ones run in threads, and what they raise is kept."""

    def __init__(self, mode: Mode, timeout_s: float, policy: str = "") -> None:
        self.plugin, self.errors = Notes(), []
        self.runtime = FakeRuntime(compat=mode, policy=policy or None)
        self.runtime.add(self.plugin).timeout(timeout_s)
        self.peer = parts_of(self.runtime.adaptation).registry.find("10-notes")
        assert self.peer is not None
        self.peer.lock.acquire()
        self.threads: list[threading.Thread] = []

    def begin(self, event: str, pod: str, container: str) -> threading.Thread:
        """Begin an event; returns when it waits for its turn, or is over."""
        waiting = self.peer.lock.waiting

        def run() -> None:
            method = getattr(self.runtime, event)
            try:
                method(make_pod(id=pod), make_container(id=container, pod_sandbox_id=pod))
            except nri.NriError as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        wait_for(lambda: self.peer.lock.waiting > waiting or not thread.is_alive(), "it waits")
        self.threads.append(thread)
        return thread

    def finish(self) -> None:
        self.peer.lock.release()
        for thread in self.threads:
            thread.join(20)
        self.runtime.close()


@both
def test_turns_bounded(mode: Mode) -> None:
    """A plugin that is busy for longer than two timeouts loses the waiting events, and stays connected."""
    busy = Busy(mode, 0.05 if mode == "default" else 20)
    thread = busy.begin("start_container", "p", "c")
    if mode == "default":
        thread.join(20)
        assert not thread.is_alive() and busy.peer.breaker.missed == 1
        assert "busy with earlier events for 0.1 s" in busy.runtime.health("10-notes").last_error
    else:
        assert busy.peer.turn_s == 0.0, "it waits for as long as it takes"
    busy.finish()
    assert busy.plugin.asked == ([] if mode == "default" else ["start c"])
    assert busy.errors == []


def test_an_event_that_a_busy_plugin_must_answer_fails_without_a_turn() -> None:
    busy = Busy("default", 0.05, '["10-notes"]\nfail_request = true\n')
    busy.begin("start_container", "p", "c").join(20)
    busy.finish()
    (error,) = busy.errors
    assert isinstance(error, PluginTimeout) and error.plugin == "10-notes"
    assert "busy with earlier events" in str(error)


def test_a_report_that_a_busy_plugin_misses_still_reaches_later_plugins() -> None:
    plugins = [Started(), Started(), Started()]
    with FakeRuntime(policy='["20-busy"]\nfail_request = true\ntimeout = "50ms"\n') as runtime:
        for number, (entry, name) in enumerate(zip(plugins, ("first", "busy", "last"), strict=True), 1):
            runtime.add(entry, idx=f"{number}0", name=name)
        runtime.timeout(20)
        busy = parts_of(runtime.adaptation).registry.find("20-busy")
        assert busy is not None
        busy.lock.acquire()
        try:
            with pytest.raises(PluginTimeout, match="busy with earlier events"):
                runtime.post_start_container()
        finally:
            busy.lock.release()
        assert [len(entry.seen) for entry in plugins] == [1, 0, 1]


def test_a_breaker_opened_by_waiting_events_stays_open_after_a_late_answer() -> None:
    """Otherwise each group of events would wait as long as the first one."""
    answered = threading.Event()

    class Slow(Notes):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            super().start_container(pod, container)
            assert answered.wait(20)

    slow = Slow()
    with FakeRuntime(policy='["10-slow"]\nbreaker = { misses = 2, retry = "1h" }\n') as runtime:
        runtime.add(slow).timeout(20)
        peer = parts_of(runtime.adaptation).registry.find("10-slow")
        assert peer is not None
        first = threading.Thread(target=runtime.start_container, args=(make_pod(), make_container(id="a")))
        first.start()
        wait_for(lambda: slow.asked, "the first one is asked")
        runtime.timeout(0.05)
        for name in "bc":
            runtime.start_container(make_pod(), make_container(id=name))
        answered.set()
        first.join(20)
        runtime.start_container(make_pod(), make_container(id="d"))
        assert (slow.asked, runtime.health("10-slow").state) == (["start a"], "open")


@both
def test_disposal_passes_others(mode: Mode) -> None:
    busy = Busy(mode, 20)
    for event, pod, container in (
        ("start_container", "p", "a"), ("start_container", "q", "b"), ("stop_container", "p", "c"),
    ):  # fmt: skip
        busy.begin(event, pod, container)
    busy.finish()
    in_turn = ["start a", "start b", "stop c"]
    assert busy.plugin.asked == (in_turn if mode == "reference" else ["start a", "stop c", "start b"])
