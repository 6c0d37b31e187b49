"""What a process holds: memory, descriptors and threads, as the kernel counts them."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from pathlib import Path


class Holdings:
    """What the process holds: memory, descriptors, threads; with the highest of each, looked at ten times a second."""

    def __init__(self) -> None:
        self.before = self.now()
        Path("/proc/self/clear_refs").write_text("5")  # the highest memory, from now on
        self.most = dict(self.before)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="holdings", daemon=True)
        self._thread.start()

    @staticmethod
    def now() -> dict[str, int]:
        """Memory in KiB, and numbers."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return {"memory": status_of("self", "VmRSS"), **Holdings._counts()}

    @staticmethod
    def _counts() -> dict[str, int]:
        return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": status_of("self", "Threads")}

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for name, number in self._counts().items():
                self.most[name] = max(self.most[name], number)

    def end(self) -> None:
        """Look no longer."""
        self._over.set()
        self._thread.join()
        self.most["memory"] = max(status_of("self", "VmHWM"), self.before["memory"])

    def settle(self, patience_s: float) -> dict[str, int]:
        """Wait until no more is held than before, for some time at most; returns what is held then."""
        until = time.monotonic() + patience_s
        while True:
            now = self.now()
            if all(now[name] <= self.before[name] for name in ("descriptors", "threads")):
                return now
            if time.monotonic() > until:
                return now
            time.sleep(0.05)


def status_of(pid: int | str, name: str) -> int:
    """A number of a process's status, as VmRSS."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)
