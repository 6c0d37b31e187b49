"""The failures of functions in WebAssembly, in words for the log and for the caller.

Next: `nri.adaptation.launch.wasm.instance`, which calls functions.
"""

from __future__ import annotations

import wasmtime

from nri.text import plain

__all__ = ["frames", "words_for"]

#: Functions of a trap that are named, innermost first.
_FRAMES = 8


def words_for(error: BaseException) -> str:
    """Say in words how a function ended."""
    if isinstance(error, wasmtime.ExitTrap):
        return f"exit code {error.code}"
    if isinstance(error, wasmtime.Trap):
        code = error.trap_code
        return f"trapped ({code.name.lower().replace('_', ' ')})" if code is not None else f"trapped ({_last(error)})"
    return plain(_last(error))


def _last(error: BaseException) -> str:
    """The cause, which wasmtime writes last."""
    return next((line.strip() for line in reversed(str(error).split("\n")) if line.strip()), "an error without words")


def frames(error: BaseException) -> list[str]:
    """The names of the functions in which a trap happened, innermost first."""
    if not isinstance(error, wasmtime.Trap):
        return []
    return [plain(frame.func_name or f"function {frame.func_index}", 200) for frame in error.frames[:_FRAMES]]
