"""The engine with a stopwatch at its edges: `traced.py engine serve ...` is `nri engine serve ...`, and writes spans.

At the end of the engine, the file of BENCH_SPANS gets a JSON list of [kind, begin, end] in nanoseconds of the
monotonic clock, from all threads.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPANS: list[tuple[str, int, int]] = []


def timed(kind: str | Callable[..., str], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a span for each call; `kind` may be made of the arguments."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        began = time.monotonic_ns()
        try:
            return function(*arguments, **named)
        finally:
            name = kind if isinstance(kind, str) else kind(*arguments)
            SPANS.append((name, began, time.monotonic_ns()))

    return call


def everywhere(module: Any, name: str, kind: str) -> None:
    """Put a stopwatch on a function of a module, also where others have imported it by name."""
    original = getattr(module, name)
    replacement = timed(kind, original)
    for loaded in [*sys.modules.values()]:
        if getattr(loaded, "__name__", "").startswith("nri.engine"):
            for key, value in [*vars(loaded).items()]:
                if value is original:
                    setattr(loaded, key, replacement)


def method(owner: Any, name: str, kind: str | Callable[..., str]) -> None:
    """Put a stopwatch on a method."""
    setattr(owner, name, timed(kind, getattr(owner, name)))


class Event(threading.Event):
    """An event; waiting for it is waiting for the kernel and conmon."""

    def wait(self, timeout: float | None = None) -> bool:
        began = time.monotonic_ns()
        try:
            return super().wait(timeout)
        finally:
            SPANS.append(("wait for the end", began, time.monotonic_ns()))


def install() -> None:
    """Put all stopwatches in place."""
    import nri.engine.daemon  # noqa: F401  all modules that must be looked through
    from nri import files
    from nri.engine.lifecycle.domain import Domain
    from nri.engine.lifecycle.inventory import ContainerEntry
    from nri.engine.network.cni import Cni
    from nri.engine.process import execution
    from nri.engine.process.conmon import Conmon
    from nri.engine.process.runtime import Runtime
    from nri.engine.server import methods
    from nri.engine.support import kernel

    method(Runtime, "_call", lambda self, command, *_: f"{self.name} {command}")
    everywhere(execution, "exec_sync", "runc exec")
    method(Conmon, "_let_go", "conmon starts")
    method(Conmon, "_read_sync", "runc create")
    for name in ("add", "delete"):
        method(Cni, name, "CNI")
    for name in ("mount", "unmount"):
        everywhere(kernel, name, "mounts")
    for name in ("write_whole", "remove_tree", "private_folder"):
        everywhere(files, name, "files")
    os.fsync = timed("fsync", os.fsync)
    subprocess.Popen.__init__ = timed("fork", subprocess.Popen.__init__)  # type: ignore[method-assign]
    for name in (
        "run_pod", "stop_pod", "remove_pod", "create", "follow", "post_create", "start", "post_start", "stop", "remove",
        "update_container", "post_update",
    ):  # fmt: skip
        if hasattr(Domain, name):
            method(Domain, name, "NRI")
    constructor = ContainerEntry.__init__

    def make(self: Any, *arguments: Any) -> None:
        constructor(self, *arguments)
        self.exited, self.ended = Event(), Event()

    ContainerEntry.__init__ = make  # type: ignore[method-assign,assignment]
    unary = methods._unary
    methods._unary = lambda name, answer: timed("handler", unary(name, answer))


def main() -> None:
    """Run the command line with stopwatches."""
    install()
    atexit.register(lambda: Path(os.environ["BENCH_SPANS"]).write_text(json.dumps(SPANS)))
    from nri.cli.main import main as nri

    sys.argv[0] = "nri"
    sys.exit(nri())


if __name__ == "__main__":
    main()
