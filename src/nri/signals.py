"""Let signals in before a wait that has no end.

The interpreter runs a signal's handler between two of its own instructions. Compiled modules (`docs/howto/fast.md`)
have none: a SIGTERM that comes while they work would wait until the next read returns, which may be never. This module
is never compiled, so calling it is such a moment. Next: `nri.stream`, which calls it.
"""

__all__ = ["heed"]


def heed() -> None:
    """Run the handlers of signals that have come, if this is the main thread."""
