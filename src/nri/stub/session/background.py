"""Background work: methods marked with `@nri.every(seconds)`, which start once the plugin is synchronized.

Each method runs in a separate thread, parallel to the handlers. It is skipped while there is no connection. Exceptions
are logged, and the method is called again after the interval. `sys.exit` ends the plugin, as in a handler.
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

#: How long `Background.tick` waits for a running call of the method, in seconds.
TICK_TIMEOUT_S = 20.0


def every(seconds: float) -> Callable[[F], F]:
    """Mark a method as background work, which is called every `seconds`, first right after Synchronize.

    Raises:
        TypeError: `seconds` is not a number.
        ValueError: `seconds` is not positive.
    """
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        argument = "a method" if callable(seconds) else repr(seconds)
        raise TypeError(f"nri.every takes the seconds between two calls, not {argument}: write @nri.every(30)")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"nri.every({seconds}): the seconds between two calls must be above 0: write @nri.every(30)")

    def mark(function: F) -> F:
        function._nri_every_s = seconds  # type: ignore[attr-defined]
        return function

    return mark


def background_methods(plugin_class: type) -> list[str]:
    """The names of the methods that are marked as background work."""
    names = {
        name for base in plugin_class.__mro__ for name, value in vars(base).items() if hasattr(value, "_nri_every_s")
    }
    return sorted(name for name in names if hasattr(getattr(plugin_class, name), "_nri_every_s"))


class Background:
    """The background work of a plugin. `exited` is called once, when a method has called `sys.exit`."""

    def __init__(self, plugin: PluginBase, exited: Callable[[SystemExit], object] | None = None) -> None:
        self._plugin = plugin
        self._exited, self._exit_lock = exited, allocate_lock()
        self._stop: Any = None
        self._threads: list[Any] = []
        #: The locks of methods, held during a call.
        self._call_locks: dict[str, Any] = {}

    def start(self) -> None:
        """Start all marked methods. Calling it again has no effect."""
        if self._stop is not None:
            return
        names = background_methods(type(self._plugin))
        if not names:
            return
        import threading

        self._stop = threading.Event()
        for name in names:
            call_lock = self._call_locks[name] = allocate_lock()
            call_lock.acquire()  # so that `tick` waits for the first call
            thread = threading.Thread(target=self._run, args=(name, call_lock), name=f"nri-every-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _run(self, name: str, call_lock: Any) -> None:
        method = getattr(self._plugin, name)
        interval_s = method._nri_every_s
        while True:
            try:
                if self._plugin.runtime.connected:
                    _call(name, method)
            except Exception:
                self._plugin.log.exception("%s failed; next try in %g s", name, interval_s)
            except SystemExit as error:
                self._plugin.log.error("%s called sys.exit(%r), which ends the plugin", name, error.code)  # noqa: TRY400
                if self._exited is not None and self._exit_lock.acquire(blocking=False):
                    self._exited(error)
                return
            finally:
                call_lock.release()
            if self._stop.wait(interval_s):
                return
            call_lock.acquire()

    def tick(self) -> None:
        """Call every marked method once in this thread, after running calls have ended. For tests.

        Exceptions of the methods are raised. Without a connection no method is called.
        """
        for name in background_methods(type(self._plugin)):
            call_lock = self._call_locks.setdefault(name, allocate_lock())
            if not call_lock.acquire(timeout=TICK_TIMEOUT_S):
                raise NriError(f"{name} cannot be called: a call of it has been running for {TICK_TIMEOUT_S:g} s")
            try:
                if self._plugin.runtime.connected:
                    _call(name, getattr(self._plugin, name))
            finally:
                call_lock.release()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop all methods, and wait at most `timeout_s` for each thread."""
        if self._stop is None:
            return
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)


def _call(name: str, method: Callable[[], Any]) -> None:
    """Call a method. Raises TypeError if the method returns an answer, because return values are ignored."""
    from nri.api.builders.builder import Answer
    from nri.stub.handler.coroutines import resolve

    result: Any = resolve(method())
    answers = result if isinstance(result, (list, tuple)) else (result,)
    for answer in answers:
        if isinstance(answer, Answer):
            kind = type(answer).__name__
            raise TypeError(f"{name} returned an {kind}, but return values are ignored: use self.runtime.update()")
