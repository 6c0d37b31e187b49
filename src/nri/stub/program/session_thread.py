"""Run a plugin's session with a runtime in a separate thread, for the length of a `with` block."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from nri.api.naming import observer_names
from nri.errors import ConnectionClosed, DeadlineExceeded, RegistrationError, RuntimeUnavailable
from nri.stream import connect_unix
from nri.stub.session.session import Session
from nri.ttrpc import Code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.interfaces import Reporter
    from nri.stub.base import PluginBase


@contextmanager
def session_thread(
    plugin: PluginBase, path: str, index: str, timeout_s: float, reporter: Reporter | None = None
) -> Iterator[threading.Thread]:
    """Connect a plugin for the length of the block. Yields its thread, which ends with its connection.

    The plugin registers under the first of `nri.api.naming.observer_names` that no connected plugin has.
    """
    names = observer_names(plugin.name)
    session, thread = _join_as_first_free(plugin, path, index, names, timeout_s, reporter)
    try:
        yield thread
    finally:
        session.stop()
        thread.join(timeout_s)


def _join_as_first_free(
    plugin: PluginBase, path: str, index: str, names: list[str], timeout_s: float, reporter: Reporter | None
) -> tuple[Session, threading.Thread]:
    """Join under the first free name. Returns the session and the thread that serves it."""
    name, *other_names = names
    while True:
        try:
            return _join(plugin, path, index, name, timeout_s, reporter)
        except RegistrationError as error:
            if error.code != Code.ALREADY_EXISTS or not other_names:
                raise
            name = other_names.pop(0)


def _join(
    plugin: PluginBase, path: str, index: str, name: str, timeout_s: float, reporter: Reporter | None
) -> tuple[Session, threading.Thread]:
    try:
        sock = connect_unix(path)
    except OSError as error:
        step = "Specify the runtime's NRI socket with --socket-path; nri doctor shows whether NRI is on"
        hint = "" if isinstance(error, PermissionError) else step  # the error's own hint is to run as root
        raise RuntimeUnavailable(path, (error.strerror or str(error)).lower(), hint) from None
    early_end = ConnectionClosed(f"{path}: the connection was closed before the plugin was synchronized")
    # None: the plugin is synchronized. Otherwise the reason why its session ended. Only the first entry is used.
    outcomes: SimpleQueue[Exception | None] = SimpleQueue()
    session = Session(
        plugin, sock, index=index, name=name, registration_timeout_s=timeout_s,
        on_ready=lambda: outcomes.put(None), reporter=reporter,
    )  # fmt: skip

    def run() -> None:
        try:
            session.run()
            outcomes.put(early_end)
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits for the plugin
            outcomes.put(error)

    thread = threading.Thread(target=run, name=plugin.name, daemon=True)
    thread.start()
    try:
        try:
            outcome = outcomes.get(timeout=timeout_s)
        except Empty:
            raise DeadlineExceeded(f"the state at {path} ({timeout_s:g} s)") from None
        if outcome is not None:
            raise outcome
    except BaseException:
        session.stop()
        thread.join(timeout_s)
        raise
    return session, thread
