"""A koordlet that runs on this machine: two agents that write the same files undo each other's work.

Rules: found by its name, in the processes of the machine's root, because it runs in a container of its own; only the
beginning of what a process says of itself is read. Any process can take a name, so that of a process counts only if it
is root's, and sees the processes of the machine as koordlet has to: no user and no pod can keep the agent from
starting. Next: `nri.agent.agent`, which does not start beside one.
"""

from __future__ import annotations

import os
from typing import Final

from nri import host
from nri.errors import NriError

__all__ = ["KoordletError", "find_koordlets", "refuse_koordlet"]

_NAME: Final = "koordlet"
_MOST: Final = 4096


class KoordletError(NriError):
    """A koordlet runs here. `pids` are its processes."""

    def __init__(self, pids: list[int]) -> None:
        numbers = ", ".join(map(str, pids[:5]))
        super().__init__(
            f"koordlet runs on this node (pid {numbers}), and both would write the same files; remove it from this "
            "node (its DaemonSet, by node affinity), or set beside_koordlet = true if its hooks and strategies are off"
        )
        self.pids = pids


def find_koordlets(root: host.Root) -> list[int]:
    """The processes that are a koordlet by the name of their program, ascending."""
    own = os.getpid() if root.is_own else -1
    pids = sorted(int(name) for name in root.folders("/proc") if name.isascii() and name.isdigit())
    return [pid for pid in pids if pid != own and _is_koordlet(root, pid)]


def refuse_koordlet(root: host.Root) -> None:
    """Raise KoordletError if one runs."""
    pids = find_koordlets(root)
    if pids:
        raise KoordletError(pids)


def _is_koordlet(root: host.Root, pid: int) -> bool:
    named = _start(root, f"/proc/{pid}/comm").strip() == _NAME
    if not named:
        program = _start(root, f"/proc/{pid}/cmdline").partition("\0")[0]
        named = program.rpartition("/")[2] == _NAME
    return named and not _is_confined(root, pid)


def _is_confined(root: host.Root, pid: int) -> bool:
    """Whether a process is not root's, or has processes of its own as a container has; unknown is neither."""
    rows = (line.partition(":") for line in _start(root, f"/proc/{pid}/status").splitlines())
    status = {name: words.split() for name, _, words in rows}
    return status.get("Uid", ["0"])[0] != "0" or len(status.get("NSpid", [])) > 1


def _start(root: host.Root, path: str) -> str:
    """The beginning of a file; empty if it cannot be read, as that of a process that has just ended."""
    try:
        descriptor = root.open(path)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _MOST).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
