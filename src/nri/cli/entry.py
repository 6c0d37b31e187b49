"""The very start of the `nri` command: Ctrl-C ends it with code 130 and no words, also while it is still being loaded.

Rules: next to nothing is imported at the top. Next: `nri.cli.main`.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def _quit(*_: object) -> NoReturn:
    """End at once. The interpreter is not asked to tidy up, because it may be in the middle of an import."""
    os._exit(130)


def start() -> NoReturn:
    """Load the command and run it. A SIGINT that is ignored, as in a shell's background, stays ignored."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _quit)
    try:
        from nri.cli.main import main

        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:  # outside of the part of `main` that makes an exit code of every error
        _quit()
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is said: no traceback while Python comes to its end
