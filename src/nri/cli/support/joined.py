"""A plugin of ours that takes part in a runtime while a block lasts, in a thread of its own.

Next: `nri.stub.session.session`, which it runs.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from nri.errors import ConnectionClosed, RuntimeUnavailable
from nri.stream import connect_unix
from nri.stub.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.interfaces import Reporter
    from nri.stub.plugin import Plugin

__all__ = ["joined"]

_LOOK_S: Final = 0.05


@contextmanager
def joined(
    plugin: Plugin, path: str, index: str, timeout_s: float, reporter: Reporter | None = None
) -> Iterator[threading.Thread]:
    """Have a plugin take part while the block lasts; yields its thread, which ends with its connection."""
    try:
        sock = connect_unix(path)
    except OSError as error:
        step = "Name the runtime's NRI socket with --socket-path; nri doctor says whether NRI is on"
        raise RuntimeUnavailable(path, (error.strerror or str(error)).lower(), step) from None
    ready = threading.Event()
    failed: list[Exception] = []
    session = Session(
        plugin, sock, index=index, name=f"{plugin.name}-{os.getpid()}", registration_timeout_s=timeout_s,
        on_ready=ready.set, reporter=reporter,
    )  # fmt: skip

    def run() -> None:
        try:
            session.run()
        except Exception as error:  # noqa: BLE001 - raised where the plugin is waited for
            failed.append(error)

    thread = threading.Thread(target=run, name=plugin.name, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + timeout_s
        while not ready.wait(_LOOK_S):
            if not thread.is_alive() or time.monotonic() > until:
                raise failed[0] if failed else ConnectionClosed(f"{path}: the plugin does not come to take part")
        yield thread
    finally:
        session.stop()
        thread.join(timeout_s)
