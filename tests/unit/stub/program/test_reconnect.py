"""Connecting to the runtime's socket: retries, log lines and giving up."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from nri.backoff import Backoff
from nri.stub.program import reconnect
from nri.stub.program.reconnect import GiveUp, Reconnect


class Waits:
    """A stop that never comes; its waits take no time, and are kept."""

    def __init__(self, stops_after: int = 10**9) -> None:
        self.waited_s: list[float] = []
        self.stops_after = stops_after
        self.now = 0.0

    def __bool__(self) -> bool:
        return len(self.waited_s) >= self.stops_after

    def wait(self, seconds: float) -> None:
        self.waited_s.append(seconds)
        self.now += seconds


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Waits, and a clock that they move."""
    waits = Waits()
    monkeypatch.setattr(reconnect, "monotonic", lambda: waits.now)
    return waits


def test_an_existing_socket_is_connected_at_once(tmp_path: Path, stop: Waits) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        sock = Reconnect(str(tmp_path / "s"), stop, no_reconnect=False).connect()
        assert sock is not None and stop.waited_s == []
        sock.close()


def test_a_missing_runtime_is_awaited_and_logged_once_after_a_second(
    tmp_path: Path, stop: Waits, capsys: pytest.CaptureFixture[str]
) -> None:
    stop.stops_after = 20
    path = str(tmp_path / "s")
    assert Reconnect(path, stop, no_reconnect=False).connect() is None
    assert set(stop.waited_s) == {reconnect.CHECK_INTERVAL_S}
    assert capsys.readouterr().err == f"waiting for {path}: No such file or directory. Is NRI on? try: nri doctor\n"


def test_a_path_that_is_not_a_socket_is_logged(tmp_path: Path, stop: Waits, capsys: pytest.CaptureFixture[str]) -> None:
    stop.stops_after = 20
    path = tmp_path / "s"
    path.write_text("")
    assert Reconnect(str(path), stop, no_reconnect=False).connect() is None
    assert capsys.readouterr().err == f"waiting for {path}: not a socket. Is NRI on? try: nri doctor\n"


def test_without_waiting_a_missing_runtime_is_an_error(tmp_path: Path, stop: Waits) -> None:
    with pytest.raises(GiveUp, match=r"No such file or directory\. Is NRI on") as given_up:
        Reconnect(str(tmp_path / "s"), stop, no_reconnect=True).connect()
    assert given_up.value.code == 3


def test_with_no_wait_only_the_first_connection_must_succeed(tmp_path: Path, stop: Waits) -> None:
    path = str(tmp_path / "s")
    reconnect = Reconnect(path, stop, no_reconnect=False, no_wait=True)
    with pytest.raises(GiveUp):
        reconnect.connect()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        sock = reconnect.connect()
        assert sock is not None
        sock.close()
    stop.stops_after = 20
    assert reconnect.connect() is None
    assert len(stop.waited_s) == 20


def test_an_invalid_socket_path_is_an_error_that_names_the_flag(stop: Waits) -> None:
    with pytest.raises(GiveUp, match="--socket-path /x") as given_up:
        Reconnect("/" + "x" * 200, stop, no_reconnect=False).connect()
    assert given_up.value.code == 2


def test_pauses_grow_to_half_a_minute_and_start_again_after_a_good_connection(tmp_path: Path, stop: Waits) -> None:
    path = Reconnect(str(tmp_path / "s"), stop, no_reconnect=False, backoff=Backoff(uniform=lambda: 1.0))

    assert [path.delay_s() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    path.ended(answered=True)
    delay_s, began = path.delay_s(), stop.now
    path.pause(delay_s)
    assert round(stop.now - began, 3) == delay_s == 1


def test_a_connection_counts_as_good_after_some_time_or_an_event(tmp_path: Path, stop: Waits) -> None:
    """A runtime that always disconnects after Synchronize is not retried twice a second forever."""
    backoff = Backoff(uniform=lambda: 1.0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        path = Reconnect(str(tmp_path / "s"), stop, no_reconnect=False, backoff=backoff)
        delays = []
        for lasts_s, answered in ((1, False), (29, False), (1, False), (31, False), (1, False), (0, True), (0, False)):
            sock = path.connect()
            assert sock is not None
            sock.close()
            stop.now += lasts_s
            assert path.ended(answered=answered) == (answered or lasts_s > 30)
            delays.append(path.delay_s())
    assert delays == [1, 2, 4, 1, 2, 1, 2]


def test_by_default_the_first_pause_is_at_most_a_second(tmp_path: Path, stop: Waits) -> None:
    path = Reconnect(str(tmp_path / "s"), stop, no_reconnect=False)
    path.pause(path.delay_s())
    assert 0 < sum(stop.waited_s) <= 1


def test_a_pause_is_never_zero(tmp_path: Path, stop: Waits) -> None:
    path = Reconnect(str(tmp_path / "s"), stop, no_reconnect=False, backoff=Backoff(uniform=lambda: 0.0))
    path.pause(path.delay_s())
    assert sum(stop.waited_s) == pytest.approx(reconnect.MIN_PAUSE_S)


def test_a_new_socket_ends_the_pause(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.touch()

    class Restarts(Waits):
        def wait(self, seconds: float) -> None:
            super().wait(seconds)
            if len(self.waited_s) == 2:
                path.unlink()
            elif len(self.waited_s) == 4:
                path.touch()

    stop = Restarts()
    Reconnect(str(path), stop, no_reconnect=False).pause(30.0)
    assert len(stop.waited_s) == 4, "neither a socket that is gone nor one that stays is a new one"
