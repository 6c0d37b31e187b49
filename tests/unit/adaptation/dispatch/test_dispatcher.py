"""Dispatch of an event: order by index, handover, overlap, deadlines of the caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nri
from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.adaptation import parts_of
from nri.adaptation.dispatch.invoker import Invoker
from nri.adaptation.peers.turns import FifoLock
from nri.api import messages as m
from nri.errors import DeadlineExceeded, PluginError
from nri.metrics import Observer
from nri.testing import FakeRuntime, make_container, make_pod
from nri.testing.plugin_connection import Attached
from nri.ttrpc import Interceptor, Request
from tests.support.waiting import wait_for


class Calls(nri.Plugin):
    """Calls a function for every StartContainer."""

    def __init__(self, work: Callable[[nri.Container], object]) -> None:
        self.work = work

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.work(container)


class BuiltinCalls:
    """The same, inside the runtime."""

    def __init__(self, work: Callable[[nri.Container], object]) -> None:
        self.work = work

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.work(container)


@pytest.fixture
def calls() -> list[str]:
    return []


def test_plugins_of_all_kinds_are_called_by_index(calls: list[str]) -> None:
    def note(name: str) -> Any:
        return lambda _: calls.append(name)

    builtin = [BuiltinPlugin(index, f"in{index}", BuiltinCalls(note(f"builtin {index}"))) for index in ("40", "10")]
    with FakeRuntime(builtin=builtin) as runtime:
        for index in ("50", "05", "30"):
            runtime.add(Calls(note(f"external {index}")), idx=index, name=f"out{index}")
        runtime.start_container()
    assert calls == ["external 05", "builtin 10", "external 30", "builtin 40", "external 50"]


def test_equal_indices_are_called_in_order_of_registration(nri_runtime: FakeRuntime, calls: list[str]) -> None:
    for name in ("zebra", "aardvark", "mule"):
        nri_runtime.add(Calls(lambda _, name=name: calls.append(name)), name=name)  # type: ignore[misc]
    nri_runtime.start_container()
    assert calls == ["zebra", "aardvark", "mule"]


def test_the_first_error_ends_the_event_and_later_plugins_are_not_called(
    nri_runtime: FakeRuntime, calls: list[str]
) -> None:
    def fail(_: nri.Container) -> None:
        raise nri.Reject("not this one")

    nri_runtime.add(Calls(fail), idx="10", name="fails").add(
        Calls(lambda _: calls.append("later")), idx="20", name="later"
    )
    with pytest.raises(PluginError, match=r"plugin 10-fails refused: not this one") as caught:
        nri_runtime.start_container()
    assert caught.value.plugin == "10-fails"
    assert calls == []


@pytest.mark.pure
def test_an_event_queues_at_the_next_plugin_before_it_leaves_the_current_one(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no event can overtake another, not even at a plugin without a subscription."""
    steps: list[str] = []

    class Telling(FifoLock):
        __slots__ = ("name",)

        def place(self, pod: nri.PodSandbox | None = None, urgent: bool = False) -> Any:
            steps.append(f"place {self.name}")
            return super().place(pod, urgent)

        def release(self) -> None:
            steps.append(f"leave {self.name}")
            super().release()

    class OnlyStop(nri.Plugin):
        def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    nri_runtime.add(Calls(lambda _: None), idx="10", name="a").add(OnlyStop(), idx="20", name="b")
    nri_runtime.add(Calls(lambda _: None), idx="30", name="c")
    for peer in parts_of(nri_runtime.adaptation).chain.peers:
        peer.lock = Telling()
        peer.lock.name = peer.name
    nri_runtime.start_container()
    assert steps == ["place a", "place b", "leave a", "place c", "leave b", "leave c"]


def test_events_of_different_pods_overlap_in_different_plugins(nri_runtime: FakeRuntime) -> None:
    """The second event is in the first plugin while the first is in the second; otherwise this would hang."""
    meeting = threading.Barrier(2, timeout=10)
    count = [0]

    def first(_: nri.Container) -> None:
        count[0] += 1
        if count[0] == 2:
            meeting.wait()

    def second(container: nri.Container) -> None:
        if container.id == "one":
            meeting.wait()

    nri_runtime.timeout(20)
    nri_runtime.add(Calls(first), idx="10", name="first").add(Calls(second), idx="20", name="second")
    one = threading.Thread(target=nri_runtime.start_container, args=(make_pod(), make_container(id="one")))
    two = threading.Thread(target=nri_runtime.start_container, args=(make_pod(), make_container(id="two")))
    one.start()
    wait_for(lambda: count[0] == 1, "the first event passed the first plugin")
    two.start()
    one.join(20)
    two.join(20)
    assert not meeting.broken


