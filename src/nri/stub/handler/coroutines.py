"""Run `async def` handlers from a thread without an event loop.

If the plugin does not use asyncio, a coroutine is stepped directly, which takes half a microsecond. Once asyncio has
been imported, coroutines run as tasks on one loop in a separate thread, so that timeouts, background tasks and async
clients work as usual.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock

from nri.errors import NriError
from nri.stub.support import context

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from threading import Thread
    from typing import Any


async def _no_coroutine() -> None: ...


_sample = _no_coroutine()
#: The type of the object that calling an `async def` returns.
CoroutineType = type(_sample)
_sample.close()

_loop: asyncio.AbstractEventLoop | None = None
_thread: Thread | None = None
_lock = allocate_lock()


def run_to_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end. Returns its result or raises its exception."""
    if "asyncio" in sys.modules:
        call = context.current.get()
        if call is not None:
            call.coroutine = coroutine
        return start_task(coroutine).result()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except RuntimeError as error:
        if "no running event loop" in str(error):
            raise NriError(
                "this handler uses asyncio: import asyncio at the top of the plugin's file, which starts an event loop"
            ) from error
        raise
    coroutine.close()
    raise NriError(
        "this handler awaits something without an event loop: import asyncio at the top of the plugin's file"
    )


def resolve(result: Any) -> Any:
    """The result of a handler: the return value of a `def`, or the result of an `async def`'s coroutine."""
    return run_to_end(result) if result.__class__ is CoroutineType else result


def start_task(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Start a coroutine as a task in the loop's thread, with the caller's context. Returns a concurrent Future."""
    import asyncio

    return asyncio.run_coroutine_threadsafe(coroutine, _running_loop())


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread  # noqa: PLW0603 - there is one loop per process
    with _lock:
        if _loop is None or _loop.is_closed():
            import asyncio
            import atexit
            import threading

            atexit.register(stop_loop)  # for programs other than `nri.stub.program`; stopping twice has no effect
            loop = asyncio.new_event_loop()
            ready = threading.Event()

            def run() -> None:
                asyncio.set_event_loop(loop)
                loop.call_soon(ready.set)
                while True:
                    try:
                        loop.run_forever()
                    except (SystemExit, KeyboardInterrupt):
                        continue  # raised by a task: the waiting thread receives it, and the other tasks continue
                    loop.close()
                    return

            _thread = threading.Thread(target=run, name="nri-asyncio", daemon=True)
            _thread.start()
            ready.wait(10.0)
            _loop = loop
        return _loop


def stop_loop(timeout_s: float = 2.0) -> None:
    """Cancel all tasks and stop the loop if it runs. Waits at most `timeout_s` for the tasks, and for the thread."""
    global _loop
    with _lock:
        loop, thread, _loop = _loop, _thread, None
    if loop is None:
        return
    import asyncio

    async def cancel_all() -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=timeout_s / 2) if tasks else None
        await loop.shutdown_asyncgens()

    try:
        asyncio.run_coroutine_threadsafe(cancel_all(), loop).result(timeout_s)
    except Exception:  # noqa: BLE001
        pass  # a task that is not cancelled in time ends with the process
    loop.call_soon_threadsafe(loop.stop)
    if thread is not None:
        thread.join(timeout_s)
