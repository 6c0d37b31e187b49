"""For random plugins, delays, failures, joins and leaves: every plugin gets events one at a time, all in one order."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nri
from nri.errors import PluginError
from nri.testing import FakeRuntime, make_container, make_pod

EVENTS = ("create_container", "start_container", "stop_container")


class Watched(nri.Plugin):
    """Notes what it gets, and whether it ever got two things at once: it would take several if it were sent them."""

    max_concurrent = 8

    def __init__(self, behaviour: dict[str, tuple[int, bool]]) -> None:
        self.behaviour = behaviour
        self.order: list[str] = []
        self.synchronized: set[str] = set()
        self.inside = 0
        self.overlaps = 0

    def _handle(self, event: str, container: nri.Container) -> None:
        self.inside += 1
        self.overlaps += self.inside > 1
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


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    count = draw(st.integers(1, 4))
    behaviour = st.dictionaries(st.sampled_from(EVENTS), st.tuples(st.integers(0, 2), st.booleans()), max_size=2)
    plugins = [
        (f"{draw(st.integers(0, 3)):02}", draw(st.sampled_from([Watched, OnlyCreate])), draw(behaviour))
        for _ in range(count)
    ]
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    return Scene(plugins, draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(flags), draw(flags))


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


@pytest.fixture(autouse=True, scope="module")
def threads_that_switch_often() -> Iterator[None]:
    """The interpreter switches between threads only now and then; a race in between would hardly ever show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@settings(deadline=None)
@given(scenes())
def test_events_come_one_at_a_time_and_in_the_same_order_everywhere(scene: Scene) -> None:
    with FakeRuntime() as runtime:
        play = Play(runtime, scene)
        play.run()
        plugins, created = play.plugins, play.created
        for plugin in plugins:
            assert plugin.overlaps == 0, "a plugin was in two events at once"
            assert len(plugin.order) == len(set(plugin.order)), "a plugin got an event twice"
        for one, other in itertools.combinations(plugins, 2):
            both = set(one.order) & set(other.order)
            assert [e for e in one.order if e in both] == [e for e in other.order if e in both], "orders differ"
        for number, plugin in enumerate(plugins):
            if not scene.leaves[number] or scene.joins_late[number]:
                heard = {event.split()[1] for event in plugin.order if event.startswith("create_container")}
                missed = created - heard - plugin.synchronized
                assert not missed, f"containers neither in Synchronize nor in an event: {missed}"
