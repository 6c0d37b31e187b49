"""Ends of containers: recorded once, told once, whichever way they came."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from nri.engine.lifecycle.ends import CLEARED
from nri.engine.process import Exit
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import EngineError


def exit_of(identity: str, code: int = 3) -> Exit:
    return Exit(identity, code, 5, "Error")


def test_an_end_is_recorded_and_told_once_however_often_it_comes(dry: Any) -> None:
    life = dry.engine.lives.container(dry.run(dry.pod()))
    ends = dry.engine._ends
    threads = [threading.Thread(target=ends.take, args=(life, exit_of(life.id))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (life.record.state, life.record.exit_code, life.record.pid) == (ContainerState.EXITED, 3, 0)
    assert life.ended.is_set()
    assert dry.told.of("c").count("stop_container") == 1
    assert life.record.done[-1:] == [CLEARED]


def test_an_end_of_what_is_not_there_is_no_error(dry: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        dry.engine._ends._take(exit_of("f" * 64))
    assert not caplog.records


def test_the_end_of_what_holds_a_pod_makes_it_not_ready(dry: Any) -> None:
    life = dry.engine.lives.pod(dry.pod())
    dry.engine._ends._take(exit_of(life.id))
    assert life.record.state is PodState.STOPPING


def test_what_could_not_be_cleared_away_is_told_and_left_to_the_removal(
    dry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    life = dry.engine.lives.container(dry.run(dry.pod()))
    ends, clear = dry.engine._ends, dry.engine._ends.clear

    def refuse(_: object) -> None:
        raise EngineError("it is busy")

    ends.clear = refuse
    with caplog.at_level(logging.WARNING):
        ends.take(life, exit_of(life.id))
    assert "could not be cleared away: it is busy" in caplog.text
    assert CLEARED not in life.record.done
    assert life.record.state is ContainerState.EXITED
    ends.clear = clear
    dry.engine.containers.remove(life.id)


def test_an_end_after_the_engines_own_is_left_to_the_next_engine(dry: Any) -> None:
    made = dry.run(dry.pod())
    ends = dry.engine._ends
    ends.close()
    ends._on_exit(exit_of(made))
    assert dry.engine.lives.container(made).record.state is ContainerState.RUNNING
