"""Exits of containers are recorded once and reported once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from nri.engine.lifecycle.exit_handler import CLEARED, ExitHandler
from nri.engine.lifecycle.processes import Processes
from nri.engine.process import Exit
from nri.engine.process.dry import DryExits
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import EngineError
from tests.support.no_threads import no_threads


def exit_of(identity: str, code: int = 3) -> Exit:
    return Exit(identity, code, 5, "Error")


class Ends:
    """An exit handler over the parts of a dry engine; `tell` is what the watch of conmons calls."""

    def __init__(self, dry: Any, monkeypatch: pytest.MonkeyPatch, *, opened: bool = True) -> None:
        engine = dry.engine
        with monkeypatch.context() as context:
            context.setattr(engine.machinery, "exits", self._exits)
            processes = Processes(engine.inventory, engine.machinery)
            self.handler = ExitHandler(engine.inventory, engine.machinery, engine.domain, processes, engine.events)
        if opened:
            self.handler.open()

    def _exits(self, on_exit: Callable[[Exit], None]) -> DryExits:
        self.tell = on_exit
        return DryExits(on_exit)


@pytest.fixture
def ends(dry: Any, monkeypatch: pytest.MonkeyPatch) -> Ends:
    return Ends(dry, monkeypatch)


def test_a_repeated_exit_is_recorded_and_reported_once(dry: Any, ends: Ends) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    threads = [threading.Thread(target=ends.tell, args=(exit_of(entry.id),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entry.ended.wait(20)
    ends.handler.close()  # waits for all of them
    assert (entry.record.state, entry.record.exit_code, entry.record.pid) == (ContainerState.EXITED, 3, 0)
    assert entry.ended.is_set()
    assert dry.told.of("c").count("stop_container") == 1
    assert entry.record.done[-1:] == [CLEARED]


def test_an_exit_without_a_free_thread_is_handled(dry: Any, ends: Ends) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    with no_threads():
        ends.tell(exit_of(entry.id))
    assert (entry.record.state, entry.record.exit_code) == (ContainerState.EXITED, 3)
    ends.handler.close()
    assert dry.told.of("c").count("stop_container") == 1


def test_an_exit_before_the_return_of_plugins_waits_for_them(
    dry: Any, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    early = Ends(dry, monkeypatch, opened=False)
    with no_threads():
        early.tell(exit_of(entry.id))
    assert not dry.told.of("c").count("stop_container")
    early.handler.open()
    assert entry.ended.wait(20)
    early.handler.close()
    assert (entry.record.state, entry.record.exit_code) == (ContainerState.EXITED, 3)


def test_an_exit_during_creation_is_handled_by_the_creation(dry: Any, ends: Ends) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    dry.engine.inventory.note(entry, state=ContainerState.CREATING)
    ends.handler.take(entry, exit_of(entry.id))
    assert entry.record.state is ContainerState.CREATING
    assert not entry.exited.is_set()
    assert dry.told.of("c").count("stop_container") == 0


def test_an_exit_of_an_unknown_container_is_ignored(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ends.tell(exit_of("f" * 64))
        ends.handler.close()
    assert not caplog.records


def test_the_exit_of_a_sandbox_makes_its_pod_not_ready(dry: Any, ends: Ends) -> None:
    entry = dry.engine.inventory.pod(dry.pod())
    ends.tell(exit_of(entry.id))
    ends.handler.close()
    assert entry.record.state is PodState.STOPPING


def test_a_failed_clean_up_is_logged_and_left_to_the_removal(
    dry: Any, ends: Ends, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))

    def refuse(*_: object) -> None:
        raise EngineError("it is busy")

    with monkeypatch.context() as context, caplog.at_level(logging.WARNING):
        context.setattr(dry.engine.machinery.conmon, "remove", refuse)
        ends.tell(exit_of(entry.id))
        assert entry.ended.wait(20)
    assert "its remains could not be removed: it is busy" in caplog.text
    assert CLEARED not in entry.record.done
    assert entry.record.state is ContainerState.EXITED
    dry.engine.container_removal.remove(entry.id)


def test_an_exit_after_the_engines_stop_is_left_to_the_next_start(dry: Any, ends: Ends) -> None:
    container_id = dry.run(dry.pod())
    ends.handler.close()
    ends.tell(exit_of(container_id))
    assert dry.engine.inventory.container(container_id).record.state is ContainerState.RUNNING
