"""A plugin's session with a runtime while a block lasts, in a separate thread.

Next: `nri.stub.session.session`, which it runs.
"""

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

__all__ = ["session_thread"]


@contextmanager
def session_thread(
    plugin: PluginBase, path: str, index: str, timeout_s: float, reporter: Reporter | None = None
) -> Iterator[threading.Thread]:
    """Have a plugin take part while the block lasts; yields its thread, which ends with its connection.

    It takes the first of `nri.api.naming.observer_names` that no live plugin has.
    """
    names = observer_names(plugin.name)
    session, thread = _joined(plugin, path, index, names, timeout_s, reporter)
    try:
        yield thread
    finally:
        session.stop()
        thread.join(timeout_s)


def _joined(
    plugin: PluginBase, path: str, index: str, names: list[str], timeout_s: float, reporter: Reporter | None
) -> tuple[Session, threading.Thread]:
    """Join under the first free name; returns the session and the thread that serves it."""
    for name in names:
        try:
            return _joined_as(name, plugin, path, index, timeout_s, reporter)
        except RegistrationError as error:
            if error.code != Code.ALREADY_EXISTS or name == names[-1]:
                raise
    raise AssertionError("there is at least one name")


def _joined_as(
    name: str, plugin: PluginBase, path: str, index: str, timeout_s: float, reporter: Reporter | None
) -> tuple[Session, threading.Thread]:
    try:
        sock = connect_unix(path)
    except OSError as error:
        step = "Name the runtime's NRI socket with --socket-path; nri doctor says whether NRI is on"
        hint = "" if isinstance(error, PermissionError) else step  # without a hint: run it as root
        raise RuntimeUnavailable(path, (error.strerror or str(error)).lower(), hint) from None
    gone = ConnectionClosed(f"{path}: the plugin does not come to take part")
    # None: the plugin takes part; otherwise its end. The first entry counts.
    outcomes: SimpleQueue[Exception | None] = SimpleQueue()
    session = Session(
        plugin, sock, index=index, name=name, registration_timeout_s=timeout_s,
        on_ready=lambda: outcomes.put(None), reporter=reporter,
    )  # fmt: skip

    def run() -> None:
        try:
            session.run()
            outcomes.put(gone)
        except Exception as error:  # noqa: BLE001 - raised where the plugin is waited for
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
