"""Detect another agent on this machine; two agents that write the same files undo each other's work.

An agent is recognized by its process name. Any process can take such a name, so a process counts only if it is root's
and in the machine's pid namespace; otherwise a user or a pod could keep this agent from starting.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from nri import host
from nri.agent.profile import ForeignAgent
from nri.errors import NriError
from nri.host.process import numbers

_MAX_PROCESSES: Final = 4096


class ForeignAgentError(NriError):
    """Another agent runs on this machine. `pids` are the ids of its processes."""

    def __init__(self, agent: ForeignAgent, pids: list[int]) -> None:
        numbers = ", ".join(map(str, pids[:5]))
        super().__init__(
            f"{agent.program} runs on this node (pid {numbers}), and both would write the same files; {agent.advice}"
        )
        self.pids = pids


def find(root: host.Root, program: str) -> list[int]:
    """Return the ids of the processes with this program name, ascending."""
    own_pid = os.getpid() if root.is_own else -1
    return [pid for pid in numbers(root) if pid != own_pid and _runs(root, pid, program)]


def refuse(root: host.Root, agents: Iterable[ForeignAgent]) -> None:
    """Raise ForeignAgentError if one of these agents runs."""
    for agent in agents:
        if pids := find(root, agent.program):
            raise ForeignAgentError(agent, pids)


def _runs(root: host.Root, pid: int, name: str) -> bool:
    named = _beginning_of_file(root, f"/proc/{pid}/comm").strip() == name
    if not named:
        program = _beginning_of_file(root, f"/proc/{pid}/cmdline").partition("\0")[0]
        named = program.rpartition("/")[2] == name
    return named and not _is_confined(root, pid)


def _is_confined(root: host.Root, pid: int) -> bool:
    """Return whether a process is not root's or is in another pid namespace; False if that is unknown."""
    rows = (line.partition(":") for line in _beginning_of_file(root, f"/proc/{pid}/status").splitlines())
    status = {name: words.split() for name, _, words in rows}
    return status.get("Uid", ["0"])[0] != "0" or len(status.get("NSpid", [])) > 1


def _beginning_of_file(root: host.Root, path: str) -> str:
    """Return the beginning of a file, or "" if it cannot be read, for example because the process has just ended."""
    try:
        descriptor = root.open(path)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _MAX_PROCESSES).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
