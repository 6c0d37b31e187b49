"""Run calls on other threads and pass their errors to the caller."""

from __future__ import annotations

import errno
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def run_all(calls: Iterable[Callable[[], object]], name: str) -> None:
    """Run calls at the same time, each on a thread with this name, and wait for all of them.

    If a thread cannot be started, its call runs on the calling thread. Raises the error of a call that failed, of any
    class, with the errors of other calls as notes.
    """
    errors: list[BaseException] = []
    threads = []
    for call in calls:
        try:
            threads.append(_start_thread(call, errors, name))
        except RuntimeError:
            _run(call, errors)
    _join(threads, errors)


def run_on_new_thread(call: Callable[[], object], name: str) -> None:
    """Run a call on a thread that ends with it, for a call that changes the namespaces of its thread.

    Raises the call's error, of any class, and OSError if the thread cannot be started.
    """
    errors: list[BaseException] = []
    try:
        thread = _start_thread(call, errors, name)
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from None
    _join([thread], errors)


def _start_thread(call: Callable[[], object], errors: list[BaseException], name: str) -> threading.Thread:
    thread = threading.Thread(target=_run, args=(call, errors), name=name)
    thread.start()
    return thread


def _run(call: Callable[[], object], errors: list[BaseException]) -> None:
    try:
        call()
    except BaseException as error:  # noqa: BLE001  the waiting caller raises it
        errors.append(error)


def _join(threads: Iterable[threading.Thread], errors: list[BaseException]) -> None:
    for thread in threads:
        thread.join()
    if errors:
        first, *further = errors
        for error in further:
            first.add_note(f"and {type(error).__name__}: {error}")
        raise first
