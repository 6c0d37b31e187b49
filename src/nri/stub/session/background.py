"""Background work: methods marked with `@nri.every(seconds)`, started once synchronized, stopped at the end.

A `def` runs in a thread of its own beside the handlers; an `async def` is a task on the loop's thread. While there is
no connection a turn is left out. What such a method raises is logged, and the next turn comes all the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from nri.stub.base import PluginBase

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["Background", "every"]


def every(seconds: float) -> Callable[[F], F]:
    """Mark a method as background work that runs each `seconds`, the first time right after Synchronize.

    Raises:
        ValueError: `seconds` is not positive.
    """
    if seconds <= 0:
        raise ValueError(f"every({seconds}): the interval must be positive")

    def mark(function: F) -> F:
        function._nri_every_s = seconds  # type: ignore[attr-defined]
        return function

    return mark


class Background:
    """The running background work of one plugin."""

    def __init__(self, plugin: PluginBase) -> None:
        self._plugin = plugin
        self._stop: Any = None
        self._threads: list[Any] = []

    def start(self) -> None:
        """Start every marked method; once, however often the plugin is synchronized."""
        if self._stop is not None:
            return
        marked = [
            name for name in dir(type(self._plugin)) if hasattr(getattr(type(self._plugin), name, None), "_nri_every_s")
        ]
        if not marked:
            return
        import threading

        self._stop = threading.Event()
        for name in marked:
            thread = threading.Thread(target=self._run, args=(name,), name=f"nri-every-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, name: str) -> None:
        from nri.stub.handler.coroutines import resolve

        method = getattr(self._plugin, name)
        interval_s = method._nri_every_s
        while True:
            if self._plugin.runtime.connected:
                try:
                    resolve(method())
                except Exception:
                    self._plugin.log.exception("%s failed; next try in %g s", name, interval_s)
            if self._stop.wait(interval_s):
                return

    def stop(self, timeout_s: float = 2.0) -> None:
        """Ask all of it to end, and wait a little."""
        if self._stop is None:
            return
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)
