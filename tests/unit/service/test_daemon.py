"""The main function of engine and proxy. The tests of their verbs run them as processes."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import closing
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from nri.errors import NriError
from nri.metrics import Observer
from nri.service import daemon
from nri.service.http import Server
from nri.signals import Stop

#: An address of this process alone: all of 127/8 is this machine.
ADDRESS = f"127.{os.getpid() >> 16 & 255}.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}:9317"


def get(path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://{ADDRESS}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Signalled(Stop):
    """A stop that SIGTERM has asked for already, and that takes no signals of this process."""

    def listen(self, *_: int) -> None:
        self.take(signal.SIGTERM)


class Nothing:
    """A daemon that has nothing to serve; its health and metrics are asked for while it starts, runs and ends."""

    def __init__(self, observer: Observer | None) -> None:
        self.observer, self.seen = observer, []

    def start(self) -> None:
        self.seen.append(get("/readyz"))
        if self.observer is not None:
            self.observer.update_plugin_count(3)

    def stop(self) -> None:
        self.seen += [get("/readyz"), get("/healthz"), "nri_active_plugins_total 3.0\n" in get("/metrics")[1]]

    def describe(self) -> str:
        self.seen.append(get("/readyz"))
        return "nowhere"


def test_health_and_metrics_are_served_while_the_daemon_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    daemons: list[Nothing] = []

    def make(observer: Observer | None) -> Nothing:
        daemons.append(Nothing(observer))
        return daemons[-1]

    class Later(Stop):
        """A stop that comes when it is waited for."""

        def listen(self, *_: int) -> None: ...

        def wait_for_signal(self) -> int:
            daemons[0].seen.append(get("/readyz"))
            self.take(signal.SIGINT)
            return super().wait_for_signal()

    monkeypatch.setattr(daemon, "Stop", Later)
    assert daemon.run("it", make, ADDRESS, logging.getLogger("it")) == 130
    waiting = (503, "starting, or stopping\n")
    assert daemons[0].seen == [waiting, waiting, (200, "ready\n"), waiting, (200, "ok\n"), True]
    with pytest.raises(URLError):
        get("/healthz")


def test_an_occupied_address_ends_the_daemon_before_it_creates_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "Stop", Signalled)
    with (
        closing(Server(public={}, address=ADDRESS)),
        pytest.raises(NriError, match=r"it cannot start: cannot listen on"),
    ):
        daemon.run("it", pytest.fail, ADDRESS, logging.getLogger("it"))