@pytest.fixture
def busy(nri_runtime: FakeRuntime) -> Iterator[threading.Event]:
    """A plugin that is in the middle of an event until the event is set."""
    go = threading.Event()
    entered = threading.Event()

    def wait(_: nri.Container) -> None:
        entered.set()
        go.wait(10)

    nri_runtime.timeout(20)
    nri_runtime.add(Calls(wait), name="busy")
    caller = threading.Thread(target=nri_runtime.start_container)
    caller.start()
    assert entered.wait(10)
    yield go
    go.set()
    caller.join()


def test_a_waiting_event_is_sent_by_the_thread_of_its_predecessor(
    nri_runtime: FakeRuntime, busy: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the plugin works again before the thread of the waiting event wakes up."""
    lock = parts_of(nri_runtime.adaptation).chain.peers[0].lock
    senders: list[tuple[str, bool]] = []
    begin = Invoker.begin

    def telling(self: Invoker, *args: Any, **named: Any) -> Any:
        begun = begin(self, *args, **named)
        senders.append((threading.current_thread().name, begun is not None))
        return begun

    monkeypatch.setattr(Invoker, "begin", telling)
    second = threading.Thread(target=nri_runtime.start_container, name="second")
    second.start()
    wait_for(lambda: lock.waiting == 1 and lock.queue[0].begin is not None, "the second event waits")
    busy.set()
    second.join(10)
    assert len(senders) == 1
    assert senders[0][0] != "second"
    assert senders[0][1], "the first event's thread could not send the second event"


@pytest.mark.pure
def test_an_interrupted_wait_releases_its_sent_request(
    nri_runtime: FakeRuntime, busy: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KeyboardInterrupt in a runtime's thread: the plugin answers the next event as usual."""
    lock = parts_of(nri_runtime.adaptation).chain.peers[0].lock
    wait = FifoLock.wait

    def interrupted(self: FifoLock, ticket: Any, deadline: float | None = None) -> None:
        wait(self, ticket, deadline)
        self.release()
        raise KeyboardInterrupt

    def second() -> None:
        with pytest.raises(KeyboardInterrupt):
            nri_runtime.start_container()

    with monkeypatch.context() as patched:
        patched.setattr(FifoLock, "wait", interrupted)
        thread = threading.Thread(target=second)
        thread.start()
        wait_for(lambda: lock.waiting == 1 and lock.queue[0].begin is not None, "the second event waits")
        busy.set()
        thread.join(10)
    nri_runtime.start_container()
    assert nri_runtime.health("10-busy").state == "active"


def test_the_callers_deadline_ends_its_wait_for_a_busy_plugin(nri_runtime: FakeRuntime, busy: threading.Event) -> None:
    with pytest.raises(DeadlineExceeded):
        nri_runtime.start_container(timeout_s=0.05)
    assert nri_runtime.health("10-busy").missed == 0, "the plugin has nothing to do with it"


def test_the_callers_deadline_is_not_a_miss_of_a_plugin(nri_runtime: FakeRuntime) -> None:
    go = threading.Event()
    nri_runtime.timeout(20)
    nri_runtime.add(Calls(lambda _: go.wait(20)), name="slow")
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            nri_runtime.start_container(deadline=time.monotonic() + 0.02)
    row = nri_runtime.health("10-slow")
    assert (row.state, row.missed) == ("active", 0)
    go.set()


class Holding:
    """What a plugin does that holds its events until it is let go."""

    def __init__(self) -> None:
        self.go, self.entered = threading.Event(), threading.Event()
        self.seen: list[str] = []

    def __call__(self, container: nri.Container) -> None:
        self.seen.append(container.id)
        self.entered.set()
        assert self.go.wait(10)


def calling(runtime: FakeRuntime, name: str, failures: list[BaseException], **pod: Any) -> threading.Thread:
    """A thread that sends an event for a container of this name."""

    def run() -> None:
        try:
            runtime.adaptation.start_container(pod.get("pod", make_pod()), make_container(id=name))
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_an_event_with_a_wrong_argument_leaves_the_queue() -> None:
    holding, failures = Holding(), list[BaseException]()
    with FakeRuntime() as runtime:
        runtime.timeout(20).add(Calls(holding), idx="10", name="holding")
        one = calling(runtime, "one", failures)
        assert holding.entered.wait(10)
        two = calling(runtime, "two", failures, pod=object())
        two.join(10)
        holding.go.set()
        one.join(10)
        assert [type(failure) for failure in failures] == [TypeError]
        runtime.start_container(make_pod(), make_container(id="three"), timeout_s=10)
        assert holding.seen == ["one", "three"]


def test_a_waiting_event_follows_the_policy_at_its_turn(nri_runtime: FakeRuntime) -> None:
    """In this test the policy first excludes the plugin from the event and then includes it again."""
    holding, failures = Holding(), list[BaseException]()
    nri_runtime.timeout(20).add(Calls(holding), name="holding")
    (peer,) = parts_of(nri_runtime.adaptation).chain.peers
    plans = peer.event_policies
    threads = [calling(nri_runtime, "one", failures)]
    assert holding.entered.wait(10)
    threads.append(calling(nri_runtime, "two", failures))
    wait_for(lambda: peer.lock.waiting == 1 and peer.lock.queue[0].begin is not None, "the second event waits")
    peer.event_policies = [None] * len(plans)
    holding.go.set()
    for thread in threads:
        thread.join(10)
    assert holding.seen == ["one"]
    holding.go.clear()
    holding.entered.clear()
    peer.event_policies = plans
    threads = [calling(nri_runtime, "three", failures)]
    assert holding.entered.wait(10)
    peer.event_policies = [None] * len(plans)
    threads.append(calling(nri_runtime, "four", failures))
    wait_for(lambda: peer.lock.waiting == 1, "the fourth event waits")
    peer.event_policies = plans
    holding.go.set()
    for thread in threads:
        thread.join(10)
    assert holding.seen == ["one", "three", "four"]
    assert not failures


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_call_that_fails_locally_is_neither_an_answer_nor_a_miss(error: type[BaseException]) -> None:
    """Even for the single request that an open breaker lets through: the next request takes its place."""

    class Failing(Interceptor):
        fails = False

        def call(self, request: Request, proceed: Callable[[Request], bytes]) -> bytes:
            if self.fails:
                raise error("on this side")
            return proceed(request)

    interceptor, calls = Failing(), list[str]()
    with FakeRuntime(interceptors=[interceptor]) as runtime:
        runtime.add(Calls(lambda container: calls.append(container.id)), name="left-out")
        (peer,) = parts_of(runtime.adaptation).chain.peers
        runtime.timeout(1e-6)
        peer.breaker.configure(1, 0.0)
        runtime.start_container()
        runtime.timeout(20)
        assert runtime.health("10-left-out").state == "open"
        interceptor.fails = True
        with pytest.raises((PluginError, KeyboardInterrupt), match="on this side"):
            runtime.start_container()
        interceptor.fails = False
        assert (peer.state.value, peer.breaker.missed) == ("open", 1)
        runtime.start_container(make_pod(), make_container(id="back"))
        assert (calls[-1:], peer.state.value) == (["back"], "active")


class BegunEvents:
    """A reporter that records the events that have passed the gate, which are those that begin."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        self.events.append(event)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def test_stop_and_remove_events_pass_a_plugin_that_waits_to_join() -> None:
    pod, container, begun = make_pod(), make_container(), BegunEvents()
    entered, go = threading.Event(), threading.Event()

    def hold(_: nri.Container) -> None:
        entered.set()
        go.wait(60)

    with FakeRuntime(request_timeout_s=60, reporters=[begun]) as runtime:
        runtime.add(Calls(hold), idx="10", name="busy")
        threads = [threading.Thread(target=runtime.adaptation.start_container, args=(pod, container))]
        threads[0].start()
        assert entered.wait(10)
        gate = parts_of(runtime.adaptation).chain.gate
        wait_for(lambda: time.monotonic() > gate.paused_until, "joiners do not rest for the busy one any more")
        runtime.add(Calls(lambda _: None), idx="20", name="joins", wait=False)

        def start_event(event: str, *arguments: Any) -> threading.Thread:
            thread = threading.Thread(target=getattr(runtime.adaptation, event), args=arguments)
            thread.start()
            return thread

        wait_for(
            lambda: parts_of(runtime.adaptation).chain.gate.waiting, "the plugin waits for the busy one's event to end"
        )
        threads.append(start_event("post_start_container", pod, container))
        threads += [start_event(event, pod) for event in ("stop_pod_sandbox", "remove_pod_sandbox")]
        threads += [start_event(event, pod, container) for event in ("stop_container", "remove_container")]
        urgent = {"StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer"}
        wait_for(lambda: urgent <= set(begun.events), "they are under way")
        assert "PostStartContainer" not in begun.events, "an ordinary event passes as well"
        go.set()
        for thread in threads:
            thread.join(20)
        assert runtime.adaptation.ready(["20-joins"], 20)


def test_a_waiting_event_is_not_sent_to_a_plugin_that_filters_out_its_pod() -> None:
    holding, failures = Holding(), list[BaseException]()
    with FakeRuntime(policy='["10-holding"]\nfilters = { namespace = ["web"] }') as runtime:
        runtime.timeout(20).add(Calls(holding), name="holding")
        (peer,) = parts_of(runtime.adaptation).chain.peers
        threads = [calling(runtime, "one", failures, pod=make_pod(namespace="web"))]
        assert holding.entered.wait(10)
        threads.append(calling(runtime, "two", failures, pod=make_pod(namespace="other")))
        wait_for(lambda: peer.lock.waiting == 1, "the second event waits")
        holding.go.set()
        for thread in threads:
            thread.join(10)
    assert (holding.seen, failures) == (["one"], [])


def test_an_event_that_skips_a_hanging_joining_plugin_logs_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inside, go = threading.Event(), threading.Event()

    def synchronize() -> Any:
        inside.set()
        go.wait(20)
        return [], []

    adaptation = Adaptation(
        "r", "1", synchronize=synchronize, update=lambda _: None, plugin_path="/nonexistent",
        disable_connections=True, policy_path=None, request_timeout_s=0.05,
    )  # fmt: skip
    adaptation.set_request_timeout(20)  # of the plugin; how long an event waits for a joiner is as it was
    adaptation.start()
    try:
        joining = Attached(Calls(lambda _: None), "10", "joins", "")
        joining.connect(adaptation)
        assert inside.wait(20)
        adaptation.run_pod_sandbox(make_pod())
        assert "RunPodSandbox continues while a plugin joins: `synchronize` has not returned for 0.05 s" in caplog.text
    finally:
        go.set()
        adaptation.stop()
        joining.join()


class Granting(nri.Plugin):
    """Answers with CPU shares, and records the events that report that its answer was withdrawn."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().set_cpu_shares(7)

    def update_container(self, pod: nri.PodSandbox, container: nri.Container, resources: Any) -> nri.Update:
        return nri.Update(container).set_cpu_shares(7)

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.heard.append(("removed", container.linux.resources.cpu.shares.value))

    def post_update_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.heard.append(("updated", container.linux.resources.cpu.shares.value))


class Refusing(nri.Plugin):
    """Refuses every event, including those that report a withdrawn answer."""

    def _refuse(self, *_: Any) -> None:
        raise nri.Reject("no")

    create_container = update_container = remove_container = post_update_container = _refuse  # type: ignore[assignment]


@pytest.mark.parametrize("is_reported", [True, False], ids=["reported", "not reported"])
def test_a_withdrawn_answer_is_logged_and_reported_on_request(
    is_reported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    granting, idle, observer = Granting(), Calls(lambda _: None), Withdrawn()
    pod, container = make_pod(id="p"), make_container(id="c", pod_sandbox_id="p", cpu_shares=3)
    with FakeRuntime(tell_refused=is_reported, observer=observer) as runtime, caplog.at_level("INFO", "nri.adaptation"):
        runtime.add(granting).add(idle, idx="15").add(Refusing(), idx="20")
        for event, more in (("create_container", ()), ("update_container", (m.LinuxResources(),))):
            with pytest.raises(PluginError, match="no"):
                getattr(runtime.adaptation, event)(pod, container, *more)
        explained = runtime.adaptation.provenance.explain("c")  # type: ignore[union-attr]
    assert granting.heard == ([("removed", 3), ("updated", 3)] if is_reported else [])
    assert observer.counted == [("10-granting", "CreateContainer"), ("10-granting", "UpdateContainer")]
    assert 'dropped the answer of plugin 10-granting to UpdateContainer of container "c"' in caplog.text
    assert explained is not None
    assert {(step.plugin, step.note.partition(":")[0]) for step in explained.steps} == {("10-granting", "not applied")}


class Withdrawn(Observer):
    """Records the plugin and the event of each withdrawn answer."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, str]] = []

    def record_withdrawn(self, plugin: str, operation: str) -> None:
        self.counted.append((plugin, operation))
