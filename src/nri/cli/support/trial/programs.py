"""A program as a plugin of a trial: run as a runtime runs an installed plugin, for as long as the trial lasts.

Next: `nri.adaptation.launch.process` has the contract of such a program.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from nri.adaptation.launch.discovery import Found
from nri.adaptation.launch.process import Process
from nri.adaptation.launch.wasm_file import MAGIC
from nri.cli.errors import USAGE, Failure
from nri.cli.support.trial.contestants import name_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.cli.support.trial.contestants import Contestant
    from nri.testing import FakeRuntime

__all__ = ["program"]

#: How long a program has to take part, in steps and seconds of each.
_STEPS, _STEP_S = 100, 0.1


@contextlib.contextmanager
def program(runtime: FakeRuntime, plugin: Contestant) -> Iterator[None]:
    """Run the program while the context lasts. Failure says why it does not take part."""
    name = name_in(plugin.target) or os.path.basename(plugin.target)
    with contextlib.suppress(OSError), open(plugin.target, "rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            reason = "it is WebAssembly, which only a runtime loads: put it into the runtime's plugin folder"
            raise Failure(f"{plugin.target}: {reason}", USAGE)
    try:
        process = Process(Found(os.path.abspath(plugin.target), plugin.index, name))
    except OSError as error:
        raise Failure(f"{plugin.target}: cannot be run: {error.strerror}", USAGE) from None
    waiter = threading.Thread(target=process.wait, args=(lambda: 1.0,), name=f"nri-try-{name}", daemon=True)
    waiter.start()
    try:
        runtime.adaptation.connect(process.socket, plugin.config_text)
        _wait_for(runtime, f"{plugin.index}-{name}", process, waiter)
        yield
    finally:
        process.kill()
        waiter.join(5.0)


def _wait_for(runtime: FakeRuntime, label: str, process: Process, waiter: threading.Thread) -> None:
    for _ in range(_STEPS):
        if runtime.adaptation.ready([label], _STEP_S, settled=True):
            return
        if not waiter.is_alive():
            break
    words = f": {process.last_words}" if process.last_words else ""
    raise Failure(f"plugin {label} does not take part: {process.status or 'it does not register'}{words}")
