"""Background work: methods marked with `@nri.every(seconds)`, started once synchronized, stopped at the end.

A `def` runs in a thread of its own beside the handlers; an `async def` is a task on the loop's thread. While there is
no connection a turn is left out. An exception of such a method is logged, and the next turn comes all the same;
`sys.exit` ends the plugin, as in a handler. Tests take turns by hand: `Background.tick`.
"""

from __future__ import annotations

from _thread import allocate_lock

from nri.errors import NriError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from nri.stub.base import PluginBase

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["Background", "every", "marked"]

#: How long `Background.tick` waits for a turn that is under way, in seconds.
PATIENCE_S = 20.0


def every(seconds: float) -> Callable[[F], F]:
    """Mark a method as background work that runs each `seconds`, the first time right after Synchronize.

    Raises:
        TypeError: `seconds` is not a number.
        ValueError: `seconds` is not positive.
    """
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        given = "a method" if callable(seconds) else repr(seconds)
        raise TypeError(f"nri.every takes the seconds between two turns, not {given}: write @nri.every(30)")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"nri.every({seconds}): the seconds between two turns must be above 0: write @nri.every(30)")

    def mark(function: F) -> F:
        function._nri_every_s = seconds  # type: ignore[attr-defined]
        return function

    return mark


def marked(plugin_class: type) -> list[str]:
    """Names of the methods that are background work."""
    names = {name for base in plugin_class.__mro__ for name, own in vars(base).items() if hasattr(own, "_nri_every_s")}
    return sorted(name for name in names if hasattr(getattr(plugin_class, name), "_nri_every_s"))


class Background:
    """The running background work of one plugin. `exited` is told, once, that a method has called `sys.exit`."""

    def __init__(self, plugin: PluginBase, exited: Callable[[SystemExit], object] | None = None) -> None:
        self._plugin = plugin
        self._exited, self._told = exited, allocate_lock()
        self._stop: Any = None
        self._threads: list[Any] = []
        #: Held while a turn of the method is under way.
        self._turns: dict[str, Any] = {}

    def start(self) -> None:
        """Start every marked method; once, however often the plugin is synchronized."""
        if self._stop is not None:
            return
        names = marked(type(self._plugin))
        if not names:
            return
        import threading

        self._stop = threading.Event()
        for name in names:
            turn = self._turns[name] = allocate_lock()
            turn.acquire()  # the first turn has begun: a tick comes after it
            thread = threading.Thread(target=self._run, args=(name, turn), name=f"nri-every-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _run(self, name: str, turn: Any) -> None:
        from nri.stub.handler.coroutines import resolve

        method = getattr(self._plugin, name)
        interval_s = method._nri_every_s
        while True:
            try:
                if self._plugin.runtime.connected:
                    resolve(method())
            except Exception:
                self._plugin.log.exception("%s failed; next try in %g s", name, interval_s)
            except SystemExit as error:
                self._plugin.log.error("%s called sys.exit(%r), which ends the plugin", name, error.code)  # noqa: TRY400
                if self._exited is not None and self._told.acquire(blocking=False):
                    self._exited(error)
                return
            finally:
                turn.release()
            if self._stop.wait(interval_s):
                return
            turn.acquire()

    def tick(self) -> None:
        """Take one turn of every marked method, now and in this thread, after those that are under way.

        Raises what a method raises. Without a connection the turn is left out.
        """
        from nri.stub.handler.coroutines import resolve

        for name in marked(type(self._plugin)):
            turn = self._turns.setdefault(name, allocate_lock())
            if not turn.acquire(timeout=PATIENCE_S):
                raise NriError(f"{name} has been at work for {PATIENCE_S:g} s, and its next turn comes after that")
            try:
                if self._plugin.runtime.connected:
                    resolve(getattr(self._plugin, name)())
            finally:
                turn.release()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Ask all of it to end, and wait a little."""
        if self._stop is None:
            return
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)
