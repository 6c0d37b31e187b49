"""Engine and proxy as programs: log, signals, systemd, health and metrics, and one line if they cannot start.

Next: `nri.engine.daemon` and `nri.proxy.proxy`, which are run.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from nri.cli.errors import FAILED, Failure, describe
from nri.errors import NriError
from nri.plugins.project.scaffold import fill
from nri.service.systemd import notify
from nri.signals import Stop
from nri.stub.support import logs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.cli.settings import Settings
    from nri.config.settings import Loaded
    from nri.engine.config import EngineConfig
    from nri.interfaces import Reporter
    from nri.metrics import Observer
    from nri.proxy.settings import ProxySettings
    from nri.service.http import Server

__all__ = ["Daemon", "log_to", "needs_extra", "run", "serve_engine", "serve_proxy", "unit_text"]


#: How long a stop may take, in seconds: the next start takes up what a killed engine or proxy was doing.
STOP_S = 10.0


class Daemon(Protocol):
    """A program that serves until it is stopped."""

    def start(self) -> None:
        """Start it. OSError, NriError if it cannot start; then nothing of it is left."""

    def stop(self) -> None:
        """Stop it."""

    def describe(self) -> str:
        """Say in one line where it listens."""


def run(what: str, make: Callable[[Observer | None], Daemon], address: str, log: logging.Logger, step: str = "") -> int:
    """Run a daemon until a signal; returns the exit code. Raises Failure if it cannot start.

    Args:
        what: the program, such as "the engine".
        make: makes the daemon, with an observer of its plugins if there is one.
        address: HOST:PORT of health and metrics; empty for none.
        log: its logger.
        step: the next step where it cannot start.
    """
    stop = Stop(second_ends=True)
    stop.listen(signal.SIGHUP)
    ready: list[bool] = []
    server: Server | None = None
    try:
        server, observer = _serve(address, ready) if address else (None, None)
        daemon = make(observer)
        daemon.start()
    except (NriError, OSError) as error:
        if server is not None:
            server.close()
        raise Failure(f"{what} cannot start: {describe(error)}{step}", FAILED) from error
    try:
        if not stop:
            log.info("ready: %s", daemon.describe())
            ready.append(True)
            notify("READY=1")
        number = stop.wait_for_signal()
        ready.clear()
        log.info("stopping after %s; containers run on", signal.Signals(number).name)
        notify("STOPPING=1")
        stop.end_process_in(STOP_S, lambda names: log.warning("%s: not stopped in %g s: %s", what, STOP_S, names))
    finally:
        daemon.stop()
        if server is not None:
            server.close()
    log.info("stopped")
    return stop.exit_code


def _serve(address: str, ready: list[bool]) -> tuple[Server, Observer]:
    """Serve health and metrics; returns the server and the observer that counts. NriError if it cannot listen."""
    try:
        from prometheus_client import CollectorRegistry
    except ModuleNotFoundError as error:
        needs_extra("--metrics", error, "metrics")
    from nri.metrics.prometheus import PrometheusObserver
    from nri.service.http import Server
    from nri.service.probes import metrics, probes

    registry = CollectorRegistry()
    observer = PrometheusObserver(registry)
    handlers = probes(lambda: (True, "ready\n") if ready else (False, "starting, or stopping\n"))
    return Server(public={**handlers, **metrics(registry)}, address=address), observer


def log_to(settings: Settings, level: str) -> None:
    """Log to standard error: the level of the configuration, or more with -v, or less with -q."""
    if settings.verbose:
        level = "debug"
    elif settings.quiet:
        level = "warning"
    form = "json" if settings.output == "json" else settings.log_format
    logs.set_up(level.upper(), form)
    for chatty in ("asyncio", "grpc", "httpcore", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def needs_extra(what: str, error: ModuleNotFoundError, extra: str) -> NoReturn:
    """Raise Failure for a package that is not installed, with the command that installs it; else the error itself.

    No package index has this project, so its name alone would bring a stranger's: the command is for a checkout.
    """
    if (error.name or "").partition(".")[0] == "nri":
        raise error
    install = f"pip install '.[{extra}]', in a checkout of nri"
    raise Failure(f"{what} needs {error.name}, which is not installed. Install the extra: {install}") from None


_UNIT = Path(__file__).with_name("nri-engine.service.txt")
_engine_log = logging.getLogger("nri.engine")


def serve_engine(settings: Settings, loaded: Loaded[EngineConfig], reporters: Sequence[Reporter] = ()) -> int:
    """Run the engine until a signal; returns the exit code. Raises Failure if it cannot start."""
    config = loaded.settings
    log_to(settings, config.log_level)
    if os.geteuid() != 0 and not config.dry:
        raise Failure("the engine needs root: containers need it. Run it with sudo, or with --dry DIR, to run nothing")
    for note in loaded.notes:
        _engine_log.warning("%s", note)
    _engine_log.info("settings: %s", ", ".join(loaded.files) or "defaults, for there is no /etc/nri/engine.toml")
    try:
        from nri.engine.check import lacking
        from nri.engine.daemon import Daemon
    except ModuleNotFoundError as error:
        needs_extra("the engine", error, "engine")
    for row in lacking(config):
        _engine_log.warning("%s: %s. %s", row.what, row.found, row.next)
    return run(
        "the engine",
        lambda observer: Daemon(config, observer=observer, reporters=reporters),
        config.http.address,
        _engine_log,
        ". try: nri engine check",
    )


def unit_text(python: str = sys.executable) -> str:
    """The text of the unit. `python` runs the engine; a blank in its path is quoted, and a percent sign doubled."""
    command = shlex.quote(python).replace("%", "%%")
    return fill(_UNIT.read_text(encoding="utf-8"), {"python": command})


_proxy_log = logging.getLogger("nri.proxy")


def serve_proxy(settings: Settings, loaded: Loaded[ProxySettings], reporters: Sequence[Reporter] = ()) -> int:
    """Run the proxy until a signal; returns the exit code. Raises Failure if it cannot start."""
    config = loaded.settings
    log_to(settings, "info")
    _proxy_log.info(
        "settings: %s", ", ".join(loaded.files) or "defaults and flags, for there is no /etc/nri/proxy.toml"
    )
    try:
        from nri.proxy import Proxy
        from nri.proxy.hook_servers import RegisteredServers
    except ModuleNotFoundError as error:
        needs_extra("the proxy", error, "engine")

    def make(observer: Observer | None) -> Proxy:
        skip = (config.skip_label_key, config.skip_label_value)
        servers = RegisteredServers(config.hook_servers.folder, skip=skip) if config.hook_servers.enable else None
        return Proxy(config, hook_servers=servers, observer=observer, reporters=reporters)

    return run("the proxy", make, config.http.address, _proxy_log)
