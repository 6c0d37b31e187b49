"""Run a function in another network namespace, and compare namespaces."""

from __future__ import annotations

import os
from typing import TypeVar

from nri.files import open_regular
from nri.threads import run_on_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The namespace of the calling thread.
OWN = "/proc/thread-self/ns/net"

_CLONE_NEWNET = 0x40000000

T = TypeVar("T")


def enter(path: str, action: Callable[[], T]) -> T:
    """Call `action` in the network namespace of the file `path`, and return its result.

    `action` runs on a separate thread, which then ends, so that no other code of this process runs in the namespace.
    Exceptions of `action` are raised again.

    Raises:
        OSError: the file cannot be opened, is not a network namespace, or cannot be entered.
    """
    descriptor = open_regular(path)
    results: list[T] = []

    def inside() -> None:
        _setns(descriptor)
        results.append(action())

    try:
        run_on_new_thread(inside, "nri-network-namespace")
    finally:
        os.close(descriptor)
    return results[0]


def same(one: str, other: str) -> bool:
    """Whether two files refer to the same namespace."""
    return os.path.samestat(os.stat(one), os.stat(other))


def _setns(descriptor: int) -> None:
    """Call setns(2), which the module `os` has in Python 3.12 or newer."""
    if hasattr(os, "setns"):
        os.setns(descriptor, _CLONE_NEWNET)
        return
    import ctypes  # noqa: PLC0415 - only where a pod asks for devices

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
