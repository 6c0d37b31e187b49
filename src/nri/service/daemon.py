"""Run a daemon until a signal, with notifications to systemd, health and metrics."""

from __future__ import annotations

import logging
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from nri.errors import NriError
from nri.service.systemd import notify
from nri.signals import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.metrics import Observer
    from nri.service.http import Server

#: The time in seconds after which a stopping process exits. The next start resumes interrupted work.
STOP_S = 10.0


class Daemon(Protocol):
    """A program that serves until it is stopped."""

    def start(self) -> None:
        """Start serving. Raises OSError or NriError, after cleaning up, if the daemon cannot start."""

    def stop(self) -> None:
        """Stop serving."""

    def describe(self) -> str:
        """Return the addresses on which the daemon listens, in one line."""


D = TypeVar("D", bound=Daemon)


def run(
    what: str,
    make: Callable[[Observer | None], D],
    address: str,
    log: logging.Logger,
    step: str = "",
    on_hangup: Callable[[D], None] | None = None,
) -> int:
    """Run a daemon until a signal, and return the exit code. Raises NriError if the daemon cannot start.

    Args:
        what: the name of the daemon for messages, for example "the engine".
        make: creates the daemon, given an observer of its plugins or None.
        address: HOST:PORT of health and metrics; "" to serve neither.
        log: the logger of the daemon.
        step: the advice to add to the error if the daemon cannot start.
        on_hangup: called in this thread after SIGHUP, once the daemon is ready. Without it, SIGHUP stops the daemon.
    """
    stop = Stop(second_ends=True)
    if on_hangup is None:
        stop.listen(signal.SIGHUP)
    else:
        stop.listen()
        stop.call_after(signal.SIGHUP, lambda: _notify_around(partial(on_hangup, daemon)))
    ready: list[bool] = []
    server: Server | None = None
    try:
        server, observer = _serve(address, ready) if address else (None, None)
        daemon = make(observer)
        daemon.start()
    except (NriError, OSError) as error:
        if server is not None:
            server.close()
        raise NriError(f"{what} cannot start: {_reason(error)}{step}") from error
    try:
        if not stop:
            log.info("ready: %s", daemon.describe())
            ready.append(True)
            notify("READY=1")
        number = stop.wait_for_signal()
        ready.clear()
        log.info("stopping after %s; containers keep running", signal.Signals(number).name)
        notify("STOPPING=1")
        stop.end_process_in(STOP_S, lambda names: log.warning("%s: not stopped after %g s: %s", what, STOP_S, names))
    finally:
        daemon.stop()
        if server is not None:
            server.close()
    log.info("stopped")
    return stop.exit_code


def _notify_around(reload: Callable[[], None]) -> None:
    """Reload, and notify systemd before and after."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
    reload()
    notify("READY=1")


def _reason(error: NriError | OSError) -> str:
    if isinstance(error, NriError):
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    step = ". Run this program as root" if isinstance(error, PermissionError) and os.geteuid() else ""
    return f"{place}{error.strerror or error}{step}"


def _serve(address: str, ready: list[bool]) -> tuple[Server, Observer]:
    """Serve health and metrics, and return the server and the observer. Raises NriError if that is not possible."""
    try:
        from prometheus_client import CollectorRegistry
    except ModuleNotFoundError as error:
        raise_missing_extra("--metrics", error, "metrics")
    from nri.metrics.prometheus import PrometheusObserver
    from nri.service.http import Server
    from nri.service.probes import metrics, probes

    registry = CollectorRegistry()
    observer = PrometheusObserver(registry)
    handlers = probes(lambda: (True, "ready\n") if ready else (False, "starting, or stopping\n"))
    return Server(public={**handlers, **metrics(registry)}, address=address), observer


def raise_missing_extra(what: str, error: ModuleNotFoundError, extra: str) -> NoReturn:
    """Raise NriError with the command that installs a missing extra. A missing module of nri raises `error` itself.

    The command is for a checkout, because nri is not on PyPI, where another project may use the name.
    """
    if (error.name or "").partition(".")[0] == "nri":
        raise error
    install = f"pip install '.[{extra}]', in a checkout of nri"
    raise NriError(f"{what} requires {error.name}, which is not installed. Install the extra: {install}") from None
