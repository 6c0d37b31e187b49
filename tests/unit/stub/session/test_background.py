"""Background work: its start, errors and end."""

from __future__ import annotations

import sys
import time

import pytest

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime
from tests.support.plugin_thread import plugin_thread
from tests.support.waiting import wait_for
from tests.unit.stub.plugins import Names


def test_background_work_starts_after_synchronize_and_survives_errors() -> None:
    from nri.stub.session.background import Background

    runs = []

    class Works(Names):
        @nri.every(0.01)
        def work(self):
            runs.append(1)
            if len(runs) == 1:
                raise ValueError("the first time fails")

    plugin = Works()
    background = Background(plugin)
    with plugin_thread(plugin, on_ready=background.start) as running:
        running.runtime.register()
        running.runtime.configure()
        assert runs == [], "background work ran before Synchronize"
        running.runtime.call("Synchronize", m.SynchronizeRequest())
        wait_for(lambda: len(runs) >= 3, "background work after an error")
        background.stop()
        after = len(runs)
        time.sleep(0.05)
        assert len(runs) == after, "background work continues after stop"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_exit_in_background_work_is_logged_once_and_ends_the_work(
    asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    from nri.stub.session.background import Background

    turns, exits = [], []

    def leave() -> None:
        turns.append(1)
        sys.exit(7)

    class Leaves(Names):
        @nri.every(0.01)
        def work(self):
            if not asynchronous:
                leave()

        @nri.every(0.01)
        async def task(self):
            leave()

    plugin = Leaves()
    background, alone = Background(plugin, exits.append), Background(plugin)
    with plugin_thread(plugin, on_ready=background.start) as running:
        running.runtime.begin()
        expected = 1 if asynchronous else 2
        wait_for(lambda: len(turns) == expected and exits, "the exit")
        background.stop()
        alone.start()  # as in a test's runtime, where nobody ends a process
        wait_for(lambda: len(turns) == 2 * expected, "the exit without a listener")
        alone.stop()
    assert [error.code for error in exits] == [7]
    assert len(turns) == 2 * expected
    assert caplog.text.count("task called sys.exit(7), which ends the plugin") == 2


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_an_interval_must_be_positive(seconds: float) -> None:
    with pytest.raises(ValueError, match=rf"nri\.every\({seconds}\): .* must be above 0: write @nri\.every\(30\)"):
        nri.every(seconds)


def test_every_without_an_interval_is_an_error_with_the_right_form() -> None:
    with pytest.raises(TypeError, match=r"takes the seconds between two calls, not a method: write @nri\.every\(30\)"):

        class Forgets(nri.Plugin):
            @nri.every
            def work(self): ...

    with pytest.raises(TypeError, match="not '30s'"):
        nri.every("30s")


def test_a_plugin_with_only_background_work_subscribes_to_one_event() -> None:
    class Works(nri.Plugin):
        @nri.every(3600)
        def work(self): ...

    with plugin_thread(Works()) as running:
        running.runtime.register()
        reply = m.ConfigureResponse.FromString(running.runtime.configure().payload)
    assert nri.EventMask(reply.events) == nri.EventMask.of("RemovePodSandbox"), "0 would mean every event"


def test_running_background_work_by_hand_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from nri.stub.session import background

    monkeypatch.setattr(background, "TICK_TIMEOUT_S", 0.01)
    begun, go_on = threading.Event(), threading.Event()

    class Hangs(Names):
        @nri.every(3600)
        def work(self):
            begun.set()
            go_on.wait(20)

    hangs = Hangs()
    work = background.Background(hangs)
    with plugin_thread(hangs, on_ready=work.start) as running:
        running.runtime.begin()
        assert begun.wait(20), "a turn is under way"
        with pytest.raises(nri.NriError, match=r"work cannot be called: a call of it has been running for 0.01 s"):
            work.tick()
        go_on.set()
        work.stop()


@pytest.mark.parametrize("as_list", [False, True])
def test_a_return_value_of_background_work_is_an_error(as_list: bool) -> None:
    class Returns(nri.Plugin):
        @nri.every(3600)
        def work(self) -> object:
            update = nri.Update("c").set_cpu_shares(512)
            return [update] if as_list else update

    with FakeRuntime(real_time=False) as runtime:
        runtime.add(Returns())
        with pytest.raises(
            TypeError, match=r"work returned an Update, but return values are ignored: use self\.runtime\.update"
        ):
            runtime.tick()
