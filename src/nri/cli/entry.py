"""Start the `nri` command. Ctrl-C ends it with code 130 and without a traceback, even while it is being loaded."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def _exit_at_once(*_: object) -> NoReturn:
    """Exit at once, without the interpreter's cleanup, because it may be in the middle of an import."""
    os._exit(130)


def start() -> NoReturn:
    """Load the command and run it. If SIGINT is ignored, as in a shell's background job, it stays ignored.

    SIGHUP waits until the verb is known, because for some verbs it means a reload of their settings.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _exit_at_once)
    try:
        from nri.cli.main import main

        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:  # outside the part of `main` that converts errors to exit codes
        _exit_at_once()
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while the interpreter shuts down
