"""The plugin inside `nri events`. Its output is tested in verbs/test_events."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nri.api import messages as m
from nri.api.events import EVENTS
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.verbs import events
from nri.errors import RuntimeUnavailable
from nri.trace import watcher

POD = m.PodSandbox(id="p", namespace="shop", name="web")
CONTAINER = m.Container(id="c", name="nginx")


def test_the_watcher_receives_every_event_and_changes_no_container() -> None:
    events: list[Any] = []
    follower = watcher.Follower(lambda *what: events.append(what))
    for spec in EVENTS:
        if spec.kind == "pod":
            assert getattr(follower, spec.method)(POD) is None
            assert events.pop()[1:] == (POD, None)
        elif spec.kind != "validation":
            assert getattr(follower, spec.method)(POD, CONTAINER) is None
            assert events.pop()[1:] == (POD, CONTAINER)


def test_without_a_socket_connecting_raises_runtime_unavailable() -> None:
    with pytest.raises(RuntimeUnavailable, match=r"cannot connect to /nowhere\.sock: no such file or directory"):
        watcher.snapshot("/nowhere.sock", 1.0)


def test_a_line_has_no_control_characters_or_trailing_blanks() -> None:
    line = events.line_of("12:00:00.000", "StopContainer", "\x1b[2J", "shop/web", "")
    assert "\\x1b[2J" in line
    assert line.endswith("  -")


def test_the_time_is_rfc_3339_in_utc_with_milliseconds() -> None:
    assert len(watcher.now()) == len("2001-09-09T01:46:40.000Z")
    assert watcher.now()[-5] == "."


@pytest.mark.parametrize(("state", "word"), [(0, "unknown"), (3, "running"), (4, "stopped"), (9, "9")])
def test_an_unknown_state_is_one_word(state: int, word: str) -> None:
    class Container:
        pass

    container = Container()
    container.state = state  # type: ignore[attr-defined]
    assert events.state_name(container) == word


def test_a_message_is_printed_with_protobufs_json_names() -> None:
    assert events.as_dict(m.Container(pod_sandbox_id="p")) == {"podSandboxId": "p"}


def test_events_that_cannot_be_printed_in_time_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "MAX_WAITING", 2)
    waiting = watcher.EventQueue()
    for _ in range(5):
        waiting.put("RunPodSandbox", POD, None)
    printer = threading.Thread(target=events.print_all, args=(waiting, Output(Settings())))
    printer.start()
    waiting.close()
    printer.join(30)
    assert capsys.readouterr().err == "3 events not shown, because the output is not read fast enough\n"
