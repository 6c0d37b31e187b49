"""A plugin's session with a runtime while a block lasts, in a separate thread.

Next: `nri.stub.session.session`, which it runs.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from nri.errors import ConnectionClosed, RuntimeUnavailable
from nri.stream import connect_unix
from nri.stub.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.interfaces import Reporter
    from nri.stub.base import PluginBase

__all__ = ["session_thread"]


@contextmanager
def session_thread(
    plugin: PluginBase, path: str, index: str, timeout_s: float, reporter: Reporter | None = None
) -> Iterator[threading.Thread]:
    """Have a plugin take part while the block lasts; yields its thread, which ends with its connection."""
    try:
        sock = connect_unix(path)
    except OSError as error:
        step = "Name the runtime's NRI socket with --socket-path; nri doctor says whether NRI is on"
        raise RuntimeUnavailable(path, (error.strerror or str(error)).lower(), step) from None
    closed = ConnectionClosed(f"{path}: the plugin does not come to take part")
    outcomes: SimpleQueue[Exception | None] = (
        SimpleQueue()
    )  # None: it takes part; else it has ended. The first one counts
    session = Session(
        plugin, sock, index=index, name=f"{plugin.name}-{os.getpid()}", registration_timeout_s=timeout_s,
        on_ready=lambda: outcomes.put(None), reporter=reporter,
    )  # fmt: skip

    def run() -> None:
        try:
            session.run()
            outcomes.put(closed)
        except Exception as error:  # noqa: BLE001 - raised where the plugin is waited for
            outcomes.put(error)

    thread = threading.Thread(target=run, name=plugin.name, daemon=True)
    thread.start()
    try:
        outcome: Exception | None = closed
        with suppress(Empty):
            outcome = outcomes.get(timeout=timeout_s)
        if outcome is not None:
            raise outcome
        yield thread
    finally:
        session.stop()
        thread.join(timeout_s)
